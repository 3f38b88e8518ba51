//! The data of the server: objects with their history, behind one lock.

pub mod codec;
pub mod list;
pub mod shared;
pub mod state;
pub mod store;
