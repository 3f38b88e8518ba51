//! The documents: what is generated is up to date.

#![allow(clippy::unwrap_used, reason = "a step of a test that fails is a panic")]

mod command_line;
