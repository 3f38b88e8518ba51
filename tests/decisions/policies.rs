//! Which policy is about a container, and what annotations and policies make of the end of a pod.

mod choice;
mod properties;
mod reading;
mod steps;
mod suggest;
mod time;

use serde_json::{Value, json};
use swaplet_core::cluster::headroom::Ledger;
use swaplet_core::objects::job::Job;
use swaplet_core::objects::sidecar_policy::{PolicyKind, SidecarPolicy};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::policies::set::Policies;

use crate::builder::{ContainerBuilder, PodBuilder, main_container, pod};
use crate::expect::Life;

fn read(kind: PolicyKind, name: &str, spec: Value) -> SidecarPolicy {
    let metadata = json!({"name": name, "namespace": "batch", "uid": name, "generation": 3});
    let object = BoundedObject::from(json!({"metadata": metadata, "spec": spec}));
    SidecarPolicy::read(kind, object).unwrap()
}

fn policies(specs: &[(&str, Value)]) -> Policies {
    let mut policies = Policies::default();
    for (name, spec) in specs {
        policies.apply(&read(PolicyKind::Cluster, name, spec.clone()));
    }
    policies
}

fn owned(pod: PodBuilder, api_version: &str, kind: &str) -> PodBuilder {
    pod.set(
        "/metadata/ownerReferences",
        json!([{"apiVersion": api_version, "kind": kind, "name": "job", "uid": "job-uid", "controller": true}]),
    )
}

/// A pod of a Job whose main container has ended, with these beside it.
fn done(policy: &str, beside: &[ContainerBuilder]) -> PodBuilder {
    let pod = owned(pod(policy), "batch/v1", "Job").with(main_container("main").ended(0));
    beside.iter().cloned().fold(pod, PodBuilder::with)
}

fn running(name: &str) -> ContainerBuilder {
    main_container(name).running()
}

/// A life on a kubelet that has seen the Job of these pods, with room for all that is to be done.
fn new_life() -> Life {
    Life {
        headroom: counted(100),
        ..Life::new()
    }
}

/// The Job of these pods, with this limit.
fn counted(backoff_limit: u32) -> Ledger {
    let mut headroom = Ledger::default();
    headroom.pod_list_starts();
    headroom.pod_list_ends(0);
    headroom.job_list_starts();
    headroom.job(&Job {
        uid: "job-uid".into(),
        namespace: Box::default(),
        backoff_limit,
        failures_borne: backoff_limit,
    });
    headroom.job_list_ends();
    headroom
}
