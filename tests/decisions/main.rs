//! Tests of the decisions, as plain functions: a pod as the API server sends it goes in, what to
//! write and to say comes out.
//!
//! Every test asserts silence as well as action: exactly the expected swaps and reports, and
//! nothing on a second look.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken helper is a failed test"
)]

mod bad_input;
mod blame;
mod builder;
mod check;
mod coexist;
mod event_filter;
mod evidence;
mod exit_image_public;
mod expect;
mod finish;
mod headroom;
mod headroom_model;
mod headroom_words;
mod hostile;
mod hot_upgrade;
mod image_caches;
mod image_waits;
mod lease;
mod node_classes;
mod node_facts;
mod node_verdicts;
mod nulls;
mod openkruise;
mod parity;
mod policies;
mod predownload;
mod promises;
mod proofs;
mod properties;
mod protect;
mod reasons;
mod recreate;
mod restart;
mod restart_model;
mod restart_on;
mod restart_unseen;
mod rights;
mod rollout;
mod runs_on;
mod small_pods;
mod startup_taints;
mod strange_objects;
mod told;
mod verdicts;
mod warm;
mod warm_jobs;
mod warm_known;
mod warm_places;
mod warm_pods;
mod warm_shapes;
mod writes;
