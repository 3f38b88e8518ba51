//! A warmer pod as the API server sends it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};

use super::{
    CONTAINER, INIT_CONTAINER, NUMBERED_CONTAINER, Reported, Shape, WarmerImage, WarmerPod,
};
use crate::objects::node::ConditionWire;
use crate::objects::pod::Phase;
use crate::objects::pod::wire::StateWire;
use crate::objects::values::bounds;
use crate::objects::values::lenient::{Lenient, Object, Objects, Present, Said, Text};
use crate::objects::values::parts::Parts;

/// A pod of a list or watch. Decoding fails only for JSON that is not a Kubernetes object.
#[derive(Clone, Debug)]
pub struct WarmerPodWire {
    metadata: ObjectMeta,
    meta: MetaWire,
    spec: Box<SpecWire>,
    status: Box<StatusWire>,
}

of_kind!(WarmerPodWire, k8s_openapi::api::core::v1::Pod);

type TopWire = Parts<MetaWire, SpecWire, StatusWire>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MetaWire {
    name: Text,
    namespace: Text,
    uid: Text,
    labels: Lenient<Object<LabelsWire>>,
    resource_version: Text,
    generation: Lenient<Option<i64>>,
    deletion_timestamp: Lenient<Present>,
    annotations: Lenient<Object<AnnotationsWire>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct LabelsWire {
    #[serde(rename = "swaplet.io/warm")]
    run: Text,
    #[serde(rename = "swaplet.io/pull-job")]
    job: Text,
    #[serde(rename = "swaplet.io/pull-job-namespace")]
    job_namespace: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct AnnotationsWire {
    #[serde(rename = "swaplet.io/warm-node")]
    node: Text,
    #[serde(rename = "swaplet.io/warm-image")]
    image: Text<{ bounds::RECORD }>,
    #[serde(rename = "swaplet.io/warm-before")]
    before: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct SpecWire {
    #[serde(rename = "nodeName")]
    node_name: Text,
    containers: Objects<ContainerWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerWire {
    name: Text,
    image: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusWire {
    phase: Text,
    reason: Text,
    message: Lenient<Said>,
    conditions: Objects<ConditionWire>,
    init_container_statuses: Objects<ReportedWire>,
    container_statuses: Objects<ReportedWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ReportedWire {
    name: Text,
    image: Text,
    #[serde(rename = "imageID")]
    image_id: Text,
    #[serde(rename = "containerID")]
    container_id: Text,
    state: Lenient<Object<StateWire>>,
}

impl<'de> Deserialize<'de> for WarmerPodWire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let top = TopWire::deserialize(deserializer)?;
        let meta = top.metadata.value.0;
        let text = |field: &Text| field.value.as_deref().map(str::to_owned);
        let metadata = ObjectMeta {
            name: text(&meta.name),
            resource_version: text(&meta.resource_version),
            ..ObjectMeta::default()
        };
        Ok(Self {
            metadata,
            meta,
            spec: Box::new(top.spec.value.0),
            status: Box::new(top.status.value.0),
        })
    }
}

impl WarmerPodWire {
    /// Returns the uid, which is there also where the pod cannot be read.
    #[must_use]
    pub fn uid(&self) -> Option<&str> {
        self.meta.uid.value.as_deref()
    }

    /// Reads the pod; `None` if it has no name or uid, or is not ours: without the annotations, or
    /// without a container for each image.
    #[must_use]
    pub fn read(self) -> Option<WarmerPod> {
        let Self {
            meta, spec, status, ..
        } = self;
        let (annotations, labels) = (meta.annotations.value.0, meta.labels.value.0);
        let wanted = annotations.image.value?;
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
        let node = annotations.node.value?;
        let on = spec.node_name.value.as_deref().unwrap_or_default();
        Some(WarmerPod {
            name: meta.name.value?,
            uid: meta.uid.value?,
            namespace: meta.namespace.value.unwrap_or_default(),
            run: labels.run.value.unwrap_or_default(),
            job: labels.job.value.unwrap_or_default(),
            job_namespace: labels.job_namespace.value.unwrap_or_default(),
            generation: meta.generation.value.unwrap_or_default(),
            is_elsewhere: !on.is_empty() && *on != *node,
            node,
            shape,
            before: annotations.before.value,
            deleting: meta.deletion_timestamp.value.0,
            phase: Phase::read(status.phase.value.as_deref()),
            trouble: trouble(&status),
            unschedulable: unschedulable(&status.conditions),
            init: reported(&status.init_container_statuses, INIT_CONTAINER).state,
            images,
        })
    }
}

fn shape(spec: &SpecWire) -> Shape {
    let names = spec.containers.value.iter();
    let mut names = names.filter_map(|container| container.value.0.name.value.as_deref());
    if names.any(|name| name.starts_with(NUMBERED_CONTAINER)) {
        Shape::ImpossibleCommand
    } else {
        Shape::InPlace
    }
}

/// Returns the image of the container with this name, and what its node reports about it.
fn image(wanted: &str, name: &str, spec: &SpecWire, status: &StatusWire) -> Option<WarmerImage> {
    let mut containers = spec
        .containers
        .value
        .iter()
        .map(|container| &container.value.0)
        .enumerate();
    let (index, container) =
        containers.find(|(_, container)| container.name.value.as_deref() == Some(name))?;
    Some(WarmerImage {
        wanted: wanted.into(),
        index,
        image: container.image.value.clone().unwrap_or_default(),
        container: reported(&status.container_statuses, name),
    })
}

fn trouble(status: &StatusWire) -> Box<str> {
    let texts = [
        status.reason.value.as_deref().unwrap_or_default(),
        &status.message.value.0,
    ]
    .into_iter()
    .filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join(": ").into()
}

fn unschedulable(conditions: &Objects<ConditionWire>) -> Box<str> {
    let found = conditions
        .value
        .iter()
        .map(|condition| &condition.value.0)
        .find(|condition| condition.is("PodScheduled", "False"));
    found
        .map(|condition| condition.message.value.0.clone())
        .unwrap_or_default()
}

fn reported(statuses: &Objects<ReportedWire>, name: &str) -> Reported {
    let mut statuses = statuses.value.iter().map(|status| status.value.0.clone());
    let found = statuses.find(|status| status.name.value.as_deref() == Some(name));
    found.map_or_else(Reported::default, |status| Reported {
        image: status.image.value.unwrap_or_default(),
        image_id: status.image_id.value.unwrap_or_default(),
        container_id: status.container_id.value.unwrap_or_default(),
        state: status.state.value.0.read(),
    })
}
