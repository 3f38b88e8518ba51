//! The changes in the status of a pod after a way was tried, for people to judge.

use serde_json::Value;

use super::pods::SIDECAR;

/// Describes how the status of the sidecar has changed, and the phase of the pod.
pub(crate) fn differences(before: &Value, after: &Value) -> Vec<String> {
    let [old, new] = [before, after].map(|pod| status(pod).unwrap_or(&Value::Null));
    let mut seen = vec![
        changed(old, new, "containerID"),
        restarts(old, new),
        changed(old, new, "imageID"),
    ];
    seen.push(state(&new["state"]));
    seen.push(phase(&after["status"]));
    seen
}

fn status(pod: &Value) -> Option<&Value> {
    pod["status"]["containerStatuses"]
        .as_array()?
        .iter()
        .find(|status| status["name"] == SIDECAR)
}

fn changed(old: &Value, new: &Value, field: &str) -> String {
    let text = |status: &Value| status[field].as_str().unwrap_or_default().to_owned();
    match (text(old), text(new)) {
        (_, new) if new.is_empty() => format!("no {field}"),
        (old, new) if old == new => format!("same {field}"),
        _ => format!("new {field}"),
    }
}

fn restarts(old: &Value, new: &Value) -> String {
    let count = |status: &Value| status["restartCount"].as_i64().unwrap_or_default();
    match (count(old), count(new)) {
        (old, new) if old == new => format!("restartCount {new}"),
        (old, new) => format!("restartCount {old} -> {new}"),
    }
}

fn state(state: &Value) -> String {
    let ended = &state["terminated"];
    let waits = state["waiting"]["reason"].as_str();
    match ended["exitCode"].as_i64() {
        Some(code) => format!("exit code {code}"),
        None if ended.is_object() => "ended".to_owned(),
        None if state["running"].is_object() => "still running".to_owned(),
        None => waits.map_or_else(
            || "no state".to_owned(),
            |reason| format!("waiting ({reason})"),
        ),
    }
}

fn phase(status: &Value) -> String {
    let phase = status["phase"].as_str().unwrap_or("no phase");
    let reason = status["reason"]
        .as_str()
        .map(|reason| format!(" ({reason})"))
        .unwrap_or_default();
    format!("pod {phase}{reason}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(id: &str, restarts: i64, state: Value, status: Value) -> Value {
        let mut pod = json!({"status": status});
        pod["status"]["containerStatuses"] = json!([{"name": "main"},
            {"name": "sidecar", "containerID": id, "imageID": "", "restartCount": restarts, "state": state}]);
        pod
    }

    #[test]
    fn a_new_container_and_an_old_one_are_told_apart() {
        let running = json!({"running": {"startedAt": "2026-01-02T03:04:05Z"}});
        let before = pod("c://1", 0, running.clone(), json!({"phase": "Running"}));
        let swapped = pod(
            "c://2",
            1,
            json!({"terminated": {"exitCode": 0}}),
            json!({"phase": "Succeeded"}),
        );
        assert_eq!(
            differences(&before, &swapped),
            [
                "new containerID",
                "restartCount 0 -> 1",
                "no imageID",
                "exit code 0",
                "pod Succeeded"
            ]
        );
        let inert = pod(
            "c://1",
            0,
            running,
            json!({"phase": "Pending", "reason": "ProviderFailed"}),
        );
        let reported = [
            "same containerID",
            "restartCount 0",
            "no imageID",
            "still running",
            "pod Pending (ProviderFailed)",
        ];
        assert_eq!(differences(&before, &inert), reported);
        assert_eq!(
            differences(&json!({}), &json!({}))[3..],
            ["no state", "pod no phase"]
        );
    }
}
