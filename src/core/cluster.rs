//! Facts about the cluster that several products share: nodes and what was proved on them, owners,
//! the exit images of the installation, the ledger of restarts, and the leader election.

pub mod budget;
pub mod daemon_pod;
pub mod exit_images;
pub mod headroom;
pub mod lease;
pub mod node_class;
pub mod node_images;
pub mod node_table;
pub mod node_verdicts;
pub mod owner;
