//! The state of the cluster that several loops share: its nodes and what was proved on them,
//! OpenKruise, budgets, the rules of the installation, and who writes statuses that it shares.

pub mod budgets;
pub mod nodes;
pub mod openkruise;
pub mod rules;
pub(crate) mod status_owner;
pub mod verdict_store;
