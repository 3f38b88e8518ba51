//! Image references and the contents of exit and park images, as far as decisions need them: no
//! image is built, read or pushed here.

pub mod alias;
pub mod exit;
pub mod exit_paths;
pub mod label;
pub(crate) mod parsed;
pub mod path_set;
pub mod pattern;
pub mod reference;
pub mod renamed;

pub use exit::Kind;
pub use pattern::ImagePattern;
pub use reference::ImageReference;
