//! What is under way for a job: its pods, and what is known of its nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use swaplet_core::objects::values::short_digest::short_digest;
use swaplet_core::warm::image_cache::{CacheState, Cached};
use swaplet_core::warm::pod::WarmerPod;
use swaplet_core::warm::pull_job::object::{PullJob, PullSpec};
use swaplet_core::warm::pull_job::pins::{Pull, Target};
use swaplet_core::warm::pull_job::{Stage, TargetNode, is_over, limits, wants};
use swaplet_core::warm::warming::Warming;
use swaplet_core::warm::warming::shape::Shapes;

use super::selected::Selected;
use crate::warm::direct::LATE_EVENTS;
use crate::warm::jobs::nodes::Nodes;
use crate::warm::jobs::settings::WarmSettings;
use crate::warm::write::Warmers;

/// A pod whose controller is gone for good ends after a day.
const LIFE_SECONDS: u64 = 86_400;

/// What is under way.
pub(crate) struct Run {
    pub spec: PullSpec,
    /// What is pulled for its images.
    pub targets: Vec<Target>,
    pub warmers: Arc<Warmers>,
    pub warming: Warming,
    /// The nodes that are wanted, each with its uid.
    pub nodes: BTreeMap<Box<str>, Box<str>>,
    /// Those of them for which a cache of their provider stands.
    pub cached: Cached,
    /// Since when this cache is wanted.
    pub cache_since: Option<(Box<str>, Duration)>,
    pub gave_up: bool,
    /// Since when everything is final.
    over_since: Option<Duration>,
}

impl Run {
    pub fn new(
        spec: PullSpec,
        targets: Vec<Target>,
        warmers: Arc<Warmers>,
        longest_try: Duration,
    ) -> Self {
        let warming = Warming::new(pulled(&targets), limits(&spec, 0, 0, longest_try));
        Self {
            spec,
            targets,
            warmers,
            warming,
            nodes: BTreeMap::new(),
            cached: Cached::default(),
            cache_since: None,
            gave_up: false,
            over_since: None,
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

    /// Whether everything is final, and kubelets have had the time to tell of the pulls.
    pub fn is_over(&mut self, now: Duration) -> bool {
        if !is_over(&self.spec, &self.targets, &self.warming, &self.cached) {
            self.over_since = None;
            return false;
        }
        let since = *self.over_since.get_or_insert(now);
        now >= since + LATE_EVENTS || !self.warming.is_told_nothing_of_a_pull()
    }

    /// Whether its end comes by time: kubelets may have more to tell.
    pub const fn waits_for_its_end(&self) -> bool {
        self.over_since.is_some()
    }

    pub const fn stage(&self, is_over: bool) -> Stage {
        match (is_over, self.gave_up) {
            (false, _) => Stage::Running,
            (true, false) => Stage::Completed,
            (true, true) => Stage::DeadlineExceeded,
        }
    }

    pub fn change(&mut self, spec: &PullSpec, targets: Vec<Target>) {
        let pulled = pulled(&targets);
        if self.warming.images() != pulled {
            self.warming.set_images(pulled);
        }
        (self.spec, self.targets) = (spec.clone(), targets);
    }

    /// Takes the nodes that the job wants, and leaves the others. Pods that are there already are
    /// taken over.
    pub fn aim(
        &mut self,
        nodes: &Nodes,
        selected: &Selected,
        pods: &BTreeMap<Box<str>, WarmerPod>,
        now: Duration,
    ) {
        let names = self.nodes.keys().chain(nodes.all.keys()).cloned().collect();
        self.aim_at(names, nodes, selected, pods, now);
    }

    /// The same for these nodes only.
    pub fn aim_at(
        &mut self,
        names: BTreeSet<Box<str>>,
        nodes: &Nodes,
        selected: &Selected,
        pods: &BTreeMap<Box<str>, WarmerPod>,
        now: Duration,
    ) {
        let pod_nodes = selected.nodes();
        let is_wanted =
            |name: &str, node: &TargetNode| wants(&self.spec.targets, name, node, &pod_nodes);
        let (mut wanted, mut left) = (Vec::new(), Vec::new());
        for name in &names {
            let node = nodes.all.get(name).filter(|node| is_wanted(name, node));
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
        for pod in pods
            .values()
            .filter(|pod| names.contains(&pod.node) && self.made(pod))
        {
            known.entry(&pod.node).or_default().push(pod);
        }
        for (name, node) in wanted {
            let is_new = self.nodes.insert(name.into(), node.uid.clone()).is_none();
            match &node.shapes {
                Err(_) if node.has_image_caches && nodes.uses_image_caches => {
                    self.warming.leave(name);
                    self.cached.nodes.insert(name.into());
                    continue;
                }
                Err(why) => self.warming.skip(name, why.clone()),
                Ok(shapes) if is_new || !self.warming.has(name) => {
                    let known = known.get(name).map(Vec::as_slice).unwrap_or_default();
                    self.begin(name, *shapes, node.ready, known, now);
                }
                Ok(_) => self.warming.see_node(name, node.ready, now),
            }
            self.cached.nodes.remove(name);
        }
    }

    /// Nothing more is waited for.
    pub fn give_up(&mut self, why: &str) {
        self.warming.give_up(why);
        if self.cached.waits() {
            self.cached.state = CacheState::Failed(why.to_owned());
        }
        self.gave_up = true;
    }

    fn begin(
        &mut self,
        node: &str,
        shapes: Shapes,
        ready: bool,
        pods: &[&WarmerPod],
        now: Duration,
    ) {
        self.warming.add(node, shapes, ready, now);
        pods.iter()
            .for_each(|pod| self.warming.see_pod((*pod).clone(), now));
    }
}

/// The images that are pulled, each once: two tags may stand for one digest.
fn pulled(targets: &[Target]) -> Vec<Box<str>> {
    let mut images = Vec::new();
    for target in targets {
        if let Pull::Image(image) = &target.pull
            && !images.contains(image)
        {
            images.push(image.clone());
        }
    }
    images
}

/// Jobs with secrets have their pods where the secrets are: these are neither read nor copied.
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
    // Pods that are made in another way are those of another run.
    let pods = format!(
        "{} {namespace} {} {:?}",
        job.uid, settings.park_image, spec.pods
    );
    Warmers {
        namespace: namespace.clone(),
        run: short_digest(pods, 5).into(),
        park_image: settings.park_image.clone(),
        job: Some((job.namespace.clone(), job.uid.clone())),
        // An owner of another namespace counts as one that is gone, as does one that is no object.
        owner: (has_object && *namespace == job.namespace).then(|| (job.kind, job.name.clone())),
        wishes: spec.pods.clone(),
        life_seconds: LIFE_SECONDS,
    }
}
