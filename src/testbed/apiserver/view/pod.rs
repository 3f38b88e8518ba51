//! The table row of a pod, by the rules of the real server's printer.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::printing::{Heading, ago};
use crate::apiserver::objects::json::{int, list, text};

/// The columns of the table.
pub(super) const HEADINGS: &[Heading] = &[
    ("Name", "string", "name", 0),
    ("Ready", "string", "", 0),
    ("Status", "string", "", 0),
    ("Restarts", "string", "", 0),
    ("Age", "string", "", 0),
    ("IP", "string", "", 1),
    ("Node", "string", "", 1),
    ("Nominated Node", "string", "", 1),
    ("Readiness Gates", "string", "", 1),
];

/// The totals over the container statuses.
#[derive(Default)]
struct Summary<'a> {
    reason: String,
    ready: usize,
    restarts: i64,
    last_restart: &'a str,
    initializing: bool,
}

/// Returns the row condition of a finished pod; `None` for others.
pub fn completed(pod: &Value) -> Option<Value> {
    let reason = match text(pod, "/status/phase") {
        phase @ ("Succeeded" | "Failed") => phase,
        _ => return None,
    };
    let message = if reason == "Succeeded" {
        "The pod has completed successfully."
    } else {
        "The pod failed."
    };
    Some(json!({"type": "Completed", "status": "True", "reason": reason, "message": message}))
}

/// Returns the cells of the row.
pub fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = summarize(pod);
    let restarts = match summary.restarts {
        0 => "0".to_owned(),
        count if summary.last_restart.is_empty() => count.to_string(),
        count => format!("{count} ({} ago)", ago(now, summary.last_restart)),
    };
    let total = list(pod, "/spec/containers").len()
        + list(pod, "/spec/initContainers")
            .iter()
            .filter(|one| is_restartable(one))
            .count();
    let or_none = |pointer: &str| {
        Some(text(pod, pointer))
            .filter(|text| !text.is_empty())
            .unwrap_or("<none>")
            .to_owned()
    };
    vec![
        text(pod, "/metadata/name").into(),
        format!("{}/{total}", summary.ready).into(),
        status(pod, summary.reason).into(),
        restarts.into(),
        ago(now, text(pod, "/metadata/creationTimestamp")).into(),
        or_none("/status/podIPs/0/ip").into(),
        or_none("/spec/nodeName").into(),
        or_none("/status/nominatedNodeName").into(),
        "<none>".into(),
    ]
}

/// Returns the status column: deletion outranks the state of the containers.
fn status(pod: &Value, reason: String) -> String {
    let deleting = pod["metadata"].get("deletionTimestamp").is_some();
    if deleting && text(pod, "/status/reason") == "NodeLost" {
        return "Unknown".to_owned();
    }
    let terminal = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
    if deleting && !terminal {
        "Terminating".to_owned()
    } else {
        reason
    }
}

fn summarize(pod: &Value) -> Summary<'_> {
    let reason = [text(pod, "/status/reason"), text(pod, "/status/phase")]
        .into_iter()
        .find(|text| !text.is_empty())
        .unwrap_or_default();
    let mut summary = Summary {
        reason: reason.to_owned(),
        ..Summary::default()
    };
    let gated = |condition: &Value| {
        condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated"
    };
    if list(pod, "/status/conditions").iter().any(gated) {
        summary.reason = "SchedulingGated".to_owned();
    }
    let init = initialization(pod, &mut summary);
    if !summary.initializing || has_condition(pod, "Initialized") {
        (summary.restarts, summary.last_restart) = init;
        containers(pod, &mut summary);
    }
    summary
}

/// Reads the init containers; returns the restarts to add for restartable ones once the pod is
/// initialized.
fn initialization<'a>(pod: &'a Value, summary: &mut Summary<'a>) -> (i64, &'a str) {
    let mut restartable = (0, "");
    for (index, status) in list(pod, "/status/initContainerStatuses")
        .iter()
        .enumerate()
    {
        let spec = list(pod, "/spec/initContainers")
            .iter()
            .find(|one| one["name"] == status["name"]);
        let native = spec.is_some_and(is_restartable);
        count_restarts(status, &mut summary.restarts, &mut summary.last_restart);
        if native {
            count_restarts(status, &mut restartable.0, &mut restartable.1);
        }
        if int(status, "/state/terminated/exitCode") == Some(0) {
            continue;
        }
        if native && status["started"] == true {
            summary.ready += usize::from(status["ready"] == true);
            continue;
        }
        summary.reason = init_reason(pod, status, index);
        summary.initializing = true;
        break;
    }
    restartable
}

