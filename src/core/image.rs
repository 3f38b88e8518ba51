//! Image references and what the exit and park images hold, as decisions need it: nothing here is
//! built, read or pushed.

pub mod alias;
pub mod exit;
pub mod exit_paths;
pub mod label;
mod parsed;
pub mod path_set;
pub mod pattern;
pub mod reference;

pub use exit::Kind;
pub use pattern::ImagePattern;
pub use reference::ImageReference;
