//! A request, its pod and one life of the controller; what a node does with the pod is said by
//! hand.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use swaplet::image::alias::original;
use swaplet::image::build::derived_paths;
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::headroom::Headroom;
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::node::KubeletVersion;
use swaplet_core::objects::pod::KRUISE_POD_READY;
use swaplet_core::objects::recreate_request::RequestPhase;
use swaplet_core::objects::runs_on::RunsOn;
use swaplet_core::report::decision::Report;
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::pod::{RestartPod, RestartPodWire};
use swaplet_core::restart::reconcile::{
    Action, Around, Change, Decision, Memory, ParkImage, Sight, decide,
};
use swaplet_core::restart::request::{RestartRequest, RestartRequestWire, StatePhase};

use crate::expect::EXIT;

/// The digest that the node reports.
pub const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
/// When requests are created, and when lives begin.
const CREATED: &str = "2026-01-01T00:00:00Z";

/// The image of a container of these tests before it is restarted, and after.
pub fn images(name: &str) -> (String, String) {
    (format!("r.example/{name}:1"), restarted(name, 2))
}

/// The image after it was restarted by this change of the pod.
pub fn restarted(name: &str, number: u32) -> String {
    format!("r.example/{name}:1-restart-{number}@{DIGEST}")
}

/// A running pod of the containers `app` and `log`, as the API server sends it.
pub fn pod(policy: &str) -> Value {
    let spec = |name: &str| json!({"name": name, "image": images(name).0, "imagePullPolicy": "IfNotPresent"});
    json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "pu", "resourceVersion": "1", "generation": 1},
        "spec": {"restartPolicy": policy, "nodeName": "n", "terminationGracePeriodSeconds": 30, "containers": [spec("app"), spec("log")]},
        "status": {"phase": "Running", "containerStatuses": [status("app"), status("log")]},
    })
}

fn status(name: &str) -> Value {
    json!({"name": name, "image": images(name).0, "imageID": format!("r.example/{name}@{DIGEST}"), "containerID": format!("containerd://{name}-0"),
        "ready": true, "restartCount": 0, "state": {"running": {"startedAt": "2025-12-31T00:00:00Z"}}})
}

/// The same with the readiness gate, and what the message of its condition says; `True` where it
/// says nothing.
pub fn gated_pod(message: &str) -> Value {
    let mut pod = pod("Always");
    pod["spec"]["readinessGates"] = json!([{"conditionType": KRUISE_POD_READY}]);
    let status = if message.is_empty() { "True" } else { "False" };
    pod["status"]["conditions"] = json!([{"type": "Ready", "status": status}, {"type": KRUISE_POD_READY, "status": status, "message": message}]);
    pod
}

/// The park image of these tests.
pub const PARK: &str = "r.example/park:1";

/// Whether an image is the one that the container `app` of these tests had, an alias of it, or the
/// park image: no other may be written.
pub fn is_honest(image: &str) -> bool {
    [&*images("app").0, PARK].contains(&image)
        || original(image) == format!("r.example/app:1@{DIGEST}")
}

/// With the standard paths.
pub fn park_image() -> ParkImage {
    ParkImage::new(PARK.parse().unwrap(), derived_paths([""; 0]).unwrap())
}

/// The same pod on a node that reports no digests, so that there is no alias.
pub fn without_digests(policy: &str) -> Value {
    let mut pod = pod(policy);
    pod["status"]["observedGeneration"] = json!(1);
    for status in pod["status"]["containerStatuses"].as_array_mut().unwrap() {
        status["imageID"] = json!("");
    }
    pod
}

/// A request for containers of that pod.
pub fn request(containers: &[&str], strategy: &Value) -> Value {
    let containers: Vec<_> = containers
        .iter()
        .map(|name| json!({"name": name}))
        .collect();
    json!({
        "metadata": {"name": "r", "namespace": "ns", "uid": "ru", "resourceVersion": "1", "creationTimestamp": CREATED},
        "spec": {"podName": "p", "containers": containers, "strategy": strategy},
    })
}

/// A request, its pod, and one life of the controller.
#[derive(Clone)]
pub struct World {
    pub request: RestartRequest,
    pub pod: Option<RestartPod>,
    pub memory: Memory,
    pub park: Option<ParkImage>,
    pub node: Option<NodeClass>,
    pub kubelet: Option<KubeletVersion>,
    pub room: Headroom,
    /// There is room for so many restarts.
    pub most: u32,
    pub is_first: bool,
    pub runs_on: RunsOn,
    pub left_to_vendor: Option<bool>,
    pub now: Moment,
    /// How long the processes before this one lived.
    lived: Duration,
    /// What was told, in its order.
    pub told: Vec<Report>,
    /// So many images were changed.
    pub swaps: usize,
}

