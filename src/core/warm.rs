//! Images that are pulled to nodes before they are needed: the warmer pods, the jobs that ask for
//! it, the caches of providers, and what is pulled before a workload needs it.

pub mod image_cache;
pub mod image_waits;
pub mod pod;
pub mod predownload;
pub mod pull_job;
pub mod warming;
