//! A small scheduler: binds pods to Ready nodes by node selector, the node names of a required
//! affinity, and taints, the emptiest node first.
//!
//! Not implemented: resources, other affinity, spreading, volumes, priorities, preemption. It also
//! removes the `not-ready` taint from Ready nodes, which the node controller does in a cluster.

use std::collections::{BTreeMap, HashMap};
use std::future::ready;
use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::{
    Binding, Node, NodeSelectorRequirement, ObjectReference, Pod, PodSpec, Taint, Toleration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::queue::Queue;
use super::reporter::Reporter;
use crate::clock::Clock;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The wait before a pod that fits nowhere is retried, unless a change of a node brings it forward.
const AGAIN: Duration = Duration::from_secs(60);

/// Binds pods until it is dropped.
pub async fn run(client: Client, clock: Clock) {
    let unbound = watcher::Config::default().fields("spec.nodeName=");
    let pods = watcher(Api::<Pod>::all(client.clone()), unbound)
        .default_backoff()
        .touched_objects();
    let nodes = watcher(Api::<Node>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .touched_objects();
    let pods = pods.filter_map(|pod| ready(pod.ok()));
    let nodes = nodes.filter_map(|node| ready(node.ok()));
    pin_mut!(pods, nodes);
    let reporter = Reporter::new(client.clone(), clock, "default-scheduler");
    let scheduler = Scheduler { client, reporter };
    let mut queue = Queue::default();
    loop {
        tokio::select! {
            Some(pod) = pods.next() => queue.add((pod.namespace().unwrap_or_default(), pod.name_any()), Duration::ZERO),
            Some(node) = nodes.next() => scheduler.node_changed(&mut queue, &node).await,
            key = queue.next() => scheduler.look(&mut queue, key).await,
        }
    }
}

struct Scheduler {
    client: Client,
    reporter: Reporter,
}

impl Scheduler {
    async fn look(&self, queue: &mut Queue<(String, String)>, key: (String, String)) {
        match self.schedule(&key).await {
            Ok(true) => queue.succeeded(&key),
            Ok(false) => queue.add(key, AGAIN),
            Err(_) => queue.retry(key),
        }
    }

    /// Handles a changed node: a Ready one may fit waiting pods.
    async fn node_changed(&self, queue: &mut Queue<(String, String)>, node: &Node) {
        if !is_ready(node) {
            return;
        }
        // A failure is retried with the next change of the node.
        let _ = self.untaint(node).await;
        let unbound = ListParams::default().fields("spec.nodeName=");
        let waiting = Api::<Pod>::all(self.client.clone()).list(&unbound).await;
        for pod in waiting.into_iter().flatten() {
            queue.add(
                (pod.namespace().unwrap_or_default(), pod.name_any()),
                Duration::ZERO,
            );
        }
    }

    async fn untaint(&self, node: &Node) -> kube::Result<()> {
        let taints = taints(node).to_vec();
        if !taints.iter().any(|taint| taint.key == NOT_READY) {
            return Ok(());
        }
        let rest: Vec<_> = taints
            .into_iter()
            .filter(|taint| taint.key != NOT_READY)
            .collect();
        let patch = Patch::Merge(
            json!({"metadata": {"resourceVersion": node.resource_version()}, "spec": {"taints": rest}}),
        );
        Api::<Node>::all(self.client.clone())
            .patch(&node.name_any(), &PatchParams::default(), &patch)
            .await
            .map(|_| ())
    }

    /// Schedules a pod; returns true if nothing more is left to do for it.
    async fn schedule(&self, (namespace, name): &(String, String)) -> kube::Result<bool> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let Some(pod) = api.get_opt(name).await?.filter(is_waiting) else {
            return Ok(true);
        };
        let nodes = Api::<Node>::all(self.client.clone())
            .list(&ListParams::default())
            .await?
            .items;
        let load = self.load().await?;
        match choose(&pod, &nodes, &load) {
            Some(node) => {
                self.bind(&api, &pod, &node).await?;
                Ok(true)
            }
            None => {
                self.refuse(&api, &pod, &unschedulable(&pod, &nodes))
                    .await?;
                Ok(false)
            }
        }
    }

    /// Returns the number of pods per node.
    async fn load(&self) -> kube::Result<HashMap<String, usize>> {
        let mut load = HashMap::new();
        for pod in Api::<Pod>::all(self.client.clone())
            .list(&ListParams::default().fields("spec.nodeName!="))
            .await?
        {
            *load
                .entry(pod.spec.and_then(|spec| spec.node_name).unwrap_or_default())
                .or_insert(0) += 1;
        }
        Ok(load)
    }

    async fn bind(&self, api: &Api<Pod>, pod: &Pod, node: &str) -> kube::Result<()> {
        let target = ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        };
        let metadata = ObjectMeta {
            name: pod.metadata.name.clone(),
            uid: pod.uid(),
            ..ObjectMeta::default()
        };
        let binding = Binding { metadata, target };
        let _: serde_json::Value = api
            .create_subresource("binding", &pod.name_any(), &PostParams::default(), &binding)
            .await?;
        let note = format!(
            "Successfully assigned {}/{} to {node}",
            pod.namespace().unwrap_or_default(),
            pod.name_any()
        );
        self.reporter
            .report(pod, ("Normal", "Scheduled"), &note)
            .await;
        Ok(())
    }

    async fn refuse(&self, api: &Api<Pod>, pod: &Pod, message: &str) -> kube::Result<()> {
        let known = pod
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten())
            .any(|one| one.message.as_deref() == Some(message));
        if known {
            return Ok(());
        }
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message});
        let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        api.patch_status(&pod.name_any(), &PatchParams::default(), &patch)
            .await?;
        self.reporter
            .report(pod, ("Warning", "FailedScheduling"), message)
            .await;
        Ok(())
    }
}

