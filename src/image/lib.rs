//! The exit, park and controller images: built, named and pushed without a container engine.
//!
//! [`layer`], [`mod@build`] and [`export`] make bytes, the same for the same input;
//! [`program_files`] reads what the controller image is made of; [`registry`], [`push`] and
//! [`docker_config`] talk to registries, and [`for_controller`] does so for the controller.

pub mod build;
pub mod docker_config;
pub mod export;
pub mod for_controller;
pub mod layer;
pub mod program_files;
pub mod push;
pub mod registry;
pub mod registry_error;

pub use build::{BuiltImage, build};
