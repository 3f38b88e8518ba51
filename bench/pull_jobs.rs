//! What jobs that pull images cost the loop, by how many there are and on how many nodes: `cargo
//! bench --bench pull_jobs`.
//!
//! The state of the loop without I/O. Printed is what a heartbeat of a node takes, a turn in which
//! nothing is new, and an image that is pulled (its pod, the turns after it and their writes), and
//! each as a multiple of the smallest case. Nothing is judged.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark stops where its fixture is broken"
)]
#![expect(clippy::disallowed_methods, reason = "it measures real time")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use swaplet_controller::frame::clock::{Now, TimeOfDay};
use swaplet_controller::frame::connection::Namespaces;
use swaplet_controller::frame::watch::Event;
use swaplet_controller::warm::jobs::{
    Happened, PullAnswer, PullJobs, PullWrite, Stored, WarmSettings,
};
use swaplet_controller::warm::write::pod;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::moment::Moment;
use swaplet_core::terminate::openkruise::Coexist;
use swaplet_core::warm::pod::WarmerPodWire;
use swaplet_core::warm::pull_job::object::JobKind;
use swaplet_core::warm::pull_job::sandbox::SandboxKeys;
use swaplet_core::warm::warming::Action;

/// Nodes, jobs of one image, and what `parallelism` says.
const CASES: [(usize, usize, &str); 5] = [
    (500, 1, "10"),
    (500, 30, "10"),
    (5000, 1, "10"),
    (5000, 30, "10"),
    (5000, 30, "10%"),
];
const HEARTBEATS: u32 = 5000;
const TURNS: u32 = 20;
const PULLS: u32 = 20;

struct World {
    jobs: PullJobs,
    pods: BTreeMap<String, Value>,
    made: usize,
    now: Moment,
}

fn main() {
    let mut first: Option<[Duration; 3]> = None;
    for (nodes, jobs, parallelism) in CASES {
        let mut world = World::new(nodes, jobs, parallelism);
        let costs = [world.heartbeats(nodes), world.turns(), world.pulls()];
        let first = first.get_or_insert(costs);
        let times = |index: usize| costs[index].as_secs_f64() / first[index].as_secs_f64();
        println!(
            "{nodes} nodes, {jobs} jobs, parallelism {parallelism}, {} pods: a heartbeat {:.1?} ({:.1} x), a turn {:.1?} ({:.1} x), a pull {:.1?} ({:.1} x)",
            world.pods.len(),
            costs[0],
            times(0),
            costs[1],
            times(1),
            costs[2],
            times(2),
        );
    }
}

