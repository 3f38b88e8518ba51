//! Findings of `swaplet check` in manifests besides the decisions about pods: misspelt names of
//! marks, sidecars that nothing marks, scripts in ConfigMaps, and pods that cost until they are
//! deleted.
//!
//! The input is hostile: only what is described here is kept of it, and lists have bounds.

pub mod annotations;
pub mod around;
pub mod form;
pub mod known;
pub mod names;
pub mod placement;
pub mod rules;
pub mod scripts;
