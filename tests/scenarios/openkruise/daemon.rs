//! OpenKruise's daemon, played by the test.

use serde_json::{Value, json};

use crate::harness::World;
use crate::node::{running, terminated};

/// OpenKruise's daemon on the node, with the kubelet.
#[derive(Clone, Copy)]
pub(super) struct Daemon {
    /// The exit code of containers that it stops.
    pub(super) stop_code: i64,
    /// What it cannot do, if anything.
    pub(super) error: Option<&'static str>,
}

impl Daemon {
    pub(super) async fn look(self, world: &World, request: &Value) {
        match request["status"]["phase"].as_str() {
            None => {
                world
                    .set_request_status(request, json!({"phase": "Recreating"}))
                    .await
            }
            Some("Recreating") if request["status"]["containerRecreateStates"].is_null() => {
                self.stop(world, request).await
            }
            _ => {}
        }
    }

    async fn stop(self, world: &World, request: &Value) {
        let state = match self.error {
            Some(error) => {
                json!({"name": "side", "phase": "Failed", "message": format!("kill container error: {error}")})
            }
            None => json!({"name": "side", "phase": "Recreating", "isKilled": true}),
        };
        world
            .set_request_status(request, json!({"containerRecreateStates": [state]}))
            .await;
        if self.error.is_some() {
            return world
                .set_request_status(request, json!({"phase": "Completed"}))
                .await;
        }
        let pod = request["spec"]["podName"].as_str().unwrap();
        world.ends(pod, "side", self.stop_code).await;
        if self.stop_code != 0 && world.get(pod)["spec"]["restartPolicy"] == "OnFailure" {
            self.start_again(world, request).await;
        }
    }

    async fn start_again(self, world: &World, request: &Value) {
        let pod = request["spec"]["podName"].as_str().unwrap();
        let mut statuses = world.get(pod)["status"]["containerStatuses"].clone();
        statuses[1]["lastState"] = terminated(self.stop_code, 0);
        statuses[1]["state"] = running();
        statuses[1]["restartCount"] = 1.into();
        statuses[1]["containerID"] = "containerd://side-1".into();
        world
            .set_status(
                pod,
                json!({"phase": "Running", "containerStatuses": statuses}),
            )
            .await;
        let state = json!({"name": "side", "phase": "Succeeded", "isKilled": true});
        world
            .set_request_status(
                request,
                json!({"phase": "Completed", "containerRecreateStates": [state]}),
            )
            .await;
    }
}

pub(super) const OBEDIENT: Daemon = Daemon {
    stop_code: 0,
    error: None,
};
