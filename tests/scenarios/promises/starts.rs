//! Pods that wait until one of their Job shows that an exit image starts.

use std::time::Duration;

use serde_json::{Value, json};
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::terminate::index::Index;
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::objects::job::Job;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::Pod;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::values::env::WITH_IMAGE;
use swaplet_core::terminate::methods::AllowedMethods;

use super::index_under;
use crate::harness::rules;
use crate::node::{running, status, terminated};
use crate::objects::{main_container, pod_of, sidecar};

const LISTED: &str = "registry.example/other/exit:v2";
pub(super) const NOW: Moment = Moment::after_start(Duration::from_secs(1));

/// A pod of the Job whose main container is done.
pub(super) fn seen(name: &str, image: &str, state: Value, restarts: u32) -> Pod {
    let mut side = sidecar("side");
    side["image"] = image.into();
    side["env"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": WITH_IMAGE, "value": LISTED}));
    let mut of_side = status(&side, state);
    of_side["restartCount"] = restarts.into();
    let statuses = [status(&main_container(), terminated(0, 0)), of_side];
    let mut pod = pod_of(name, "OnFailure", vec![main_container(), side]);
    pod["metadata"]["uid"] = name.into();
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "job", "controller": true}]);
    pod["status"] = json!({"phase": "Running", "containerStatuses": statuses});
    serde_json::from_value::<PodWire>(pod)
        .unwrap()
        .read()
        .unwrap()
}

/// Has a Job that allows six, with these pods, whose sidecars ask for a listed image.
pub(super) fn index_of_job(pods: &[&str]) -> Index {
    let mut index = index_under(Rules {
        exit_images: ExitImages::new(None, vec!["registry.example/other/*".parse().unwrap()]),
        allowed: AllowedMethods {
            finish: true,
            ..AllowedMethods::default()
        },
        ..rules()
    });
    for name in pods {
        index.apply(seen(name, "side:1", running(), 0), NOW);
    }
    let job = Job {
        uid: "job".into(),
        namespace: "default".into(),
        backoff_limit: 6,
    };
    index.jobs(
        |ledger| {
            ledger.job(&job);
            ledger.job_list_ends();
            ledger.pod_list_ends(0);
        },
        NOW,
    );
    index
}

/// The first pod counts as four restarts. When it has ended, the others need one each, and two fit
/// beside it at once.
#[test]
fn pods_that_wait_for_an_exit_image_to_start_are_looked_at_when_it_has_worked() {
    let mut index = index_of_job(&["a", "b", "c"]);
    let first = index.next_write(NOW).0.unwrap();
    assert_eq!(index.next_write(NOW).0, None);
    index.written(first, &Ok(vec![LISTED.into()]), NOW);
    index.apply(seen("a", LISTED, terminated(0, 0), 1), NOW);
    index.wake(NOW);
    let more: Vec<_> = std::iter::from_fn(|| index.next_write(NOW).0).collect();
    assert_eq!(more.len(), 2, "{more:?}");
}
