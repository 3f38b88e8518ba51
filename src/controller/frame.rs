//! The foundation of all loops: watches, lists, stores of objects, the queue, what is in flight,
//! clocks, panics, the connection, the Lease, health, metrics, guarded writes and maps kept in
//! ConfigMaps. It knows no product.

pub mod clock;
pub mod connection;
pub(crate) mod in_flight;
pub(crate) mod isolated;
pub(crate) mod kept_map;
pub mod lease;
pub mod list;
pub mod metrics;
pub(crate) mod queue;
pub mod remarks;
pub mod serve;
pub(crate) mod store;
pub mod watch;
pub mod writer;
