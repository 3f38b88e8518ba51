//! The information about the program, and the process setup that all its commands share.

pub(super) mod about;
pub(super) mod anywhere;
pub(super) mod log;
pub(super) mod process;
pub(super) mod rights;
pub(super) mod table;
