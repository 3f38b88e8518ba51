//! Image references, and the exit, park and controller images: built, named and pushed without a container engine.
//!
//! [`mod@reference`] and [`pattern`] are pure and used by decisions; [`exit`], [`exit_paths`], [`label`], [`layer`], [`mod@build`] and [`export`]
//! make bytes, the same for the same input; [`program_files`] reads what the controller image is made of; [`registry`], [`push`] and [`docker_config`] talk to registries.

pub mod alias;
pub mod build;
pub mod docker_config;
pub mod exit;
pub mod exit_paths;
pub mod export;
pub mod label;
pub mod layer;
pub mod pattern;
pub mod program_files;
pub mod push;
pub mod reference;
pub mod registry;
pub mod registry_error;

pub use build::{BuiltImage, build};
pub use exit::Kind;
pub use pattern::ImagePattern;
pub use reference::ImageReference;
