//! Jobs of the full size, and jobs of many days: the loop of the controller, without I/O, against a
//! store and kubelets of a few lines. The other scenarios have the real ones, which make a pull a
//! hundred times as expensive.

mod late;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Value, json};
use swaplet_controller::frame::clock::Now;
use swaplet_controller::frame::connection::Namespaces;
use swaplet_controller::frame::watch::Event;
use swaplet_controller::warm::jobs::{Happened, PullAnswer, PullJobs, PullWrite, Stored};
use swaplet_controller::warm::write::{pod, swap_patch};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::moment::Moment;
use swaplet_core::warm::pod::{WarmerPod, WarmerPodWire};
use swaplet_core::warm::pull_job::object::PullJob;
use swaplet_core::warm::warming::{Action, Answer};

use super::*;

/// What a pull takes.
const PULL: Duration = Duration::from_secs(2);

/// The pods as they are stored, and what is told of them later.
struct Mock {
    jobs: PullJobs,
    nodes: usize,
    job: Value,
    pods: BTreeMap<String, Value>,
    /// What happens to which pod, and when.
    due: VecDeque<(Moment, String)>,
    now: Moment,
    /// Containers that were started, so that each has another id.
    started: usize,
    pod_writes: usize,
    reports: usize,
    most_pods: usize,
}

impl Mock {
    /// A list job for all of so many nodes.
    fn new(nodes: usize, images_each: usize, parallelism: usize, completion: &str) -> Self {
        let settings = warm_settings(
            NAMESPACE,
            PARK,
            TimeOfDay(Arc::new(|| jiff::Timestamp::UNIX_EPOCH)),
        );
        let metadata = json!({"name": "l", "namespace": "default", "uid": "job", "resourceVersion": "1", "generation": 1});
        let spec = json!({"images": images(images_each), "parallelism": parallelism, "completionPolicy": {"type": completion}});
        Self {
            jobs: PullJobs::new(settings, Namespaces::default(), NodeTable::built_in()),
            nodes,
            job: json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImageListPullJob", "metadata": metadata, "spec": spec, "status": {}}),
            pods: BTreeMap::new(),
            due: VecDeque::new(),
            now: Moment::START,
            started: 0,
            pod_writes: 0,
            reports: 0,
            most_pods: 0,
        }
    }

    fn takes(&mut self, happened: Happened) {
        self.jobs.take(happened, self.time());
    }

    fn time(&self) -> Now {
        Now {
            moment: self.now,
            today: jiff::Timestamp::UNIX_EPOCH + self.now.since_start(),
        }
    }

