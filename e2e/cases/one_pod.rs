//! How soon a pod is over after its main container has ended, beside a pod with a native sidecar on
//! the same node. `bench/one-pod` runs it with nothing beside it; no time that it takes fails it.

mod long {
    use std::collections::BTreeMap;

    use futures::StreamExt as _;
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::{WatchEvent, WatchParams};
    use kube::{Api, ResourceExt as _};
    use serde_json::{Value, json};
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
    use tokio::time::timeout;

    use crate::controller::Controller;
    use crate::pods::{EXITS_0, container, pod, sidecar, spec};
    use crate::world::{PATIENCE, World, phase_of};

    const ROUNDS: usize = 20;
    /// Pods of each kind that run at the same time.
    const EACH: usize = 2;
    /// Names begin with their kind.
    const KINDS: [&str; 2] = ["swaplet", "native"];

    #[tokio::test]
    async fn a_pod_ends_beside_one_with_a_native_sidecar() {
        let world = World::new("one-pod").await;
        let _controller = Controller::start(&world).await;
        let mut ends = follow(world.api());
        let mut ended = BTreeMap::new();
        for round in 0..ROUNDS {
            let mut kinds = KINDS;
            kinds.rotate_left(round % 2);
            for nth in 0..EACH {
                for kind in kinds {
                    let name = format!("{kind}-{round}-{nth}");
                    world.create_pod(pod(&name, of_kind(&world, kind))).await;
                }
            }
            let all = (round + 1) * EACH * KINDS.len();
            while ended.len() < all {
                let (name, time) = timeout(PATIENCE, ends.recv()).await.unwrap().unwrap();
                ended.entry(name).or_insert(time);
            }
        }
        let mut took = BTreeMap::<&str, Vec<f64>>::new();
        for pod in world.pods().await {
            let name = pod.name_any();
            let kind = KINDS.into_iter().find(|kind| name.starts_with(kind));
            took.entry(kind.unwrap())
                .or_default()
                .push(ended[&name] - main_ended(&pod));
        }
        println!("{}", table(&took));
        world.done().await;
    }

    /// A main container that writes down when it ends, by the clock of the node, and a sidecar that
    /// ends at once when it is told to.
    fn of_kind(world: &World, kind: &str) -> Value {
        let main = container(
            world,
            "main",
            "sleep 1; cat /proc/uptime > /dev/termination-log",
        );
        let log = sidecar(world, "log", EXITS_0);
        if kind == "swaplet" {
            return spec("Never", vec![main, log]);
        }
        let mut native = container(world, "log", EXITS_0);
        native["restartPolicy"] = json!("Always");
        let mut spec = spec("Never", vec![main]);
        spec["initContainers"] = json!([native]);
        spec
    }

    /// The names of pods that have succeeded, with the time at which a watch has told it.
    fn follow(pods: Api<Pod>) -> UnboundedReceiver<(String, f64)> {
        let (sender, receiver) = unbounded_channel();
        tokio::spawn(async move {
            while !sender.is_closed() {
                let watch = pods.watch(&WatchParams::default(), "0").await;
                let mut watch = watch.unwrap().boxed();
                while let Some(event) = watch.next().await {
                    if let Ok(WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event
                        && phase_of(&pod) == "Succeeded"
                    {
                        let _ = sender.send((pod.name_any(), uptime(&read_uptime())));
                    }
                }
            }
        });
        receiver
    }

    /// Containers see the clock of their node, which is this machine.
    fn read_uptime() -> String {
        std::fs::read_to_string("/proc/uptime").unwrap()
    }

    fn uptime(text: &str) -> f64 {
        text.split_whitespace().next().unwrap().parse().unwrap()
    }

    fn main_ended(pod: &Pod) -> f64 {
        let statuses = pod.status.as_ref().unwrap().container_statuses.as_ref();
        let main = statuses.unwrap().iter().find(|one| one.name == "main");
        let state = main.unwrap().state.as_ref().unwrap();
        let message = state.terminated.as_ref().unwrap().message.as_ref();
        uptime(message.unwrap())
    }

    fn table(took: &BTreeMap<&str, Vec<f64>>) -> String {
        let medians: Vec<_> = KINDS.iter().map(|kind| median(&took[kind])).collect();
        let mut text = "| end of main to Succeeded | median | smallest to largest | pods | ratio |\n|---|---|---|---|---|\n".to_owned();
        for (kind, middle) in KINDS.iter().zip(&medians) {
            let times = &took[kind];
            let (least, most) = times
                .iter()
                .fold((f64::MAX, 0.0_f64), |(least, most), time| {
                    (least.min(*time), most.max(*time))
                });
            let ratio = middle / medians[0];
            text += &format!(
                "| {kind} | {middle:.2} s | {least:.2} s to {most:.2} s | {} | {ratio:.2} x |\n",
                times.len()
            );
        }
        text
    }

    fn median(times: &[f64]) -> f64 {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        let half = sorted.len() / 2;
        if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[half - 1], sorted[half])
        } else {
            sorted[half]
        }
    }
}
