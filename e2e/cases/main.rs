//! What swaplet does on a real cluster: real API server, real kubelet, real containers.
//!
//! Needs a cluster and these variables, which `e2e/cluster env` and `e2e/kind env` print:
//!
//! * `KUBECONFIG`: an administrator of the cluster
//! * `SWAPLET_E2E_REGISTRY`: a plain-HTTP registry, `host:port`, reachable from here and from the
//!   node
//! * `SWAPLET_E2E_AUDIT_LOG`: the API server's audit log, which is the witness for every count of
//!   writes
//! * `SWAPLET_E2E_CTR`: containerd's `ctr` with the arguments for the node's images, for images
//!   that no registry has, or what understands the same words for CRI-O
//! * `SWAPLET_E2E_VIRTUAL_KUBELET`: the program of the virtual nodes, for the cases about them
//! * `SWAPLET_E2E_HELM`: Helm, for the cases that install swaplet in the cluster
//!
//! Each case has a namespace of its own, so all of them run at once. The controller is installed by
//! Helm where `SWAPLET_E2E_INSTALLED` is set (`controller.rs`), and cases with the same flags share
//! an installation (`shared.rs`). Otherwise it is the real binary, with a ServiceAccount that has
//! the rights of `deploy/rbac.yaml`, `deploy/restart.yaml` and `deploy/pull-jobs.yaml`, and no
//! others, and is on the leash of `deploy/leash.yaml` and `deploy/leash-parked.yaml`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken helper is a failed case"
)]

mod audit;
mod clusters;
mod commands;
mod controller;
mod crash;
mod crds;
mod derived;
mod finish;
mod headroom;
mod hooked;
mod hot_upgrade;
mod image_caches;
mod images;
mod imported;
mod install;
mod kind;
mod kubelet;
mod leader;
mod leash;
mod leashes;
mod measured;
mod mock_node;
mod newcomer;
mod of_cluster;
mod one_pod;
mod pods;
mod predownload;
mod probe;
mod process;
mod protection;
mod pull_jobs;
mod refusals;
mod registry_proxy;
mod rescue;
mod restart;
mod restart_command;
mod restart_config;
mod restart_forged;
mod restart_images;
mod restart_openkruise;
mod restart_parking;
mod restart_readiness;
mod restart_virtual;
mod rights;
mod shared;
mod sidecar_policies;
mod tenants;
mod terminate;
mod two_tenants;
mod unwatched;
mod version;
mod virtual_kubelet;
mod virtual_nodes;
mod virtual_troubles;
mod warm;
mod warm_images;
mod warm_job;
mod warm_node;
mod warm_registry;
mod warm_status;
mod witness;
mod world;
