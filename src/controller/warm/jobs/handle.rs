//! What the loop hears: of jobs, pods, image caches, and of its own writes.

mod image_waits;
mod own;
mod see;
mod written;
