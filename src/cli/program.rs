//! What the program says of itself, and what all its commands share as a process.

pub(super) mod about;
pub(super) mod anywhere;
pub(super) mod log;
pub(super) mod open_files;
pub(super) mod process;
pub(super) mod table;
