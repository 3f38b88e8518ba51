//! Lets a sequence happen at an API server, the real or the embedded one, in real or in virtual
//! time, and tells what was seen.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Event as PodEvent, Pod};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};
use swaplet_testbed::virtual_node::trace::SeenContainer;
use swaplet_testbed::virtual_node::{Seen, Trace};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::sequence::{Operation, Sequence, container_name};

/// Nothing that is waited for takes longer.
const PATIENCE: Duration = Duration::from_secs(300);

#[derive(Clone, Debug)]
pub struct Outcome {
    /// What is compared.
    pub seen: Value,
    /// How much later than it should an operation was over.
    pub late: Duration,
}

/// A deleted pod is gone so soon after its end.
const DELETION: Duration = Duration::from_secs(10);

/// What has happened at the end is told so soon after it.
const TELLING: Duration = Duration::from_millis(200);

/// The pod as it is shown; nothing: it is gone.
type Shown = (Instant, Option<Value>);

struct Player {
    pods: Api<DynamicObject>,
    name: String,
    watch: mpsc::UnboundedReceiver<Shown>,
    shown: Vec<Shown>,
}

/// Plays it with a pod of this name on this node.
pub async fn play(
    client: Client,
    namespace: &str,
    name: &str,
    node: &str,
    sequence: &Sequence,
) -> Outcome {
    let pods: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<Pod>(&()));
    let (sender, mut watch) = mpsc::unbounded_channel();
    let task = tokio::spawn(follow(pods.clone(), name.to_owned(), sender));
    // The first thing that is told is that there is no such pod.
    timeout(PATIENCE, watch.recv())
        .await
        .expect("a watch")
        .expect("a watch");
    let mut player = Player {
        pods,
        name: name.to_owned(),
        watch,
        shown: Vec::new(),
    };
    player.create(sequence.body(name, node)).await;
    let start = player.start().await;
    let (mut late, mut answers) = (Duration::ZERO, Vec::new());
    for (at, operation) in &sequence.operations {
        sleep_until(start + *at).await;
        answers.push(player.act(operation).await);
        late = late.max(start.elapsed().saturating_sub(*at));
    }
    sleep_until(start + sequence.end + TELLING).await;
    player.drain();
    if sequence.is_over() {
        player.gone().await;
    }
    task.abort();
    let mut seen = player.seen(sequence.words.len());
    seen["answers"] = answers.into();
    seen["events"] = events(client, namespace, name).await;
    let now = DeleteParams {
        grace_period_seconds: Some(0),
        ..DeleteParams::default()
    };
    let _ = player.pods.delete(name, &now).await;
    Outcome { seen, late }
}

async fn follow(pods: Api<DynamicObject>, name: String, sender: mpsc::UnboundedSender<Shown>) {
    let config = Config::default().fields(&format!("metadata.name={name}"));
    let mut stream = watcher(pods, config).default_backoff().boxed();
    while let Some(event) = stream.next().await {
        let pod = |pod: DynamicObject| serde_json::to_value(pod).unwrap();
        let told: &[Option<Value>] = &match event {
            Ok(Event::InitDone) => vec![None],
            Ok(Event::Apply(shown) | Event::InitApply(shown)) => vec![Some(pod(shown))],
            Ok(Event::Delete(shown)) => vec![Some(pod(shown)), None],
            Ok(Event::Init) | Err(_) => Vec::new(),
        };
        for shown in told {
            if sender.send((Instant::now(), shown.clone())).is_err() {
                return;
            }
        }
    }
}

impl Player {
    async fn create(&self, body: Value) {
        let body: DynamicObject = serde_json::from_value(body).unwrap();
        self.pods
            .create(&PostParams::default(), &body)
            .await
            .unwrap();
    }

    /// When all containers are seen running.
    async fn start(&mut self) -> Instant {
        loop {
            let (at, pod) = timeout(PATIENCE, self.watch.recv())
                .await
                .expect("a pod that runs")
                .expect("a watch");
            let runs = pod
                .as_ref()
                .is_some_and(|pod| pod["status"]["phase"] == "Running");
            self.shown.push((at, pod));
            if runs {
                return at;
            }
        }
    }

    fn drain(&mut self) {
        while let Ok(shown) = self.watch.try_recv() {
            self.shown.push(shown);
        }
    }

    fn is_gone(&self) -> bool {
        self.shown.last().is_some_and(|(_, pod)| pod.is_none())
    }

    /// A busy library takes its time to delete a pod: how long is not compared, but that it does
    /// is.
    async fn gone(&mut self) {
        let end = Instant::now() + DELETION;
        while !self.is_gone() {
            let Ok(Some(shown)) = timeout_at(end, self.watch.recv()).await else {
                return;
            };
            self.shown.push(shown);
        }
    }

