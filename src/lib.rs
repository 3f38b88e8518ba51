//! swaplet ends Job sidecars, restarts single containers and warms images on nodes where no daemon can run, by changing
//! container images of live pods in place.
//!
//! The map of the house, in the direction in which everything flows:
//!
//! | room | what it holds | what it may touch |
//! |---|---|---|
//! | [`objects`] | Kubernetes objects as swaplet reads them: slim and tolerant | nothing |
//! | [`image`] | image references, the exit, park and controller images, the registry | registries, files |
//! | [`decide`] | every decision, as plain functions | nothing: no clock, no client, no async |
//! | [`controller`] | watches, the one writer, reports | the API server |
//! | [`testbed`] | an API server, its controllers and nodes in memory, for the demo and the tests | loopback ports, if asked |
//! | [`cli`] | one file per subcommand | everything, at the edge |

pub mod cli;
pub mod controller;
pub mod decide;
pub mod image;
mod isolated;
pub mod objects;
pub mod testbed;
