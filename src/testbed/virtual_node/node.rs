//! The node, at an API server.

mod machine;
mod object;
mod options;
mod registration;
mod reporter;
mod run;

pub use machine::{Disturbance, Machine};
pub use options::{NodeOptions, Profile, Taint};
pub use registration::{MOCK_NODE, Refused};
pub use run::VirtualNode;
