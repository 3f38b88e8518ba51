//! The API server with its etcd, what is in it, and who speaks to it.

pub mod api;
pub mod driver;
pub mod objects;
pub mod seed;
pub mod server;
pub mod watch;
