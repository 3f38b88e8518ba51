//! The decisions of swaplet, and the objects they are about: plain functions over plain values.
//!
//! Nothing here waits, reads a clock or does I/O; the dependencies of this crate do not allow it.

pub mod image;
pub mod terminate;
#[macro_use]
pub mod objects;

pub mod check;
pub mod cluster;
pub mod policies;
pub mod protect;
pub mod report;
pub mod restart;
pub mod warm;
