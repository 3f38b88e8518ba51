//! swaplet ends Job sidecars, restarts single containers and warms images on nodes where no daemon
//! can run, by changing container images of live pods in place.
//!
//! The crates that the program is made of, in the direction in which data flows:
//!
//! | room | what it holds | what it may touch |
//! |---|---|---|
//! | `swaplet_core` | Kubernetes objects as swaplet reads them; every decision, as plain functions | nothing: no clock, no client, no async |
//! | [`image`] | image references, the exit, park and controller images, the registry | registries, files |
//! | `swaplet_controller` | watches, guarded writes, reports | the API server |
//! | [`cli`] | one file per subcommand | everything, at the edge |

// A reader that has been closed is no reason to stop: `swaplet_edge::say`.
#![deny(clippy::print_stderr)]

#[macro_use(say)]
extern crate swaplet_edge;

pub mod cli;

/// Image references, and the exit, park and controller images: built, named and pushed without a
/// container engine.
pub mod image {
    pub use swaplet_core::image::*;
    pub use swaplet_image::*;
}
