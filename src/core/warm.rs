//! Images that are pulled to nodes before they are needed: the warmer pods, the jobs that ask for
//! it, the caches of providers, what is pulled before a workload needs it, the startup taint, and what
//! is known of nodes to those who only ask.

pub mod image_cache;
pub mod image_waits;
pub mod known;
pub mod pod;
pub mod predownload;
pub mod pull_job;
pub mod startup_taint;
pub mod warming;