impl World {
    fn new(nodes: usize, jobs: usize, parallelism: &str) -> Self {
        let settings = WarmSettings {
            namespace: "warm".into(),
            park_image: "registry.example/park:v1".into(),
            exit_image: None,
            startup_taint_timeout: None,
            startup_taint_namespaces: BTreeSet::new(),
            longest_try: Duration::from_secs(1800),
            coexist: Coexist::default(),
            image_caches: None,
            sandbox_keys: SandboxKeys::default(),
            time_of_day: TimeOfDay(Arc::new(|| Timestamp::UNIX_EPOCH)),
        };
        let jobs_of = PullJobs::new(settings, Namespaces::default(), NodeTable::built_in());
        let mut world = Self {
            jobs: jobs_of,
            pods: BTreeMap::new(),
            made: 0,
            now: Moment::START,
        };
        for number in 0..nodes {
            world.takes(heartbeat(number));
        }
        world.takes(Happened::Node(Event::ListEnd));
        world.takes(Happened::Pod(Event::ListEnd));
        world.takes(Happened::Job(JobKind::ImageListPullJob, Event::ListEnd));
        for number in 0..jobs {
            let name = format!("j{number}");
            let spec = json!({"image": format!("registry.example/app{number}:v1"), "parallelism": parallelism, "completionPolicy": {}});
            let job = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob", "spec": spec, "status": {},
                "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1", "generation": 1}});
            world.takes(Happened::Job(
                JobKind::ImagePullJob,
                Event::Listed(serde_json::from_value(job).expect("a job")),
            ));
        }
        world.takes(Happened::Job(JobKind::ImagePullJob, Event::ListEnd));
        world.settles();
        world
    }

    fn takes(&mut self, happened: Happened) -> bool {
        self.jobs.take(happened, self.time())
    }

    fn time(&self) -> Now {
        Now {
            moment: self.now,
            today: Timestamp::UNIX_EPOCH + self.now.since_start(),
        }
    }

    /// Does what is to be done until that is nothing.
    fn settles(&mut self) {
        loop {
            let writes = self.jobs.step(self.time(), |_, _| usize::MAX);
            if writes.is_empty() {
                return;
            }
            for write in writes {
                let answer = self.answer(&write);
                self.takes(Happened::Written(Box::new((write, answer))));
            }
        }
    }

    fn answer(&mut self, write: &PullWrite) -> PullAnswer {
        match write {
            PullWrite::Warm {
                warmers,
                node,
                action:
                    Action::Create {
                        shape,
                        images,
                        number,
                    },
                ..
            } => {
                let mut pod = pod(warmers, node, *shape, images, *number);
                self.made += 1;
                pod["metadata"]["uid"] = format!("uid-{}", self.made).into();
                pod["metadata"]["generation"] = 1.into();
                let stored = Some(Box::new(wire(&pod).read().expect("a pod")));
                self.pods.insert(
                    pod["metadata"]["name"].as_str().expect("a name").to_owned(),
                    pod,
                );
                let (pod, job) = (stored, None);
                Ok(Stored { pod, job })
            }
            PullWrite::Warm {
                action: Action::Delete { name, .. },
                ..
            } => {
                let pod = self.pods.remove(&**name).expect("the pod");
                self.takes(Happened::Pod(Event::Deleted(wire(&pod))));
                Ok(Stored::default())
            }
            PullWrite::Report { .. } => Ok(Stored::default()),
            other => panic!("{other:?}"),
        }
    }

    /// What one heartbeat takes, with the turn that it makes, if any.
    fn heartbeats(&mut self, nodes: usize) -> Duration {
        let events: Vec<_> = (0..HEARTBEATS as usize)
            .map(|number| heartbeat(number % nodes))
            .collect();
        let begin = Instant::now();
        for event in events {
            if self.takes(event) {
                self.settles();
            }
        }
        begin.elapsed() / HEARTBEATS
    }

    fn turns(&mut self) -> Duration {
        let begin = Instant::now();
        for _ in 0..TURNS {
            assert!(
                self.jobs.step(self.time(), |_, _| usize::MAX).is_empty(),
                "nothing is new"
            );
        }
        begin.elapsed() / TURNS
    }

    /// One image after another is there: its pod goes, and another one comes.
    fn pulls(&mut self) -> Duration {
        let begin = Instant::now();
        for _ in 0..PULLS {
            let (_, pod) = self.pods.iter_mut().next().expect("a pod");
            pod["status"] = json!({
                "phase": "Running",
                "initContainerStatuses": [{"name": "park", "state": {"terminated": {"exitCode": 0}}}],
                "containerStatuses": [{"name": "warmer", "image": pod["spec"]["containers"][0]["image"], "imageID": "x@sha256:1",
                    "containerID": "c1", "state": {"running": {}}}],
            });
            let seen = wire(pod);
            self.takes(Happened::Pod(Event::Applied(seen)));
            self.settles();
        }
        begin.elapsed() / PULLS
    }
}

fn heartbeat(number: usize) -> Happened {
    let node = json!({"metadata": {"name": format!("n{number}"), "uid": format!("node-{number}")},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    Happened::Node(Event::Applied(
        serde_json::from_value(node).expect("a node"),
    ))
}

fn wire(pod: &Value) -> WarmerPodWire {
    serde_json::from_value(pod.clone()).expect("a pod")
}