pub fn read_pod(pod: &Value) -> RestartPod {
    serde_json::from_value::<RestartPodWire>(pod.clone())
        .unwrap()
        .read()
        .unwrap()
}

pub fn read_request(request: &Value) -> RestartRequest {
    serde_json::from_value::<RestartRequestWire>(request.clone())
        .unwrap()
        .read()
        .unwrap()
}

impl World {
    pub fn new(request: &Value, pod: &Value) -> Self {
        Self {
            request: read_request(request),
            pod: Some(read_pod(pod)),
            memory: Memory::default(),
            park: None,
            node: Some(NodeClass::Kubelet),
            kubelet: KubeletVersion::read("v1.34.4"),
            room: Headroom::Free,
            most: u32::MAX,
            is_first: true,
            runs_on: RunsOn::named(Some("linux"), Some("amd64")),
            left_to_vendor: Some(true),
            now: Moment::START,
            lived: Duration::ZERO,
            told: Vec::new(),
            swaps: 0,
        }
    }

    /// A request to restart `app`.
    pub fn of(policy: &str) -> Self {
        Self::new(&request(&["app"], &json!({})), &pod(policy))
    }

    pub fn decide(&mut self) -> Decision {
        let exit_images = ExitImages::new(Some(EXIT.parse().unwrap()), Vec::new());
        let room = |restarts| {
            if restarts <= self.most {
                self.room.clone()
            } else {
                Headroom::TooEarly
            }
        };
        let today = self.today();
        let around = Around {
            exit_images: &exit_images,
            park: self.park.as_ref(),
            node: self.node,
            kubelet: self.kubelet,
            runs_on: self.runs_on,
            room: &room,
            is_first: self.is_first,
            left_to_vendor: self.left_to_vendor,
            now: self.now,
            today,
        };
        let sight = self.pod.as_ref().map_or(Sight::Absent, Sight::There);
        if let Some(pod) = &self.pod {
            self.memory.observe(&self.request, pod, self.now);
        }
        let decision = decide(&self.request, sight, &self.memory, &around);
        self.memory.note(&decision, self.now);
        decision
    }

    /// Decides and writes until there is nothing to write; the last decision.
    pub fn settle(&mut self) -> Decision {
        for _ in 0..20 {
            let decision = self.decide();
            let Some(action) = &decision.action else {
                return decision;
            };
            self.write(action);
            self.told.extend(decision.done);
        }
        panic!("it writes for ever: {:?}", self.decide());
    }

    /// Decides and writes until this action would be next.
    pub fn settle_until(&mut self, is_it: impl Fn(&Action) -> bool) -> Action {
        for _ in 0..20 {
            let action = self.decide().action.expect("nothing is to be written");
            if is_it(&action) {
                return action;
            }
            self.write(&action);
        }
        panic!("it never comes");
    }

    /// What the API server does with a write.
    pub fn write(&mut self, action: &Action) {
        let today = self.today();
        apply(&mut self.request, self.pod.as_mut(), action, today);
        self.swaps += usize::from(matches!(action, Action::Swap(..)));
    }

    /// The time of day.
    pub fn today(&self) -> Timestamp {
        let created: Timestamp = CREATED.parse().unwrap();
        created
            .checked_add(self.lived + self.now.since_start())
            .unwrap()
    }

    /// Another life goes on.
    pub fn dies(&mut self) -> &mut Self {
        self.memory = Memory::default();
        self
    }

    /// Another process goes on, whose clock begins now.
    pub fn succeeds(&mut self) -> &mut Self {
        self.lived += self.now.since_start();
        self.now = Moment::START;
        self.dies()
    }

    pub fn later(&mut self, seconds: u64) -> &mut Self {
        self.now += Duration::from_secs(seconds);
        self
    }

