//! Objects, their kinds, the two forms of events, and errors: everything that the server stores and
//! sends.

pub mod events;
pub mod json;
pub mod kinds;
pub mod log;
pub mod status;
pub mod typed;
