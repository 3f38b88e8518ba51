//! What several loops know of the cluster: its nodes and what was proved on them, OpenKruise, and
//! the rules of the installation.

pub mod budgets;
pub mod nodes;
pub mod openkruise;
pub mod rules;
pub mod verdict_store;