    /// Changes the pod as a merge patch of `status.containerStatuses` by name.
    pub fn node_says(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut RestartPod, usize),
    ) -> &mut Self {
        let pod = self.pod.as_mut().unwrap();
        let index = pod
            .pod
            .containers
            .iter()
            .position(|container| &*container.name == name)
            .unwrap();
        change(pod, index);
        self
    }

    /// The node shows another container, ready or not.
    pub fn restarts(&mut self, name: &str, ready: bool) -> &mut Self {
        // The node is done a second later.
        let started_at = self.today().checked_add(Duration::from_secs(1)).unwrap();
        self.node_says(name, |pod, index| {
            let status = pod.pod.containers[index].status.as_mut().unwrap();
            status.restart_count += 1;
            status.container_id = format!("containerd://{name}-{}", status.restart_count).into();
            status.state = swaplet_core::objects::pod::ContainerState::Running {
                started_at: Some(started_at),
            };
            pod.details[index].ready = ready;
        })
    }

    pub fn state(&self, name: &str) -> (StatePhase, String) {
        let state = self.request.state(name);
        (state.phase, state.message.to_string())
    }

    pub fn image(&self, name: &str) -> &str {
        &self.pod.as_ref().unwrap().find(name).unwrap().1.image
    }

    /// The request is completed, and nothing is written any more, by this life or by the next; what
    /// became of a container.
    #[track_caller]
    pub fn assert_over(&mut self, name: &str) -> (StatePhase, String) {
        let last = self.settle();
        assert_eq!(
            (last.reason, last.action, last.again),
            (Reason::RequestOver, None, None),
            "{:?}",
            self.request
        );
        assert_eq!(self.request.phase, RequestPhase::Completed);
        assert!(self.request.completed_at.is_some() && !self.request.active);
        assert!(
            self.request.containers.iter().all(|wanted| self
                .request
                .state(&wanted.name)
                .phase
                .is_final()),
            "{:?}",
            self.request.states
        );
        assert_eq!(self.dies().decide().action, None);
        self.state(name)
    }

    pub fn reasons(&self) -> Vec<Reason> {
        self.told.iter().map(|report| report.reason).collect()
    }
}

/// What the API server stores.
pub fn apply(
    request: &mut RestartRequest,
    pod: Option<&mut RestartPod>,
    action: &Action,
    today: Timestamp,
) {
    match action {
        Action::Accept(acceptance) => {
            request.pod_uid = Some(acceptance.pod_uid.clone());
            request.active = true;
            request.journal = Some(acceptance.journal.clone());
            request
                .containers
                .iter_mut()
                .for_each(|wanted| wanted.has_context |= !acceptance.containers.is_empty());
            request.strategy.grace_seconds =
                request.strategy.grace_seconds.or(acceptance.grace_seconds);
        }
        Action::WriteDown(journal) => request.journal = Some(journal.clone()),
        Action::Report(status) => {
            request.phase = status.phase;
            request.message.clone_from(&status.message);
            request.states.clone_from(&status.states);
            request.completed_at = (status.phase == RequestPhase::Completed)
                .then_some(today)
                .or(request.completed_at);
        }
        Action::Finalize(finalizers) => request.finalizers.clone_from(finalizers),
        Action::NoteUnready => request.unready_acquired = Some(today.to_string().into()),
        Action::SetReadiness(written) => {
            let readiness = pod
                .expect("no pod")
                .readiness
                .as_mut()
                .expect("no readiness gate");
            readiness.gate = Some(written.gate.clone());
            readiness.is_ready &= !written.unready;
        }
        Action::Release => request.active = false,
        Action::Delete => request.deleting = true,
        Action::Swap(change) => swap(pod.expect("no pod"), change),
    }
}

/// Changes the images of a pod.
fn swap(pod: &mut RestartPod, change: &Change) {
    assert_eq!(change.generation, pod.generation);
    if let Some(note) = &change.note {
        assert_eq!(note.version, pod.pod.version);
        pod.parked.clone_from(&note.parked);
    }
    for swap in &change.swaps {
        let native = pod
            .native_sidecars
            .iter_mut()
            .map(|native| (native.index, &mut native.container));
        let containers = pod.pod.containers.iter_mut().enumerate();
        let mut list: Vec<_> = if swap.is_native_sidecar {
            native.collect()
        } else {
            containers.collect()
        };
        let container = &mut *list
            .iter_mut()
            .find(|(index, _)| *index == swap.index)
            .unwrap()
            .1;
        assert_eq!(
            (&container.name, &container.image),
            (&swap.container, &swap.from)
        );
        container.image.clone_from(&swap.to);
    }
    pod.generation = pod.generation.map(|generation| generation + 1);
}
