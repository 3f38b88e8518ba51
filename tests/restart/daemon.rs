//! Whoever carries requests out, as far as the one who makes them sees it: OpenKruise's daemon and
//! manager in its phases, step by step.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use crate::restart::world::{World, running};

/// When the new containers are started.
pub const AFTER: &str = "2026-01-01T00:01:00Z";
const STEP: Duration = Duration::from_millis(700);

/// What becomes of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// The containers are restarted.
    #[default]
    Succeeds,
    /// The first container cannot be.
    Fails,
    /// It is begun with and never ends.
    Hangs,
    /// It never is.
    Ignored,
    /// It is carried out, and the pod does not become ready again.
    StaysUnready,
}

/// What was seen, in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn add(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }
}

/// Carries out whatever is asked for, as the pods' names say.
pub fn start(world: &mut World, fates: &[(&str, Fate)]) -> Log {
    let log = Log::default();
    let kind = GroupVersionKind::gvk("apps.kruise.io", "v1alpha1", "ContainerRecreateRequest");
    let requests: Api<DynamicObject> =
        Api::default_namespaced_with(world.client.clone(), &ApiResource::from_gvk(&kind));
    let fates = fates
        .iter()
        .map(|(pod, fate)| ((*pod).to_owned(), *fate))
        .collect();
    let pods = world.pods();
    let daemon = Daemon {
        requests,
        pods,
        fates,
        log: log.clone(),
    };
    world.parts.spawn(daemon.run());
    log
}

struct Daemon {
    requests: Api<DynamicObject>,
    pods: Api<k8s_openapi::api::core::v1::Pod>,
    fates: BTreeMap<String, Fate>,
    log: Log,
}

impl Daemon {
    async fn run(self) {
        loop {
            for request in self.requests.list(&Default::default()).await.unwrap().items {
                let data = request.data;
                if data["status"]["phase"]
                    .as_str()
                    .unwrap_or_default()
                    .is_empty()
                {
                    self.carry_out(&request.metadata.name.unwrap(), &data["spec"])
                        .await;
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn carry_out(&self, request: &str, spec: &Value) {
        let pod = spec["podName"].as_str().unwrap();
        let names: Vec<&str> = spec["containers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        let fate = self.fates.get(pod).copied().unwrap_or_default();
        if fate == Fate::Ignored {
            return;
        }
        self.log.add(format!("{pod} begins"));
        self.report(request, "Recreating", &states(&names, "Recreating", ""))
            .await;
        if fate == Fate::Hangs {
            return;
        }
        if fate == Fate::Fails {
            let mut failed = states(&names, "Pending", "");
            failed[0] =
                json!({"name": names[0], "phase": "Failed", "message": "kill container error: no"});
            self.report(request, "Completed", &failed).await;
            return;
        }
        tokio::time::sleep(STEP).await;
        self.show(pod, &names, false).await;
        tokio::time::sleep(STEP).await;
        self.show(pod, &names, fate != Fate::StaysUnready).await;
        self.log.add(format!("{pod} ends"));
        self.report(request, "Completed", &states(&names, "Succeeded", ""))
            .await;
    }

    async fn report(&self, request: &str, phase: &str, states: &[Value]) {
        let mut status = json!({"phase": phase, "containerRecreateStates": states});
        if phase == "Completed" {
            status["completionTime"] = json!(AFTER);
        }
        let patch = Patch::Merge(json!({"status": status}));
        self.requests
            .patch_status(request, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    async fn show(&self, pod: &str, names: &[&str], ready: bool) {
        let word = if ready { "True" } else { "False" };
        let new = |name: &str| names.contains(&name);
        let statuses: Vec<_> = ["app", "log"]
            .iter()
            .map(|name| {
                if new(name) {
                    running(name, AFTER, 1, ready)
                } else {
                    running(name, crate::restart::world::BEFORE, 0, true)
                }
            })
            .collect();
        let status = json!({"conditions": [{"type": "Ready", "status": word}], "containerStatuses": statuses});
        let patch = Patch::Merge(json!({"status": status}));
        self.pods
            .patch_status(pod, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
}

fn states(names: &[&str], phase: &str, message: &str) -> Vec<Value> {
    names
        .iter()
        .map(|name| json!({"name": name, "phase": phase, "message": message}))
        .collect()
}
