//! What is read of a run: the audit log, the processes, the bytes on the wire.

pub mod audit;
pub mod numbers;
pub mod process;
pub mod relay;
