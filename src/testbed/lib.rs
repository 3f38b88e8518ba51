//! A cluster without a cluster: an API server in memory, the Job controller's rules and a
//! scheduler, all in virtual or real time.
//!
//! It has two users: tests, which need milliseconds and determinism, and `swaplet-demo`, which
//! shows everything to a newcomer with a single program. That is why it is product code, and a
//! crate of its own.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?.block_on(async {
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use swaplet_testbed::{ApiServer, Clock};
//!
//! let server = ApiServer::new(Clock::default());
//! let maps: kube::Api<ConfigMap> = kube::Api::default_namespaced(server.client());
//! assert!(maps.list(&kube::api::ListParams::default()).await?.items.is_empty());
//! # Ok::<(), kube::Error>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod apiserver;
pub mod clock;
pub mod job_controller;
pub mod job_rules;
mod queue;
mod reporter;
pub mod scheduler;
pub mod virtual_node;

pub use apiserver::ApiServer;
pub use clock::Clock;
