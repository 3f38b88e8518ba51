//! Deletion protection of Namespaces and CRDs, whose deletion removes everything in them. An
//! admission policy cannot count. So the contents are counted here, and the count is kept on the
//! object, where the policy reads it (`deploy/protection.yaml`).

pub mod decide;
pub mod held;
pub mod kinds;
pub mod object;
