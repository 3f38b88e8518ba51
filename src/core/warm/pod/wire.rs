//! The reader of warmer pods.

use k8s_openapi::api::core::v1::Pod;

use super::{
    BEFORE, CONTAINER, IMAGE, INIT_CONTAINER, JOB, JOB_NAMESPACE, NODE, NUMBERED_CONTAINER, RUN,
    Reported, Shape, WarmerImage, WarmerPod,
};
use crate::objects::item::{FromView, Item, items};
use crate::objects::pod::view::{ContainerStatusView, PodView, SpecView, StatusView};
use crate::objects::values::bounds;
use crate::objects::values::lenient::Objects;

/// A pod of a list or watch.
pub type WarmerPodWire = Item<WarmerPod>;

impl FromView for WarmerPod {
    type Kind = Pod;
    type View = PodView;

    /// Returns `None` if it has no name or uid, or is not ours: without the annotations, or without
    /// a container for each image.
    fn of(pod: PodView) -> Option<Self> {
        let PodView {
            metadata: meta,
            spec,
            status,
            ..
        } = pod;
        let (mut labels, mut annotations) = (meta.labels.value.0, meta.annotations.value.0);
        let mut label = |key| labels.remove(key).unwrap_or_default();
        let wanted = annotations.remove(IMAGE)?;
        let mut annotation = |key| {
            let text = annotations.remove(key);
            text.filter(|text| text.len() <= bounds::TEXT)
        };
        let shape = shape(&spec);
        // A pod in place has one image. More would each be a copy of what its one container says.
        if shape == Shape::InPlace && wanted.contains(' ') {
            return None;
        }
        let container = |number| {
            if shape == Shape::InPlace {
                CONTAINER.to_owned()
            } else {
                format!("{NUMBERED_CONTAINER}{number}")
            }
        };
        let images = wanted
            .split(' ')
            .enumerate()
            .map(|(number, wanted)| image(wanted, &container(number), &spec, &status));
        let images = images.collect::<Option<Vec<_>>>()?;
        let node = annotation(NODE)?;
        let on = spec.node_name.value.as_deref().unwrap_or_default();
        Some(Self {
            name: meta.name.value?,
            uid: meta.uid.value?,
            namespace: meta.namespace.value.unwrap_or_default(),
            run: label(RUN),
            job: label(JOB),
            job_namespace: label(JOB_NAMESPACE),
            generation: meta.generation.value.unwrap_or_default(),
            is_elsewhere: !on.is_empty() && *on != *node,
            node,
            shape,
            before: annotation(BEFORE),
            deleting: meta.deletion_timestamp.value.0,
            phase: status.phase.value,
            trouble: trouble(&status),
            unschedulable: unschedulable(&status),
            init: reported(&status.init_container_statuses, INIT_CONTAINER).state,
            images,
        })
    }
}

fn shape(spec: &SpecView) -> Shape {
    let mut names = items(&spec.containers).filter_map(|container| container.name.value.as_deref());
    if names.any(|name| name.starts_with(NUMBERED_CONTAINER)) {
        Shape::ImpossibleCommand
    } else {
        Shape::InPlace
    }
}

/// Returns the image of the container with this name, and what its node reports about it.
fn image(wanted: &str, name: &str, spec: &SpecView, status: &StatusView) -> Option<WarmerImage> {
    let mut containers = items(&spec.containers).enumerate();
    let (index, container) =
        containers.find(|(_, container)| container.name.value.as_deref() == Some(name))?;
    Some(WarmerImage {
        wanted: wanted.into(),
        index,
        image: container.image.value.clone().unwrap_or_default(),
        container: reported(&status.container_statuses, name),
    })
}

fn trouble(status: &StatusView) -> Box<str> {
    let texts = [
        status.reason.value.as_deref().unwrap_or_default(),
        &status.message.value.0,
    ]
    .into_iter()
    .filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join(": ").into()
}

fn unschedulable(status: &StatusView) -> Box<str> {
    let found = status.condition("PodScheduled", "False");
    found
        .map(|condition| bounds::cut(&condition.message.value.0, bounds::MESSAGE).into())
        .unwrap_or_default()
}

fn reported(statuses: &Objects<ContainerStatusView>, name: &str) -> Reported {
    let mut statuses = items(statuses).cloned();
    let found = statuses.find(|status| status.name.value.as_deref() == Some(name));
    found.map_or_else(Reported::default, |status| Reported {
        image: status.image.value.unwrap_or_default(),
        image_id: status.image_id.value.unwrap_or_default(),
        container_id: status.container_id.value.unwrap_or_default(),
        state: status.state.value.0.read(),
    })
}
