//! Webhooks and policies that change, undo, deny, fail or hang what swaplet writes, on a real API
//! server: six of them by every kind of write, and the two that are down for long.

pub mod long;