    fn is_listed(&mut self) {
        for number in 0..self.nodes {
            let node = json!({"metadata": {"name": format!("n{number}"), "uid": format!("node-{number}"),
                    "labels": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
            self.takes(Happened::Node(Event::Listed(
                serde_json::from_value(node).unwrap(),
            )));
        }
        self.takes(Happened::Node(Event::ListEnd));
        self.takes(Happened::Pod(Event::ListEnd));
        self.takes(Happened::Job(ONE, Event::ListEnd));
        let job = serde_json::from_value(self.job.clone()).unwrap();
        self.takes(Happened::Job(LIST, Event::Listed(job)));
        self.takes(Happened::Job(LIST, Event::ListEnd));
    }

    /// Writes what is to be written until that is nothing, and then lets a second pass.
    fn second(&mut self) {
        loop {
            let writes = self.jobs.step(self.time(), |_, _| usize::MAX);
            if writes.is_empty() {
                break;
            }
            for write in writes {
                let answer = self.answer(&write);
                self.takes(Happened::Written(Box::new((write, answer))));
            }
            let nodes: BTreeSet<_> = self
                .pods
                .values()
                .map(|pod| pod["metadata"]["annotations"]["swaplet.io/warm-node"].as_str())
                .collect();
            assert_eq!(nodes.len(), self.pods.len(), "one pod per node");
            self.most_pods = self.most_pods.max(self.pods.len());
        }
        self.now += Duration::from_secs(1);
        while let Some((_, name)) = self.due.pop_front_if(|(at, _)| *at <= self.now) {
            self.container_starts(&name);
        }
    }

    fn answer(&mut self, write: &PullWrite) -> PullAnswer {
        match write {
            PullWrite::Warm {
                warmers,
                node,
                action,
                ..
            } => {
                self.pod_writes += 1;
                let pod = match action {
                    Action::Create {
                        shape,
                        images,
                        number,
                    } => self.create(pod(warmers, node, *shape, images, *number)),
                    Action::Swap { name, .. } => self.swap(name, action),
                    Action::Delete { name, .. } => self.delete(name),
                };
                pod.map(|pod| Stored { pod, job: None })
            }
            PullWrite::Report { report, .. } => {
                self.reports += 1;
                self.job["status"] = json!(report.status);
                self.job["status"]["startTime"] = report.started_at.to_string().into();
                self.job["status"]["completionTime"] =
                    report.completed_at.map(|at| at.to_string()).into();
                let stored =
                    PullJob::read(LIST, serde_json::from_value(self.job.clone()).unwrap()).unwrap();
                let job = Some(Box::new(stored));
                Ok(Stored { pod: None, job })
            }
            PullWrite::DeleteJob(_)
            | PullWrite::DeletePod(_)
            | PullWrite::Release(_)
            | PullWrite::Untaint(_)
            | PullWrite::CreateCache(_) => panic!("{write:?}"),
        }
    }

    fn create(&mut self, mut pod: Value) -> Answer {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        pod["metadata"]["uid"] = format!("uid-{}", self.pod_writes).into();
        pod["metadata"]["generation"] = 1.into();
        assert!(
            self.pods.insert(name.clone(), pod).is_none(),
            "{name} is there already"
        );
        self.pulls(&name)
    }

    fn swap(&mut self, name: &str, action: &Action) -> Answer {
        let pod = self.pods.get_mut(name).unwrap();
        json_patch::patch(pod, &swap_patch(action)).unwrap();
        pod["metadata"]["generation"] =
            (pod["metadata"]["generation"].as_i64().unwrap() + 1).into();
        self.pulls(name)
    }

    fn delete(&mut self, name: &str) -> Answer {
        let pod = self.pods.remove(name).unwrap();
        self.takes(Happened::Pod(Event::Deleted(wire(&pod))));
        Ok(None)
    }

    fn pulls(&mut self, name: &str) -> Answer {
        self.due.push_back((self.now + PULL, name.to_owned()));
        Ok(Some(Box::new(read(&self.pods[name]))))
    }

    fn container_starts(&mut self, name: &str) {
        self.started += 1;
        let pod = self.pods.get_mut(name).unwrap();
        let image = pod["spec"]["containers"][0]["image"].clone();
        pod["status"] = json!({
            "phase": "Running",
            "initContainerStatuses": [{"name": "park", "state": {"terminated": {"exitCode": 0}}}],
            "containerStatuses": [{"name": "warmer", "image": image, "imageID": "x@sha256:1", "containerID": format!("c{}", self.started),
                "state": {"running": {}}}],
        });
        let seen = wire(pod);
        self.takes(Happened::Pod(Event::Applied(seen)));
    }
}

fn wire(pod: &Value) -> WarmerPodWire {
    serde_json::from_value(pod.clone()).unwrap()
}

fn read(pod: &Value) -> WarmerPod {
    wire(pod).read().unwrap()
}

#[test]
fn thirty_images_on_two_hundred_nodes_five_at_a_time() {
    let (nodes, count, parallelism) = (200, 30, 5);
    let mut mock = Mock::new(nodes, count, parallelism, "Always");
    mock.is_listed();
    // Each of the slots has its share of the pulls, and there is a minute for all else.
    let pulls = u32::try_from(nodes * count / parallelism).unwrap();
    let end = Moment::START + PULL * pulls + Duration::from_secs(60);
    while mock.job["status"]["completionTime"].is_null() {
        mock.second();
        assert!(mock.now <= end, "{}", mock.job["status"]["message"]);
    }
    let status = &mock.job["status"];
    assert_eq!([&status["completed"], &status["succeeded"]], [count, count]);
    let counts = &status["imageStatuses"][count - 1];
    assert_eq!(
        [&counts["desired"], &counts["succeeded"], &counts["failed"]],
        [nodes, nodes, 0],
        "{counts}"
    );
    let (writes, reports) = (mock.pod_writes, mock.reports);
    println!(
        "{nodes} nodes, {count} images, parallelism {parallelism}: {writes} writes of pods, {reports} of the status, in {:?}",
        mock.now.since_start()
    );
    assert_eq!(
        (mock.most_pods, mock.pods.len()),
        (parallelism, 0),
        "all slots are used, and no more; no pod is left"
    );
    assert_eq!(
        writes,
        nodes * (count + 1),
        "one write for each image, the first of them a creation, and one deletion per node"
    );
    assert!(writes + reports <= 3 * nodes * count, "{reports} reports");
}

/// Most of what is told of nodes is that they live.
#[test]
fn bug9_a_heartbeat_of_a_node_is_nothing_to_do() {
    let mut mock = Mock::new(20, 2, 5, "Always");
    mock.is_listed();
    mock.second();
    let seen = |mock: &mut Mock, status: &str| {
        let node = json!({"metadata": {"name": "n3", "uid": "node-3", "labels": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}}, "status": {"conditions": [{"type": "Ready", "status": status}]}});
        let time = mock.time();
        mock.jobs.take(
            Happened::Node(Event::Applied(serde_json::from_value(node).unwrap())),
            time,
        )
    };
    assert!(!seen(&mut mock, "True") && !seen(&mut mock, "True"));
    assert!(seen(&mut mock, "False") && !seen(&mut mock, "False") && seen(&mut mock, "True"));
    while mock.job["status"]["completionTime"].is_null() {
        mock.second();
    }
    assert_eq!(
        (&mock.job["status"]["succeeded"], mock.pods.len()),
        (&json!(2), 0)
    );
}

#[test]
fn a_never_job_asks_its_nodes_again_a_day_later_each_in_its_turn() {
    let (nodes, count) = (3, 2);
    let mut mock = Mock::new(nodes, count, 1, "Never");
    mock.is_listed();
    (0..60).for_each(|_| mock.second());
    let (writes, reports) = (mock.pod_writes, mock.reports);
    assert_eq!(
        (writes, &mock.job["status"]["succeeded"]),
        (nodes * (count + 1), &json!(count))
    );
    mock.now += Duration::from_secs(86_400 - 120);
    mock.second();
    assert_eq!(
        (mock.pod_writes, mock.reports),
        (writes, reports),
        "it was silent for a day"
    );
    mock.now += Duration::from_secs(120);
    for _ in 0..60 {
        mock.second();
        let known = mock.job["status"]["imageStatuses"]
            .as_array()
            .unwrap()
            .iter()
            .map(|counts| counts["succeeded"].as_u64().unwrap());
        assert!(
            known.min() >= Some(2),
            "what is known of the others stays: {}",
            mock.job["status"]
        );
    }
    assert_eq!(
        (mock.pod_writes, mock.most_pods, mock.pods.len()),
        (2 * writes, 1, 0)
    );
    assert_eq!(mock.job["status"]["succeeded"], count);
}
