//! The real controller on the embedded API server, in one process and in virtual time: what happens
//! when things go wrong.
//!
//! The number in a name (t1 to t34 for ending sidecars, k9 and k11 for lists) groups the tests of
//! one fault. Each one ends with [`harness::World::assert_quiet`]: ten more minutes in which
//! nothing is written and nothing is listed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken helper is a failed test"
)]

mod alerts;
mod answers;
mod connections;
mod crowds;
mod derived;
mod edits;
mod exit_image_public;
mod explain;
mod fairness;
mod finish;
mod harness;
mod headroom;
mod hostile;
mod hot_upgrade;
mod idle;
mod leader;
mod line;
mod lives;
mod log;
mod metrics;
mod namespaces;
mod node;
mod node_classes;
mod nodes;
mod objects;
mod openkruise;
mod policies;
mod precedence;
mod predownload;
mod probe;
mod prometheus;
mod promises;
mod protect;
mod pull_jobs;
#[path = "../fuzz/random.rs"]
mod random;
mod restart;
mod rights;
mod rights_beside;
mod rotation;
mod sample;
mod seeds;
mod selection;
mod shapes;
mod streams;
mod under_never;
mod verdicts;
mod warm;
mod watches;
mod webhooks;
mod window;
mod worlds;
