//! The embedded API server, through the real kube client and the real `kubectl`.

mod common;
mod faults;
mod kubectl;
mod objects;
mod watches;
