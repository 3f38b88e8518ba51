//! The foundation of all loops: watches, lists, the queue, clocks, panics, the connection, the
//! Lease, health, metrics and guarded writes. It knows no product.

pub mod clock;
pub mod connection;
pub(crate) mod isolated;
pub mod lease;
pub mod list;
pub mod metrics;
pub(crate) mod queue;
pub mod serve;
pub mod watch;
pub mod writer;
