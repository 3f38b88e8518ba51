//! Containers whose configuration has changed: what is recorded, what is a change, and whose turn
//! it is.

mod changes;
mod turns;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use swaplet_core::objects::moment::Moment;
use swaplet_core::restart::on_config::annotation::{RESTART_ON, Source};
use swaplet_core::restart::on_config::pod::{ConfiguredPod, ConfiguredPodWire};
use swaplet_core::restart::on_config::{
    Around, Asked, Content, Contents, Progress, Sight, Standing, stand,
};

use crate::expect::moment;

const MOUNT_DELAY: Duration = Duration::from_secs(120);

fn source(text: &str) -> Source {
    Source::read(text).unwrap()
}

fn is(text: &str) -> Content {
    Content::Is(text.into())
}

/// Of the container `app` and `configmap/a`.
fn contents(content: Content) -> Contents {
    BTreeMap::from([(
        "app".into(),
        BTreeMap::from([(source("configmap/a"), content)]),
    )])
}

fn pod_with(name: &str, annotation: &str, spec: &Value, state: &Value) -> ConfiguredPod {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "annotations": {RESTART_ON: annotation}},
        "spec": {"containers": [{"name": "app"}, {"name": "log"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "app", "state": state}, {"name": "log", "state": {"running": {}}}]},
    });
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"]["containers"][0][field] = value.clone();
    }
    pod["spec"]["volumes"] = json!([{"name": "files", "configMap": {"name": "a"}}]);
    serde_json::from_value::<ConfiguredPodWire>(pod)
        .unwrap()
        .read()
        .unwrap()
}

/// It has `configmap/a` in its environment.
fn env_from(optional: bool) -> Value {
    json!({"envFrom": [{"configMapRef": {"name": "a", "optional": optional}}]})
}

fn pod(name: &str) -> ConfiguredPod {
    pod_with(
        name,
        "app=configmap/a",
        &env_from(false),
        &json!({"running": {}}),
    )
}

fn seen(content: Content, since: u64) -> Sight {
    Sight::Seen {
        content,
        since: moment(since),
    }
}

fn stand_at(
    pod: &ConfiguredPod,
    recorded: &Contents,
    requests: &[&Asked],
    sight: &Sight,
    now: u64,
) -> Standing {
    stand(
        pod,
        recorded,
        requests,
        &Around {
            find: &|_| sight.clone(),
            mount_delay: MOUNT_DELAY,
            park: None,
            edited_at: Moment::START,
            now: moment(now),
        },
    )
}

fn asked(name: &str, content: Content, progress: Progress) -> Asked {
    Asked {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        target: contents(content),
        progress,
        created_at: None,
    }
}

/// Nothing is restarted, now or later, and nothing is said.
fn is_silent(standing: &Standing) -> bool {
    standing.stale.is_empty() && standing.due.is_none() && standing.forbidden.is_empty()
}