    /// Does it; gives the code of the answer.
    async fn act(&self, operation: &Operation) -> Value {
        let usual = PatchParams::default();
        let done = match operation {
            Operation::Image(index, image) => {
                let patch = json!([{"op": "replace", "path": format!("/spec/containers/{index}/image"), "value": image}]);
                let patch = Patch::Json::<()>(serde_json::from_value(patch).unwrap());
                self.pods.patch(&self.name, &usual, &patch).await.map(drop)
            }
            Operation::Label(value) => {
                let patch = json!({"metadata": {"labels": {"a": value.to_string()}}});
                self.pods
                    .patch(&self.name, &usual, &Patch::Merge(patch))
                    .await
                    .map(drop)
            }
            Operation::Phase(phase) => {
                let patch = json!({"status": {"phase": phase}});
                self.pods
                    .patch_status(&self.name, &usual, &Patch::Merge(patch))
                    .await
                    .map(drop)
            }
            Operation::Delete(grace) => {
                let delete = DeleteParams {
                    grace_period_seconds: Some(*grace),
                    ..DeleteParams::default()
                };
                self.pods.delete(&self.name, &delete).await.map(drop)
            }
        };
        match done {
            Ok(()) => 200.into(),
            Err(kube::Error::Api(status)) => status.code.into(),
            Err(error) => panic!("{operation:?}: {error}"),
        }
    }

    fn pods(&self) -> impl Iterator<Item = &Value> {
        self.shown.iter().filter_map(|(_, pod)| pod.as_ref())
    }

    fn seen(&self, containers: usize) -> Value {
        let mut trace = Trace::default();
        self.pods().for_each(|pod| trace.push(pod));
        let last = trace.last().expect("a pod was seen");
        let names: Vec<String> = (0..containers).map(container_name).collect();
        let each =
            |what: &dyn Fn(&str) -> Value| names.iter().map(|name| what(name)).collect::<Value>();
        let all: Vec<&Value> = self.pods().collect();
        json!({
            "phases": trace.phases(),
            "final": final_state(last),
            "gone": self.is_gone(),
            "states": each(&|name| shown_states(&trace, name)),
            "ids": each(&|name| values(&all, name, "containerID").len().into()),
            "imageIDs": each(&|name| values(&all, name, "imageID").into_iter().map(repository).collect()),
            "labels": all.last().map(|pod| pod["metadata"]["labels"].clone()),
        })
    }
}

/// What comes before a container runs is not always shown: the library tells only the newest
/// status.
fn shown_states(trace: &Trace, name: &str) -> Value {
    trace
        .states(name)
        .into_iter()
        .filter(|state| !state.starts_with("waiting"))
        .collect()
}

fn final_state(seen: &Seen) -> Value {
    let container = |one: &SeenContainer| {
        json!({"name": one.name, "state": one.state, "reason": one.reason, "exitCode": one.exit_code, "lastExitCode": one.last_exit_code,
            "restarts": one.restarts, "image": one.image, "ready": one.ready})
    };
    let containers: Vec<Value> = seen.containers.iter().map(container).collect();
    json!({"phase": seen.phase, "reason": seen.reason, "containers": containers})
}

/// What was seen in this field of a container's status, each value once.
fn values(pods: &[&Value], container: &str, field: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for status in pods.iter().flat_map(|pod| {
        pod["status"]["containerStatuses"]
            .as_array()
            .into_iter()
            .flatten()
    }) {
        let value = status[field].as_str().unwrap_or_default();
        if status["name"] == container
            && status["state"]["waiting"].is_null()
            && !found.iter().any(|known| known == value)
        {
            found.push(value.to_owned());
        }
    }
    found
}

/// An imageID without its digest, which each side makes up for itself.
fn repository(image_id: String) -> Value {
    image_id
        .split_once('@')
        .map_or(image_id.clone(), |(repository, _)| {
            format!("{repository}@...")
        })
        .into()
}

/// The reasons of what the library says about the pod, with their counts; how often it fails
/// depends on how fast it is.
async fn events(client: Client, namespace: &str, pod: &str) -> Value {
    let events: Api<PodEvent> = Api::namespaced(client, namespace);
    let about = ListParams::default().fields(&format!("involvedObject.name={pod}"));
    let mut counts: BTreeMap<String, i32> = BTreeMap::new();
    for event in events.list(&about).await.unwrap() {
        let reason = event.reason.unwrap_or_default();
        if reason.starts_with("ProviderUpdate") {
            *counts.entry(reason).or_default() += event.count.unwrap_or(1);
        }
    }
    counts
        .into_iter()
        .map(|(reason, count)| {
            if reason.ends_with("Failed") {
                (reason, "some".into())
            } else {
                (reason, Value::from(count))
            }
        })
        .collect()
}