/// Returns true if this scheduler has to bind the pod.
fn is_waiting(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    let free = spec.is_some_and(|spec| {
        let ours = matches!(
            spec.scheduler_name.as_deref(),
            None | Some("default-scheduler")
        );
        spec.node_name.is_none() && ours && spec.scheduling_gates.as_ref().is_none_or(Vec::is_empty)
    });
    free && pod.metadata.deletion_timestamp.is_none()
}

/// Returns the node for a pod: the fitting one with the fewest pods, by name among equals.
pub fn choose(pod: &Pod, nodes: &[Node], load: &HashMap<String, usize>) -> Option<String> {
    let fitting = nodes
        .iter()
        .filter(|node| fits(pod, node))
        .map(ResourceExt::name_any);
    fitting.min_by_key(|name| (load.get(name).copied().unwrap_or(0), name.clone()))
}

fn fits(pod: &Pod, node: &Node) -> bool {
    obstacle(pod, node).is_none()
}

/// Returns why no node fits the pod, in the words of the real scheduler.
fn unschedulable(pod: &Pod, nodes: &[Node]) -> String {
    let mut obstacles = BTreeMap::new();
    for obstacle in nodes.iter().filter_map(|node| obstacle(pod, node)) {
        *obstacles.entry(obstacle).or_insert(0) += 1;
    }
    let told: Vec<_> = obstacles
        .iter()
        .map(|(obstacle, many)| format!("{many} node(s) {obstacle}"))
        .collect();
    let all = nodes.len();
    match told.join(", ") {
        told if told.is_empty() => format!("0/{all} nodes are available."),
        told => format!("0/{all} nodes are available: {told}."),
    }
}

