//! Images that are pulled to nodes before they are needed: the jobs that ask for it, one run for
//! `swaplet warm`, and what is pulled before a workload needs it.

pub mod direct;
pub mod jobs;
pub mod predownload;
pub mod resolve;
pub mod status;
pub mod write;
