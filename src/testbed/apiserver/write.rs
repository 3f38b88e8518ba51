//! Create, update, patch and delete.

mod apply;
mod bind;
mod checks;
mod create;
mod delete;
mod json_patch;
mod patch;
mod strategic;
mod update;

pub use checks::Written;
