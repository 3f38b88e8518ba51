//! Which sidecars are not swapped, because nodes may refuse the exit image to their pods.

use swaplet_core::check::around::Described;
use swaplet_core::objects::pod::RestartPolicy;
use swaplet_core::objects::pod::container_spec::ContainerSpec;

use super::rows::Row;
use super::{Settings, judge};

/// Judges the rows of a template whose pods may run on kubelets: under `Never` a pod would fail
/// whose node does not start the exit image after the sidecar was stopped.
pub(super) fn judge(described: &Described, settings: &Settings, rows: &mut [Row]) {
    let nodes = described.placement.row(&settings.node_table);
    let is_virtual = nodes.is_some_and(|(nodes, _)| !nodes.class.is_kubelet());
    if is_virtual || settings.virtual_nodes {
        return;
    }
    let may_finish = judge::may_finish(settings, rows);
    for row in rows {
        let container = judge::container(described, row);
        let Some(why) = container.and_then(|each| doubt(described, each, row, settings)) else {
            continue;
        };
        row.not_swapped("NotPublic", why, settings, may_finish);
    }
}

/// Returns why a node may refuse the exit image; `None` if no swap is made, or that would not cost
/// the pod.
fn doubt(
    described: &Described,
    container: &ContainerSpec,
    row: &Row,
    settings: &Settings,
) -> Option<String> {
    let policy = container.restart_policy.as_ref();
    let is_never =
        policy.or(described.template.spec.restart_policy.as_ref()) == Some(&RestartPolicy::Never);
    if !is_never || !judge::is_swapped(row) {
        return None;
    }
    let exit_images = settings.pulled.as_ref()?;
    let by_rule = || row.rule.as_ref()?.exit_image.as_deref();
    let own = container.mark.with_image.as_deref().or_else(by_rule);
    let default = exit_images.default_image().map(|image| image.as_str());
    let image = own.or(default)?;
    let why = exit_images.is_public(image).doubt(image)?;
    let secrets = match &*described.pull_secrets {
        [] => "the pod has no imagePullSecrets".to_owned(),
        secrets => format!(
            "its imagePullSecrets ({}) are not read, so whether they are for that registry is not known",
            secrets.join(", ")
        ),
    };
    Some(format!("{secrets}, and {why}"))
}
