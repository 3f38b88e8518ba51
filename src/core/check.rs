//! What `swaplet check` sees in manifests besides what is decided about pods: names that were
//! meant to mark, sidecars that nothing marks, scripts in ConfigMaps, and pods that cost until they
//! are deleted.
//!
//! What comes in is hostile: only what is said here is kept of it, and lists have bounds.

pub mod around;
pub mod form;
pub mod known;
pub mod names;
pub mod placement;
pub mod rules;
pub mod scripts;
