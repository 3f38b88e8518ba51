//! The work that is under way for a job: its pods, and the progress of its nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::short_digest::short_digest;
use swaplet_core::warm::image_cache::{CacheState, Cached};
use swaplet_core::warm::pod::{Shape, WarmerPod};
use swaplet_core::warm::pull_job::object::{PodWishes, PullJob, PullSpec};
use swaplet_core::warm::pull_job::{Stage, TargetNode, is_over, limits, wants};
use swaplet_core::warm::warming::Warming;

use super::Selected;
use crate::warm::jobs::step::Pods;
use crate::warm::jobs::{Nodes, WarmSettings};
use crate::warm::write::Warmers;

/// How long a pod lives, in seconds, if its controller is gone for good: one day.
const LIFE_SECONDS: u64 = 86_400;
/// The form of the pods. It changes when no further image may be pulled in pods of earlier
/// versions: those then belong to a different run, and are deleted.
const FORM: u32 = 3;

/// The work that is under way for a job.
pub(crate) struct Run {
    pub spec: PullSpec,
    pub warmers: Arc<Warmers>,
    pub warming: Warming,
    /// The uids of the wanted nodes, by name.
    pub nodes: BTreeMap<Box<str>, Box<str>>,
    /// The wanted nodes that use an image cache of their provider.
    pub cached: Cached,
    /// The name of the wanted cache, and since when it is wanted.
    pub cache_since: Option<(Box<str>, Moment)>,
    /// The stage that it ends with, if it does not wait for its end.
    pub gave_up: Option<Stage>,
}

impl Run {
    pub fn new(spec: PullSpec, warmers: Arc<Warmers>, longest_try: Duration) -> Self {
        let warming = Warming::new(spec.images.clone(), limits(&spec, 0, 0, longest_try));
        Self {
            spec,
            warmers,
            warming,
            nodes: BTreeMap::new(),
            cached: Cached::default(),
            cache_since: None,
            gave_up: None,
        }
    }

    pub fn made(&self, pod: &WarmerPod) -> bool {
        pod.run == self.warmers.run
            && pod.namespace == self.warmers.namespace
            && self
                .warmers
                .job
                .as_ref()
                .is_some_and(|(_, uid)| *uid == pod.job)
    }

    /// Returns true if everything is final, and kubelets have had time to report the pulls.
    pub fn is_over(&mut self, now: Moment) -> bool {
        let is_over = is_over(&self.spec, &self.warming, &self.cached);
        self.warming.has_ended(is_over, now)
    }

    pub fn stage(&self, is_over: bool) -> Stage {
        if is_over {
            self.gave_up.unwrap_or(Stage::Completed)
        } else {
            Stage::Running
        }
    }

    pub fn change(&mut self, spec: &PullSpec) {
        if self.spec.images != spec.images {
            self.warming.set_images(spec.images.clone());
        }
        self.spec = spec.clone();
    }

    /// Adds the nodes that the job wants, and drops the others. Existing pods are taken over.
    pub fn aim(&mut self, nodes: &Nodes, selected: &Selected, pods: &Pods, now: Moment) {
        let all = nodes.all.iter().map(|((_, name), ..)| name);
        let names = self.nodes.keys().chain(all).cloned().collect();
        self.aim_at(names, nodes, selected, pods, now);
    }

    /// Does the same for these nodes only.
    pub fn aim_at(
        &mut self,
        names: BTreeSet<Box<str>>,
        nodes: &Nodes,
        selected: &Selected,
        pods: &Pods,
        now: Moment,
    ) {
        let pod_nodes = selected.nodes();
        let is_wanted =
            |name: &str, node: &TargetNode| wants(&self.spec.targets, name, node, &pod_nodes);
        let (mut wanted, mut left) = (Vec::new(), Vec::new());
        for name in &names {
            let node = nodes.get(name).filter(|node| is_wanted(name, node));
            if self
                .nodes
                .get(name)
                .is_some_and(|uid| node.is_none_or(|node| node.uid != *uid))
            {
                left.push(name);
            }
            wanted.extend(node.map(|node| (&**name, node)));
        }
        for name in left {
            self.nodes.remove(name);
            self.warming.leave(name);
            self.cached.nodes.remove(name);
        }
        let mut known: BTreeMap<&str, Vec<&WarmerPod>> = BTreeMap::new();
        let pods = pods.iter().map(|(_, pod, _)| pod);
        for pod in pods.filter(|pod| names.contains(&pod.node) && self.made(pod)) {
            known.entry(&pod.node).or_default().push(pod);
        }
        for (name, node) in wanted {
            let is_new = self.nodes.insert(name.into(), node.uid.clone()).is_none();
            match &node.shape {
                Err(_) if node.has_image_caches && nodes.uses_image_caches => {
                    self.warming.leave(name);
                    self.cached.nodes.insert(name.into());
                    continue;
                }
                Err(why) => self.warming.skip(name, why.clone()),
                Ok(shape) if is_new || !self.warming.has(name) => {
                    let known = known.get(name).map(Vec::as_slice).unwrap_or_default();
                    self.begin(name, *shape, node.ready, known, now);
                }
                Ok(_) => self.warming.observe_node(name, node.ready, now),
            }
            self.cached.nodes.remove(name);
        }
    }

    /// Fails everything that is not final.
    pub fn give_up(&mut self, stage: Stage) {
        let why = stage.words();
        self.warming.give_up(why);
        if self.cached.waits() {
            self.cached.state = CacheState::Failed(why.to_owned());
        }
        self.gave_up = Some(stage);
    }

    fn begin(&mut self, node: &str, shape: Shape, ready: bool, pods: &[&WarmerPod], now: Moment) {
        self.warming.add(node, shape, ready, now);
        pods.iter()
            .for_each(|pod| self.warming.observe_pod((*pod).clone(), now));
    }
}

/// Returns the pod settings. A job with pull secrets has its pods in the namespace of the secrets,
/// which are neither read nor copied.
pub(crate) fn warmers(
    job: &PullJob,
    has_object: bool,
    spec: &PullSpec,
    settings: &WarmSettings,
) -> Warmers {
    let namespace = if spec.pods.pull_secrets.is_empty() {
        &settings.namespace
    } else {
        &job.namespace
    };
    Warmers {
        namespace: namespace.clone(),
        run: run_id(&job.uid, namespace, &settings.park_image, &spec.pods),
        park_image: settings.park_image.clone(),
        job: Some((job.namespace.clone(), job.uid.clone())),
        // An owner that is in another namespace, or is no object, counts as one that is gone.
        owner: (has_object && *namespace == job.namespace).then(|| (job.kind, job.name.clone())),
        wishes: spec.pods.clone(),
        life_seconds: LIFE_SECONDS,
    }
}

/// Returns the id of a run. Pods with different settings belong to a different one.
fn run_id(job: &str, namespace: &str, park_image: &str, wishes: &PodWishes) -> Box<str> {
    let pods = format!("{job} {namespace} {park_image} {wishes:?} {FORM}");
    short_digest(pods, 5).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They have the park program at a path that an image can know.
    #[test]
    fn a3_pods_of_the_form_before_belong_to_a_different_run() {
        let wishes = PodWishes::default();
        let before: Box<str> = short_digest(format!("u w r.example/park:1 {wishes:?}"), 5).into();
        assert_ne!(run_id("u", "w", "r.example/park:1", &wishes), before);
    }
}
