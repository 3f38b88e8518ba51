//! Deletion protection of Namespaces and CRDs, with which everything in them goes. An admission
//! policy cannot count: so what is in them is counted here, and the count is kept on the object,
//! where the policy reads it (`deploy/protection.yaml`).

pub mod decide;
pub mod held;
pub mod kinds;
pub mod object;