/// Returns why the pod does not fit on the node; `None` if it does.
fn obstacle(pod: &Pod, node: &Node) -> Option<String> {
    let Some(spec) = &pod.spec else {
        return Some("cannot run a pod without a spec".to_owned());
    };
    let wanted = spec.node_selector.iter().flatten();
    let selected = wanted
        .into_iter()
        .all(|(label, value)| node.labels().get(label) == Some(value));
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let closed = taints(node).iter().find(|taint| {
        taint.effect != "PreferNoSchedule"
            && taint.key != NOT_READY
            && !tolerations.iter().any(|one| tolerates(one, taint))
    });
    let cordoned = node
        .spec
        .as_ref()
        .is_some_and(|spec| spec.unschedulable == Some(true));
    if cordoned {
        Some("were unschedulable".to_owned())
    } else if !is_ready(node) {
        Some(format!("had untolerated taint {{{NOT_READY}: }}"))
    } else if let Some(taint) = closed {
        let value = taint.value.as_deref().unwrap_or_default();
        Some(format!("had untolerated taint {{{}: {value}}}", taint.key))
    } else if !selected || !is_named(spec, &node.name_any()) {
        Some("didn't match Pod's node affinity/selector".to_owned())
    } else {
        None
    }
}

/// Returns true if a required node affinity names the node, or there is none.
fn is_named(spec: &PodSpec, node: &str) -> bool {
    let affinity = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref());
    let Some(required) = affinity.and_then(|affinity| {
        affinity
            .required_during_scheduling_ignored_during_execution
            .as_ref()
    }) else {
        return true;
    };
    let names = |field: &NodeSelectorRequirement| {
        field.key == "metadata.name"
            && field.operator == "In"
            && field.values.iter().flatten().any(|name| name == node)
    };
    required
        .node_selector_terms
        .iter()
        .any(|term| term.match_fields.iter().flatten().all(names))
}

fn taints(node: &Node) -> &[Taint] {
    node.spec
        .as_ref()
        .and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default()
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration
        .effect
        .as_deref()
        .is_none_or(|effect| effect.is_empty() || effect == taint.effect);
    let key = toleration.key.as_deref().unwrap_or_default();
    let exists = toleration.operator.as_deref() == Some("Exists");
    let value = toleration.value.as_deref().unwrap_or_default()
        == taint.value.as_deref().unwrap_or_default();
    effect && ((key.is_empty() && exists) || (key == taint.key && (exists || value)))
}

fn is_ready(node: &Node) -> bool {
    node.status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
        .any(|one| one.type_ == "Ready" && one.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, taints: serde_json::Value) -> Node {
        serde_json::from_value(
            json!({"metadata": {"name": name, "labels": {"zone": name}}, "spec": {"taints": taints},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
        )
        .unwrap()
    }

    fn pod(spec: serde_json::Value) -> Pod {
        let mut spec = spec;
        spec["containers"] = json!([]);
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
    }

    #[test]
    fn the_emptiest_node_that_fits() {
        let virtual_taint =
            json!([{"key": "virtual-kubelet.io/provider", "value": "x", "effect": "NoSchedule"}]);
        let nodes = [
            node("a", json!([])),
            node("b", json!([])),
            node("v", virtual_taint),
        ];
        let load = HashMap::from([("a".to_owned(), 1)]);
        assert_eq!(choose(&pod(json!({})), &nodes, &load).as_deref(), Some("b"));
        assert_eq!(
            choose(&pod(json!({"nodeSelector": {"zone": "a"}})), &nodes, &load).as_deref(),
            Some("a")
        );
        assert_eq!(
            choose(&pod(json!({"nodeSelector": {"zone": "v"}})), &nodes, &load),
            None
        );
        let tolerant = json!({"nodeSelector": {"zone": "v"}, "tolerations": [{"key": "virtual-kubelet.io/provider", "operator": "Exists"}]});
        assert_eq!(choose(&pod(tolerant), &nodes, &load).as_deref(), Some("v"));
        let by_name = |name: &str| {
            let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}})
        };
        assert_eq!(
            choose(&pod(by_name("a")), &nodes, &load).as_deref(),
            Some("a")
        );
        assert_eq!(choose(&pod(by_name("c")), &nodes, &load), None);
        assert_eq!(
            unschedulable(&pod(json!({"nodeSelector": {"zone": "c"}})), &nodes),
            "0/3 nodes are available: 2 node(s) didn't match Pod's node affinity/selector, \
             1 node(s) had untolerated taint {virtual-kubelet.io/provider: x}."
        );
    }
}
