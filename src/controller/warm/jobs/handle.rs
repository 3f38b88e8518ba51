//! The handling of events: of jobs, pods and image caches, and of the results of writes.

mod image_waits;
mod observe;
mod own;
mod written;
