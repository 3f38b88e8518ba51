//! The state of the cluster that several loops share: its nodes and what was proved on them,
//! OpenKruise, budgets, and the rules of the installation.

pub mod budgets;
pub mod nodes;
pub mod openkruise;
pub mod rules;
pub mod verdict_store;
