//! Containers that a policy leaves to run.

use serde_json::json;

use super::{COLLECTOR, crds_are_there, labelled};
use crate::controller::Controller;
use crate::pods::{EXITS_143, container, job, main_ok, sidecar, spec};
use crate::restart::restarts;
use crate::world::{World, eventually};

/// The one that is opened is waited for by nobody; of the one that is not the API server says so,
/// until its namespace opens it.
#[tokio::test]
async fn t4_a_container_that_is_left_to_run_holds_up_nothing() {
    crds_are_there().await;
    let world = World::new("policies-left").await;
    let leave = |name: &str| json!([{"name": name, "method": "Leave"}]);
    world.policy("opened", leave(COLLECTOR)).await;
    world.policy("closed", leave("agent")).await;
    let _controller = Controller::start_with(&world, &["--sidecar-policies"]).await;
    for (case, left) in [("opened", COLLECTOR), ("closed", "agent")] {
        let containers = vec![
            main_ok(&world),
            container(&world, left, EXITS_143),
            sidecar(&world, "log", EXITS_143),
        ];
        let made = labelled(job(case, spec("OnFailure", containers)), case);
        world.create_job(made).await;
    }
    let pod = eventually("the sidecar beside what is left to be ended", || async {
        let written = crate::audit::swapped_in(&world.namespace);
        written.into_iter().find(|pod| pod.starts_with("opened-"))
    })
    .await;
    let log_ended = |pod: &k8s_openapi::api::core::v1::Pod| restarts(pod, "log") == 1;
    let pod = world.pod_is(&pod, "without its sidecar", log_ended).await;
    assert_eq!(restarts(&pod, COLLECTOR), 0);
    let told = eventually("the other one to be told of", || async {
        let all = crate::hooked::long::warnings(&world, &world.pod_named("closed").await?).await;
        all.into_iter().find(|note| note.starts_with("WriteDenied"))
    })
    .await;
    assert!(
        told.contains("here these are not: agent")
            && told.contains("name agent in the value sidecarPolicies.containers"),
        "{told}"
    );
    world.done().await;
}

impl World {
    /// The name of the pod of a Job.
    async fn pod_named(&self, job: &str) -> Option<String> {
        let pods = self.pods().await.into_iter();
        let mut names = pods.filter_map(|pod| pod.metadata.name);
        names.find(|name| name.starts_with(&format!("{job}-")))
    }
}
