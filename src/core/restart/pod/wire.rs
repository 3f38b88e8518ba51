//! How the pod whose containers are to be restarted is read.

use k8s_openapi::api::core::v1;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Details, NativeSidecar, RestartPod};
use crate::objects::command::ContainerFacts;
use crate::objects::item::{FromView, Item, items};
use crate::objects::job::OwnerView;
use crate::objects::pod::Pod;
use crate::objects::pod::container_spec::{ContainerSpec, PodSpec};
use crate::objects::pod::readiness::{GateCondition, KRUISE_POD_READY, PodReadiness};
use crate::objects::pod::view::statuses::StatusList;
use crate::objects::pod::view::{ContainerStatusView, ContainerView, StatusView};
use crate::objects::pod::wire::ListedView;
use crate::objects::values::bounded_value::BoundedValue;
use crate::objects::values::bounds;
use crate::objects::values::lenient::{Objects, Text};
use crate::restart::parked::Parked;

/// A pod of a list or watch, decoded for restarts.
pub type RestartPodWire = Item<RestartPod>;

/// An entry of `managedFields`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ManagedView {
    subresource: Text,
    #[serde(rename = "fieldsV1")]
    fields: BoundedValue,
}

impl ManagedView {
    fn parked_through_status(&self) -> bool {
        let parked = &self.fields.0["f:metadata"]["f:annotations"]["f:swaplet.io/parked"];
        self.subresource.value.as_deref() == Some("status") && !parked.is_null()
    }
}

impl FromView for RestartPod {
    type Kind = v1::Pod;
    type View = ListedView<BoundedValue, Objects<ManagedView>>;

    /// Returns `None` if name, namespace or uid are missing, or if its hooks are too large.
    fn of(mut view: Self::View) -> Option<Self> {
        let (meta, spec, status) = (&view.metadata, &view.spec, &view.status);
        let around = spec.read();
        // A container is parked under every restart policy, so none is considered.
        let unrestarted = PodSpec {
            restart_policy: None,
            ..around.pod.clone()
        };
        let containers = spec.containers.value.iter().map(|one| {
            let spec = ContainerSpec {
                restart_policy: None,
                restart_rules: Vec::new(),
                ..around.container(one.clone())
            };
            Details {
                facts: Some(Box::new(ContainerFacts::of(&unrestarted, &spec))),
                ..Details::of(&one.value.0, &status.container_statuses)
            }
        });
        let containers: Vec<Details> = containers.collect();
        let statuses = &status.init_container_statuses;
        let mut init_statuses = StatusList::read(statuses.clone());
        let (mut native_sidecars, mut init_containers) = (Vec::new(), Vec::new());
        for (index, one) in items(&spec.init_containers).enumerate() {
            if one.is_native_sidecar() {
                native_sidecars.push(NativeSidecar {
                    index,
                    details: Details {
                        is_native_sidecar: true,
                        ..Details::of(one, statuses)
                    },
                    container: one.clone().with_status(&around, false, &mut init_statuses),
                });
            } else {
                init_containers.push(one.name.value.clone().unwrap_or_default());
            }
        }
        let natives = native_sidecars.iter().map(|native| &native.details);
        if containers
            .iter()
            .chain(natives)
            .map(Details::size)
            .sum::<usize>()
            > bounds::POD
        {
            return None;
        }
        let is_ready_gate = |gate: &Text| gate.value.as_deref() == Some(KRUISE_POD_READY);
        let has_gate = items(&spec.readiness_gates).any(|gate| is_ready_gate(&gate.condition_type));
        let uid = meta.uid.value.as_deref()?;
        let parked = meta.annotations.value.0.parked.value.as_deref();
        let parked_through_status =
            items(&meta.managed_fields).any(ManagedView::parked_through_status);
        Some(Self {
            parked_through_status,
            parked: parked.and_then(|value| Parked::read(value, uid)),
            generation: meta.generation.value,
            created_at: meta.creation_timestamp.value,
            controller: OwnerView::controller(&meta.owner_references.value),
            observed_generation: status.observed_generation.value,
            has_pull_secrets: !spec.image_pull_secrets.value.is_empty(),
            readiness: has_gate.then(|| readiness(status)),
            details: containers,
            native_sidecars,
            init_containers,
            pod: Pod::of(&mut view)?,
        })
    }
}

fn readiness(status: &StatusView) -> PodReadiness {
    let mut conditions = items(&status.conditions);
    let gate = conditions.find(|one| one.is_of(KRUISE_POD_READY));
    PodReadiness {
        gate: gate.map(|gate| GateCondition {
            is_true: gate.is(KRUISE_POD_READY, "True"),
            message: gate.message.value.0.clone(),
        }),
        is_ready: status.is_ready(),
    }
}

impl Details {
    fn of(
        container: &ContainerView<BoundedValue>,
        statuses: &Objects<ContainerStatusView>,
    ) -> Self {
        let status = items(statuses).find(|status| status.name.value == container.name.value);
        let lifecycle = container.lifecycle.value.as_ref();
        let pre_stop = lifecycle.and_then(|lifecycle| known_hook(&lifecycle.pre_stop.0));
        let is_http = pre_stop
            .as_ref()
            .is_some_and(|hook| hook.get("httpGet").is_some());
        Self {
            pre_stop,
            ports: Some(container.ports.0.clone()).filter(|ports| is_http && ports.is_array()),
            pulls_always: container.image_pull_policy.value.as_deref() == Some("Always"),
            has_startup_probe: container.startup_probe.value.0,
            image_id: status
                .and_then(|status| status.image_id.value.clone())
                .unwrap_or_default(),
            ready: status.is_some_and(|status| status.ready.value == Some(true)),
            is_native_sidecar: false,
            facts: None,
        }
    }
}

impl Details {
    /// Returns the bytes of its hook and ports as text, which take about thirty times that in memory.
    fn size(&self) -> usize {
        let values = [&self.pre_stop, &self.ports].into_iter().flatten();
        values.map(|value| value.to_string().len()).sum()
    }
}

fn known_hook(hook: &Value) -> Option<Value> {
    let known = ["exec", "httpGet", "tcpSocket"]
        .iter()
        .filter_map(|kind| Some(((*kind).to_owned(), hook.get(kind)?.clone())));
    let known: Map<String, Value> = known.collect();
    (!known.is_empty()).then_some(Value::Object(known))
}
