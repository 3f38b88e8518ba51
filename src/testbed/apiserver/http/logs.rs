//! The logs of containers, as set by the user of the testbed: no container runs here.

use serde_json::Value;

use crate::apiserver::objects::json::{list, text};
use crate::apiserver::objects::log::LogKey;
use crate::apiserver::objects::status::ApiError;
use crate::apiserver::request::Request;
use crate::apiserver::storage::state::State;

/// Returns the log that the pod's node would return; refusals have the words of the API server and
/// of the kubelet.
pub fn read(state: &State, request: &Request) -> Result<Vec<u8>, ApiError> {
    let pod = state.current(request)?;
    let key = LogKey {
        namespace: request.namespace.clone(),
        pod: request.name.clone(),
        container: container(&pod, request)?,
        previous: request.query.flag("previous"),
    };
    if key.previous && !has_previous(&pod, &key.container) {
        return Err(ApiError::bad_request(format!(
            "previous terminated container {:?} in pod {:?} not found",
            key.container, key.pod
        )));
    }
    let log = state.logs.get(&key).ok_or_else(|| {
        ApiError::new(
            501,
            "NotImplemented",
            "this server runs no containers, so there are no logs",
        )
    })?;
    let lines = request.query.number("tailLines")?;
    let bytes = request.query.number("limitBytes")?;
    Ok(limited(log, lines, bytes))
}

fn container(pod: &Value, request: &Request) -> Result<String, ApiError> {
    let names: Vec<_> = list(pod, "/spec/containers")
        .iter()
        .map(|container| text(container, "/name"))
        .collect();
    let asked = request.query.get("container");
    match names.as_slice() {
        _ if names.contains(&asked) => Ok(asked.to_owned()),
        [only] if asked.is_empty() => Ok((*only).to_owned()),
        _ if !asked.is_empty() => Err(ApiError::bad_request(format!(
            "container {asked} is not valid for pod {}",
            request.name
        ))),
        _ => Err(ApiError::bad_request(format!(
            "a container name must be specified for pod {}, choose one of: [{}]",
            request.name,
            names.join(" ")
        ))),
    }
}

fn has_previous(pod: &Value, container: &str) -> bool {
    list(pod, "/status/containerStatuses")
        .iter()
        .any(|status| status["name"] == container && !status["lastState"]["terminated"].is_null())
}

/// Returns the last `lines` lines, and of these the first `bytes` bytes.
fn limited(log: &[u8], lines: Option<u64>, bytes: Option<u64>) -> Vec<u8> {
    let all: Vec<_> = log.split_inclusive(|byte| *byte == b'\n').collect();
    let count = |number: Option<u64>| {
        number.map_or(usize::MAX, |number| {
            usize::try_from(number).unwrap_or(usize::MAX)
        })
    };
    let tail = all[all.len().saturating_sub(count(lines))..].concat();
    tail.into_iter().take(count(bytes)).collect()
}
