//! An API server in memory, under the real kube client as a service or on a loopback port for
//! `kubectl`.
//!
//! It behaves like the real server (1.37) as far as clients of swaplet can observe: codes, reasons
//! and details of errors, the rules of pod and status updates, versions, watches, patches,
//! deletion.
//!
//! Not implemented:
//!
//! * No authentication, authorization, policies, quotas, priority and fairness; of webhooks only
//!   one function at creation ([`ApiServer::set_webhook`]) and one at changes
//!   ([`ApiServer::set_update_webhook`]). Of the built-in admission only what
//!   changes pods: default tolerations, priority, namespace life cycle.
//! * JSON only: of protobuf no more than `kubectl create namespace`, `configmap` and
//!   `serviceaccount` send, no YAML bodies, no compression, no aggregated discovery, an empty
//!   OpenAPI v2, no schemas of types. So there is no `kubectl explain`, and no `kubectl create
//!   deployment x` and the like (415); `create -f` works.
//! * The schema of a CRD is not enforced; no defaults, and no conversion beyond `apiVersion`;
//!   printer columns know simple paths.
//! * Server-side apply merges and removes what the same manager applied before; it tracks no
//!   ownership, so there are no conflicts and no `managedFields`. Lists of custom resources are
//!   replaced whole.
//! * Validation covers names, labels, containers, images, mounts, policies, jobs and events; other
//!   rules are missing. The diff in the refusal of a pod update lists changed paths. Fields newer
//!   than 1.33 are unknown and dropped.
//! * Zero values that the real types leave out may stay if a client sends them (`hostNetwork:
//!   false`).
//! * Jobs have the only controller (in this testbed); nodes have none: no leases expire, no pod is
//!   evicted, services get no address, service accounts no token, and pods no token volume.
//!   Deployments, disruption budgets and the like are only stored.
//! * The garbage collector works within the request that makes garbage; it ignores owners that
//!   never existed.
//! * Logs contain only what [`ApiServer::set_log`] was given; no `follow`, no timestamps. No exec,
//!   attach, port-forward, proxy, eviction, scale, resize, ephemeral containers, token requests.
//! * `continue` tokens and resource versions are its own: one counter for all, dense, from 1.

mod faults;
mod http;
mod objects;
mod request;
mod server;
mod storage;
mod strategy;
mod view;
mod watch;
mod write;

pub use faults::{Effect, Faults, Reply, Rule, RuleId};
pub use http::ResponseBody;
pub use objects::kinds::{Columns, Kind};
pub use objects::log::LogKey;
pub use request::Verb;
pub use request::record::Recorded;
pub use server::ApiServer;
pub use storage::state::{UpdateWebhook, Webhook};
