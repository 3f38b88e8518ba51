//! What the server stores and says, and how it is written: objects, their kinds, the two forms of
//! events, and refusals.

pub mod events;
pub mod json;
pub mod kinds;
pub mod log;
pub mod status;
pub mod typed;
