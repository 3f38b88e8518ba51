//! What the demo says of the files that it is given, before anything happens.

use serde_json::Value;
use swaplet_core::check::around::Described;
use swaplet_core::check::known;
use swaplet_core::objects::pod::RestartPolicy;
use swaplet_core::objects::values::env::WHEN_JOB_EXIT;
use swaplet_edge::print;

/// Takes from an object what directs its pods to certain nodes, and says so: the demo has one node.
pub(super) fn adapt(object: &mut Value) -> anyhow::Result<()> {
    for described in Described::all(object) {
        let template = described.template;
        let path = template.place.replace(['.', '['], "/").replace(']', "");
        let Some(Value::Object(spec)) = object.pointer_mut(&format!("/{path}")) else {
            continue;
        };
        // What is for Windows has no exit image.
        let is_windows = spec
            .get("nodeSelector")
            .is_some_and(|selector| selector["kubernetes.io/os"] == "windows");
        for field in ["nodeSelector", "affinity", "nodeName", "schedulerName"] {
            if !is_windows && spec.remove(field).is_some() {
                print(&format!(
                    "        {} {}: {field} is left out, because the demo has one node\n",
                    template.kind, template.name
                ))?;
            }
        }
    }
    Ok(())
}

/// Says of which objects nothing marks a container: their pods may never end. Returns their number.
pub(super) fn tell_unmarked(objects: &[Value]) -> anyhow::Result<usize> {
    let mut told = 0;
    // A SidecarPolicy may mark them.
    let is_policy = |object: &Value| object["apiVersion"] == "swaplet.io/v1alpha1";
    let all = objects.iter().filter(|_| !objects.iter().any(is_policy));
    for mut described in all.flat_map(Described::all) {
        described.mark(|_, _| {});
        let template = &described.template;
        let containers = template.spec.containers.iter();
        let runs_forever =
            template.spec.restart_policy == Some(RestartPolicy::Always) && &*template.kind != "Pod";
        let is_sidecar = |each| described.is_sidecar(each, &[]);
        if runs_forever || containers.len() < 2 {
            continue;
        }
        let is_marked = containers.clone().any(is_sidecar);
        let known = containers
            .filter(|each| !is_sidecar(each))
            .find_map(|each| {
                let what = known::sidecar(&each.name, &each.image)?;
                Some((&each.name, what))
            });
        let (what, on) = match (is_marked, known) {
            // Beside sidecars that are marked the others are the work, unless they are known.
            (true, None) => continue,
            (true, Some((name, _))) => (&**name, "it if it is one"),
            (false, _) => ("a container", "each that is one"),
        };
        let looks = known.map(|(name, what)| format!(" ({name} looks like {what})"));
        print(&format!(
            "        {} {}: nothing marks {what} as a sidecar{}: set env {WHEN_JOB_EXIT}: \"true\" on {on}\n",
            template.kind,
            template.name,
            looks.unwrap_or_default()
        ))?;
        told += 1;
    }
    Ok(told)
}
