//! Everything that talks to the API server: watches, the one writer, reports; and what asks registries meanwhile ([`derive`],
//! [`resolve`]) by the functions that it is given.
//!
//! ```text
//! watch -> index (memory of all pods, asks decide) -> writer -> report
//! ```
//!
//! [`run`] is the loop that connects them; only [`writer`] and [`report`] write. Of several processes one runs it ([`lead`], [`lease`]).
//! [`probe`] has pods of its own. [`snapshot`] fills an index once, for those who only ask.

pub mod budgets;
pub mod clock;
pub mod configured;
pub mod connection;
mod defects;
pub mod derive;
pub mod discovery;
pub mod disruption_budgets;
pub mod index;
mod isolated;
mod job_events;
pub mod lead;
pub mod lease;
pub mod leash;
pub mod list;
pub mod metrics;
mod named_watches;
pub mod namespaces;
pub mod nodes;
pub mod openkruise;
mod pages;
pub mod parked;
pub mod predownload;
pub mod probe;
pub mod pull_jobs;
mod queue;
pub mod report;
pub mod resolve;
pub mod restart;
pub mod restart_on;
mod rights;
pub mod run;
pub mod selection;
pub mod serve;
mod server_clock;
mod sight;
pub mod snapshot;
pub mod verdict_store;
pub mod warm;
pub mod warm_status;
pub mod watch;
pub mod watch_age;
pub mod watch_many;
pub mod writer;
pub mod writer_finish;
pub mod writer_image_cache;
pub mod writer_predownload;
pub mod writer_pull_job;
pub mod writer_recreate;
pub mod writer_restart;
pub mod writer_restart_on;
pub mod writer_startup_taint;
pub mod writer_warm;

use swaplet_core::{decide, image, objects};