fn init_reason(pod: &Value, status: &Value, index: usize) -> String {
    let waiting = text(status, "/state/waiting/reason");
    match status.pointer("/state/terminated") {
        Some(terminated) => format!("Init:{}", end_reason(terminated)),
        None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
        None => format!("Init:{index}/{}", list(pod, "/spec/initContainers").len()),
    }
}

fn end_reason(terminated: &Value) -> String {
    let signal = int(terminated, "/signal").unwrap_or(0);
    match text(terminated, "/reason") {
        "" if signal != 0 => format!("Signal:{signal}"),
        "" => format!("ExitCode:{}", int(terminated, "/exitCode").unwrap_or(0)),
        reason => reason.to_owned(),
    }
}

fn containers<'a>(pod: &'a Value, summary: &mut Summary<'a>) {
    let mut running = false;
    for status in list(pod, "/status/containerStatuses").iter().rev() {
        count_restarts(status, &mut summary.restarts, &mut summary.last_restart);
        let waiting = text(status, "/state/waiting/reason");
        if !waiting.is_empty() {
            summary.reason = waiting.to_owned();
        } else if let Some(terminated) = status.pointer("/state/terminated") {
            summary.reason = end_reason(terminated);
        } else if status["ready"] == true && status.pointer("/state/running").is_some() {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.reason == "Completed" && running {
        summary.reason = if has_condition(pod, "Ready") {
            "Running"
        } else {
            "NotReady"
        }
        .to_owned();
    }
}

/// Adds the restarts of a container. Times of one format sort as text.
fn count_restarts<'a>(status: &'a Value, restarts: &mut i64, last: &mut &'a str) {
    *restarts += int(status, "/restartCount").unwrap_or(0);
    *last = text(status, "/lastState/terminated/finishedAt").max(*last);
}

fn is_restartable(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

fn has_condition(pod: &Value, kind: &str) -> bool {
    list(pod, "/status/conditions")
        .iter()
        .any(|one| one["type"] == kind && one["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status_of(pod: Value) -> String {
        cells(&pod, Timestamp::UNIX_EPOCH)[2]
            .as_str()
            .unwrap()
            .to_owned()
    }

    #[test]
    fn says_what_the_real_printer_says() {
        let done =
            json!({"name": "m", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
        let up = json!({"name": "s", "ready": true, "state": {"running": {}}});
        let spec = json!({"containers": [{"name": "m"}, {"name": "s"}]});
        let pod = |phase: &str, statuses: Value| json!({"spec": spec, "status": {"phase": phase, "containerStatuses": statuses}});
        assert_eq!(status_of(pod("Running", json!([done, up]))), "NotReady");
        assert_eq!(
            status_of(pod("Succeeded", json!([done, done]))),
            "Completed"
        );
        assert_eq!(
            status_of(pod(
                "Failed",
                json!([{"state": {"terminated": {"exitCode": 3, "reason": "Error"}}}])
            )),
            "Error"
        );
        assert_eq!(
            status_of(pod(
                "Failed",
                json!([{"state": {"terminated": {"exitCode": 3}}}])
            )),
            "ExitCode:3"
        );
        assert_eq!(
            status_of(pod(
                "Running",
                json!([{"restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}])
            )),
            "CrashLoopBackOff"
        );
        let mut deleting = pod("Running", json!([up]));
        deleting["metadata"]["deletionTimestamp"] = "x".into();
        assert_eq!(status_of(deleting), "Terminating");
    }

    #[test]
    fn counts_initialization() {
        let pod = json!({"spec": {"initContainers": [{"name": "i"}, {"name": "j"}], "containers": [{}]},
            "status": {"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}, {"name": "j", "state": {"running": {}}}]}});
        assert_eq!(status_of(pod), "Init:1/2");
    }
}
