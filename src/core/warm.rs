//! Pulling images to nodes before they are needed: warmer pods, pull jobs, image caches of
//! providers, pre-download for workloads and the startup taint; and what is known about images on
//! nodes, for read-only queries.

pub mod image_cache;
pub mod image_waits;
pub mod known;
pub mod pod;
pub mod predownload;
pub mod pull_job;
pub mod startup_taint;
pub mod warming;
