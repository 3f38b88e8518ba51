//! A container leaves its crash loop by a request.

use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::{Restarts, restarts, started};
use crate::audit::written_in;
use crate::pods::{container, pod, spec, status_of};

/// After how many restarts a kubelet makes a container wait for how many seconds: far longer than a
/// busy machine takes for a restart.
const BACK_OFF: (i32, i64) = (4, 80);

/// How many seconds after its last crash there is a new container, and how many after the change of
/// the image, by the clocks of the kubelet, which tells whole seconds, and of the API server; both
/// run on this machine. `None` where nothing was changed in time.
async fn leaves_the_crash_loop(restart: &Restarts, name: &str) -> Option<[i64; 2]> {
    let crashing = vec![container(&restart.world, "app", "exit 1")];
    restart
        .world
        .create_pod(pod(name, spec("Always", crashing)))
        .await;
    // A kubelet of 1.37 need not show that it waits: it looks again when the time is over.
    let waits = |pod: &Pod| {
        let state = status_of(pod, "app").and_then(|status| status.state.as_ref());
        let runs = state.is_some_and(|state| state.running.is_some());
        restarts(pod, "app") == BACK_OFF.0 && !runs && ended(pod).is_some()
    };
    let before = restart.world.pod_is(name, "in a crash loop", waits).await;
    restart.request(name, &json!({"podName": name, "containers": [{"name": "app"}], "strategy": {"forceRecreate": true}})).await;
    let next = restarts(&before, "app") + 1;
    let after = restart
        .world
        .pod_is(name, "restarted", |pod| {
            restarts(pod, "app") >= next && began(pod).is_some()
        })
        .await;
    let crashed = ended(&before).unwrap();
    let changed = written_in(&restart.world.namespace)
        .into_iter()
        .rfind(|write| write.is_applied_swap() && write.pod == name)?
        .at;
    let began = began(&after).unwrap();
    println!("crashed {crashed}, changed {changed}, began {began}");
    Some([crashed, changed].map(|since| began.as_second() - since.as_second()))
}

/// When the container that is there, or the one before it where none is, was started, and when that
/// one ended.
fn began(pod: &Pod) -> Option<Timestamp> {
    let ended = || terminated(pod)?.started_at.as_ref().map(|at| at.0);
    started(pod, "app").or_else(ended)
}

fn ended(pod: &Pod) -> Option<Timestamp> {
    terminated(pod)?.finished_at.as_ref().map(|at| at.0)
}

fn terminated(pod: &Pod) -> Option<&ContainerStateTerminated> {
    let status = status_of(pod, "app")?;
    let now = status
        .state
        .as_ref()
        .and_then(|state| state.terminated.as_ref());
    now.or_else(|| status.last_state.as_ref()?.terminated.as_ref())
}

/// How soon is for scenarios `restart::nodes::a_crash_loop_is_left_within_three_seconds`. A machine that
/// is busy for more than a minute gets another try. Each has a pod of its own: the back-off of one that
/// the kubelet has restarted by itself is longer.
#[tokio::test]
async fn a_crash_loop_is_left_before_its_back_off_is_over() {
    let restart = Restarts::new("restart-crash").await;
    let _controller = restart.controller().await;
    let mut took = Vec::new();
    for nth in 0..3 {
        let seconds = leaves_the_crash_loop(&restart, &format!("p{nth}")).await;
        took.push(seconds);
        // One less, for both are whole ones.
        if seconds.is_some_and(|[since_crash, _]| since_crash < BACK_OFF.1 - 1) {
            return restart.world.done().await;
        }
    }
    panic!("it took {took:?} s");
}
