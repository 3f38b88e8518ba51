//! Webhooks that change, undo, deny or lose what swaplet writes, on a real API server: one table of
//! six of them by every kind of write of every loop. Nothing is lost, repeated, or written without
//! end.
//!
//! The first four are admission policies of the API server itself; the fifth is a webhook at a port
//! where nobody listens, the sixth one that never answers. They look at swaplet's own writes only.

mod down;
mod loops;
mod policies;
mod warms;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::audit::written_in;
use crate::of_cluster::OfCluster;
use crate::pods::{EXITS_143, container, pod};
use crate::pull_jobs::restricted;
use crate::world::{World, eventually};

/// What swaplet has to do when a write comes to nothing takes less than this; from then on an object
/// that does not change is written once a minute.
const SETTLED: Duration = Duration::from_secs(60);
/// So long each object is written at most once.
const QUIET: Duration = Duration::from_secs(50);
/// More writes of one object are a loop.
const MOST_WRITES: usize = 20;
/// For what those that select by labels look at besides pods.
const HOOKED: &str = "hooked";

/// A webhook, by what it does with a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hook {
    /// Images get the name of a mirror.
    Renames,
    /// Images get their digest.
    Pins,
    /// Everything stays as it was.
    Undoes,
    Denies,
    /// Nobody listens where it should be.
    Gone,
    /// It never answers.
    Hangs,
}

impl Hook {
    /// Whether a write has its effect, under another name of the image.
    const fn lets_through(self) -> bool {
        matches!(self, Self::Renames | Self::Pins)
    }

    /// What swaplet tells of an answer that it has got; empty where there was none of the kind.
    const fn words(self) -> &'static str {
        match self {
            Self::Renames | Self::Pins | Self::Undoes => "",
            Self::Denies => "nobody writes this",
            Self::Gone | Self::Hangs => "failed calling webhook",
        }
    }
}

/// A world in which a webhook looks at what its account writes.
struct Hooked<'a> {
    world: &'a World,
    hook: Hook,
    /// When it was in force.
    begun: Instant,
    _policies: OfCluster,
    _listener: Option<JoinHandle<()>>,
}

impl<'a> Hooked<'a> {
    /// Waits until the webhook is in force.
    async fn new(world: &'a World, hook: Hook) -> Self {
        let containers = vec![container(world, "app", EXITS_143)];
        let probe = pod("probe", restricted("Always", containers));
        world.create_pod(probe).await;
        let (mut port, mut task) = (9, None);
        if hook == Hook::Hangs {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            port = listener.local_addr().unwrap().port();
            task = Some(tokio::spawn(async move {
                let mut kept = Vec::new();
                while let Ok((stream, _)) = listener.accept().await {
                    kept.push(stream);
                }
            }));
        }
        let policies = policies::install(world, hook, port).await;
        let hooked = Self {
            world,
            hook,
            begun: Instant::now(),
            _policies: policies,
            _listener: task,
        };
        hooked.is_in_force().await;
        hooked
    }

    async fn is_in_force(&self) {
        let kubeconfig = Kubeconfig::read_from(&self.world.kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .unwrap();
        let pods: Api<Pod> =
            Api::namespaced(Client::try_from(config).unwrap(), &self.world.namespace);
        let exit = &self.world.images.exit;
        let patch = json!({"spec": {"containers": [{"name": "app", "image": exit}]}});
        let params = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        eventually(&format!("{:?} to be in force", self.hook), || async {
            match pods
                .patch("probe", &params, &Patch::Strategic(&patch))
                .await
            {
                Ok(stored) => (image_of(&stored, "app") != *exit).then_some(()),
                Err(error) => {
                    let words = self.hook.words();
                    (!words.is_empty() && error.to_string().contains(words)).then_some(())
                }
            }
        })
        .await;
    }

    /// How often the controller has written each object but Events, whatever came of it.
    fn writes(&self) -> BTreeMap<String, usize> {
        let mut writes = BTreeMap::new();
        for write in written_in(&self.world.namespace) {
            if !["events", "leases", "configmaps"].contains(&&*write.resource) {
                let object = format!("{} {} {}", write.resource, write.subresource, write.pod);
                *writes.entry(object).or_default() += 1;
            }
        }
        writes
    }

    /// Each object is written at most once a minute when there is nothing new to say, and was not
    /// written much oftener before.
    async fn is_quiet(&self) {
        sleep(SETTLED.saturating_sub(self.begun.elapsed())).await;
        let before = self.writes();
        sleep(QUIET).await;
        let after = self.writes();
        let of = |writes: &BTreeMap<String, usize>, object| writes.get(object).copied();
        for (object, count) in &after {
            let new = count - of(&before, object).unwrap_or_default();
            assert!(
                new <= 1 && *count <= MOST_WRITES,
                "{:?}: {object} was written {count} times, {new} of them in {QUIET:?}: {:#?}",
                self.hook,
                written_in(&self.world.namespace)
            );
        }
    }
}

/// The image that the spec of a pod has for a container.
fn image_of(pod: &Pod, name: &str) -> String {
    let containers = &pod.spec.as_ref().unwrap().containers;
    let found = containers.iter().find(|container| container.name == name);
    found.unwrap().image.clone().unwrap()
}

/// The reasons and words of Warnings about an object.
pub async fn warnings(world: &World, name: &str) -> Vec<String> {
    use k8s_openapi::api::events::v1::Event;
    let events: Api<Event> = world.api();
    let all = events.list(&Default::default()).await.unwrap();
    let about = all.into_iter().filter(|event| {
        event.type_.as_deref() == Some("Warning")
            && event.reporting_controller.as_deref() == Some("swaplet.io/controller")
            && event.regarding.as_ref().and_then(|of| of.name.as_deref()) == Some(name)
    });
    about
        .map(|event| {
            format!(
                "{}: {}",
                event.reason.unwrap_or_default(),
                event.note.unwrap_or_default()
            )
        })
        .collect()
}

/// The label by which what is no image of a pod is looked at too.
fn hooked(mut object: Value) -> Value {
    object["metadata"]["labels"][HOOKED] = json!("true");
    object
}

async fn every_loop(hook: Hook) {
    tokio::join!(loops::of_pods(hook), warms::images(hook));
}

#[tokio::test]
async fn a_webhook_that_renames_images() {
    every_loop(Hook::Renames).await;
}

#[tokio::test]
async fn a_webhook_that_pins_images() {
    every_loop(Hook::Pins).await;
}

#[tokio::test]
async fn a_webhook_that_undoes_what_is_written() {
    every_loop(Hook::Undoes).await;
}

#[tokio::test]
async fn a_webhook_that_denies() {
    every_loop(Hook::Denies).await;
}

#[tokio::test]
async fn a_webhook_that_is_gone() {
    every_loop(Hook::Gone).await;
}

#[tokio::test]
async fn a_webhook_that_hangs() {
    every_loop(Hook::Hangs).await;
}
