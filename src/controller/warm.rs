//! Pulling images to nodes before they are needed: the loop of pull jobs, a single run for
//! `swaplet warm`, and pre-download for workloads.

pub mod direct;
pub mod jobs;
pub mod predownload;
pub mod status;
pub mod write;
