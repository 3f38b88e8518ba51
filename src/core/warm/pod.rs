//! A warmer pod as swaplet reads it: the images that it pulls, and what its node reports about
//! them.
//!
//! The pod is swaplet's own, so whatever has to survive the loss of all memory is kept in
//! annotations that swaplet writes.

use crate::objects::item::{FromView, Item};
use crate::objects::pod::view::{ContainerStatusView, PodView, SpecView, StatusView};
use crate::objects::pod::{ContainerState, Phase};
use crate::objects::values::bounds;
use k8s_openapi::api::core::v1::Pod;

/// The label of all warmer pods; its value identifies the run that created the pod.
pub const RUN: &str = "swaplet.io/warm";
/// The label of the pods of a job; its value is the uid of the job.
pub const JOB: &str = "swaplet.io/pull-job";
/// The label with the namespace of the job in [`JOB`].
pub const JOB_NAMESPACE: &str = "swaplet.io/pull-job-namespace";
/// The annotation with the name of the node, which may be too long for a label value.
pub const NODE: &str = "swaplet.io/warm-node";
/// The annotation with the images as they were requested, separated by a space: a webhook may store
/// another spelling in the spec.
pub const IMAGE: &str = "swaplet.io/warm-image";
/// The annotation that a swap adds: the id of the container before it, or the empty string if there
/// was none.
pub const BEFORE: &str = "swaplet.io/warm-before";
/// The prefix of the names of all warmer pods.
pub const NAME_PREFIX: &str = "swaplet-warm-";
/// The name of the container whose image is swapped.
pub const CONTAINER: &str = "warmer";
/// The name of the init container that copies the park program.
pub const INIT_CONTAINER: &str = "park";
/// The prefix of the container names in a pod that pulls several images at once; the position of
/// the image in the annotation [`IMAGE`] follows.
pub const NUMBERED_CONTAINER: &str = "image-";
/// A command that no image can have: file names are limited to 255 bytes.
pub const IMPOSSIBLE_COMMAND: &str = concat!(
    "/swaplet-pulls-this-image-and-runs-nothing-of-it.no-file-system-has-names-of-256-bytes.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
);

/// The kind of a warmer pod, which decides how it pulls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// One container, which runs the park program from a volume. Its image is swapped from one to
    /// the next.
    #[default]
    InPlace,
    /// A container for Windows for each image, with [`IMPOSSIBLE_COMMAND`] as its command: the image
    /// is pulled, and nothing is started.
    ImpossibleCommand,
}

/// A warmer pod, reduced to what decisions need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmerPod {
    /// `metadata.name`
    pub name: Box<str>,
    /// `metadata.uid`
    pub uid: Box<str>,
    /// `metadata.namespace`
    pub namespace: Box<str>,
    /// The label [`RUN`].
    pub run: Box<str>,
    /// The label [`JOB`]; empty in a pod that belongs to no job.
    pub job: Box<str>,
    /// The label [`JOB_NAMESPACE`].
    pub job_namespace: Box<str>,
    /// `metadata.generation`; 0 on API servers that do not maintain it for pods.
    pub generation: i64,
    /// The name of the node that the pod is for.
    pub node: Box<str>,
    /// True if the pod is on another node than it is for, which reports about itself.
    pub is_elsewhere: bool,
    /// How the pod pulls.
    pub shape: Shape,
    /// The annotation [`BEFORE`]; `None` in a pod that has had only one image.
    pub before: Option<Box<str>>,
    /// True if `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `status.phase`
    pub phase: Phase,
    /// `status.reason` and `status.message`: why the pod failed.
    pub trouble: Box<str>,
    /// Why the scheduler cannot place the pod; empty unless it reports so.
    pub unschedulable: Box<str>,
    /// The state of the init container.
    pub init: ContainerState,
    /// The images that the pod pulls: one, unless its shape has a container for each; never empty.
    pub images: Vec<WarmerImage>,
}

/// An image of a warmer pod, and the container for which the node pulls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmerImage {
    /// The image as it was requested.
    pub wanted: Box<str>,
    /// The index of the container in `spec.containers`: webhooks may insert others before it.
    pub index: usize,
    /// The image of the container in the spec.
    pub image: Box<str>,
    /// The container's status, as its node reports it.
    pub container: Reported,
}

/// The status that a node reports for a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// The name that the runtime reports for the image of the container.
    pub image: Box<str>,
    /// `imageID`
    pub image_id: Box<str>,
    /// `containerID`; empty until there is a container.
    pub container_id: Box<str>,
    /// The state of the container.
    pub state: ContainerState,
}

impl WarmerPod {
    /// Returns true if what a write has made of the pod is in this state of it.
    pub(crate) fn shows(&self, written: &Self) -> bool {
        let spec = |pod: &Self| {
            let images = pod.images.iter();
            images
                .map(|image| (image.wanted.clone(), image.image.clone()))
                .collect::<Vec<_>>()
        };
        self.uid == written.uid
            && self.generation >= written.generation
            && self.deleting >= written.deleting
            && spec(self) == spec(written)
    }
}

// The reader of warmer pods.

/// A pod of a list or watch.
pub type WarmerPodWire = Item<WarmerPod>;

impl FromView for WarmerPod {
    type Kind = Pod;
    type View = PodView;

    /// Returns `None` if it has no name or uid, or is not ours: without the annotations, or without
    /// a container for each image.
    fn of(pod: PodView) -> Option<Self> {
        let (meta, spec, status) = pod.parts();
        let (mut labels, mut annotations) = (meta.labels.all()?, meta.annotations.all()?);
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
        let on = spec.node_name.as_deref().unwrap_or_default();
        Some(Self {
            name: meta.name.value?,
            uid: meta.uid.value?,
            namespace: meta.namespace.value.unwrap_or_default(),
            run: label(RUN),
            job: label(JOB),
            job_namespace: label(JOB_NAMESPACE),
            generation: meta.generation.unwrap_or_default(),
            is_elsewhere: !on.is_empty() && *on != *node,
            node,
            shape,
            before: annotation(BEFORE),
            deleting: meta.deletion_timestamp.0,
            phase: status.phase,
            trouble: trouble(&status),
            unschedulable: unschedulable(&status),
            init: reported(&status.init_container_statuses, INIT_CONTAINER).state,
            images,
        })
    }
}

fn shape(spec: &SpecView) -> Shape {
    let mut names = spec.containers.iter().filter_map(|one| one.name.as_deref());
    if names.any(|name| name.starts_with(NUMBERED_CONTAINER)) {
        Shape::ImpossibleCommand
    } else {
        Shape::InPlace
    }
}

/// Returns the image of the container with this name, and what its node reports about it.
fn image(wanted: &str, name: &str, spec: &SpecView, status: &StatusView) -> Option<WarmerImage> {
    let mut containers = spec.containers.iter().enumerate();
    let (index, container) = containers.find(|(_, one)| one.name.as_deref() == Some(name))?;
    Some(WarmerImage {
        wanted: wanted.into(),
        index,
        image: container.image.value.clone().unwrap_or_default(),
        container: reported(&status.container_statuses, name),
    })
}

fn trouble(status: &StatusView) -> Box<str> {
    let texts = [
        status.reason.as_deref().unwrap_or_default(),
        &status.message.0,
    ]
    .into_iter()
    .filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join(": ").into()
}

fn unschedulable(status: &StatusView) -> Box<str> {
    let found = status.condition("PodScheduled", "False");
    found
        .map(|condition| bounds::cut(&condition.message.0, bounds::MESSAGE).into())
        .unwrap_or_default()
}

fn reported(statuses: &[ContainerStatusView], name: &str) -> Reported {
    let mut statuses = statuses.iter();
    let found = statuses.find(|status| status.name.as_deref() == Some(name));
    found
        .cloned()
        .map_or_else(Reported::default, |status| Reported {
            image: status.image.value.unwrap_or_default(),
            image_id: status.image_id.value.unwrap_or_default(),
            container_id: status.container_id.value.unwrap_or_default(),
            state: status.state.read(),
        })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(pod: Value) -> Option<WarmerPod> {
        serde_json::from_value::<WarmerPodWire>(pod).unwrap().read()
    }

    fn pod() -> Value {
        json!({
            "metadata": {"name": "w", "uid": "u", "generation": 3,
                "annotations": {NODE: "n", IMAGE: "app:1", BEFORE: "containerd://1"}},
            "spec": {"containers": [{"name": "injected", "image": "x"}, {"name": CONTAINER, "image": "docker.io/library/app:1"}]},
            "status": {
                "phase": "Failed", "reason": "Evicted", "message": "no room",
                "conditions": [{"type": "PodScheduled", "status": "False", "message": "no node"}],
                "initContainerStatuses": [{"name": INIT_CONTAINER, "state": {"running": {}}}],
                "containerStatuses": [{"name": "injected"}, {"name": CONTAINER, "image": "i", "imageID": "d", "containerID": "c",
                    "state": {"waiting": {"reason": "ErrImagePull", "message": "m"}}}],
            },
        })
    }

    #[test]
    fn what_decisions_need_is_read() {
        let read = read(pod()).unwrap();
        let [image] = &*read.images else {
            panic!("{read:?}")
        };
        assert_eq!(
            (
                &*read.node,
                read.shape,
                read.before.as_deref(),
                read.generation
            ),
            ("n", Shape::InPlace, Some("containerd://1"), 3)
        );
        assert_eq!(
            (&*image.wanted, &*image.image, image.index),
            ("app:1", "docker.io/library/app:1", 1)
        );
        assert_eq!(
            (&*read.trouble, &*read.unschedulable),
            ("Evicted: no room", "no node")
        );
        assert_eq!(
            (&*image.container.image_id, &*image.container.container_id),
            ("d", "c")
        );
        assert!(matches!(read.init, ContainerState::Running { .. }));
        assert!(
            matches!(&image.container.state, ContainerState::Waiting { reason, .. } if &**reason == "ErrImagePull")
        );
    }

    #[test]
    fn a_pod_of_several_images_has_a_container_for_each() {
        let mut several = pod();
        several["metadata"]["annotations"][IMAGE] = "app:1 b:2".into();
        several["spec"]["containers"] = json!([{"name": "injected"}, {"name": "image-1", "image": "r/b:2"}, {"name": "image-0", "image": "app:1"}]);
        several["status"]["containerStatuses"] = json!([{"name": "image-1", "containerID": "c1"}]);
        let images = read(several.clone()).unwrap().images;
        let texts: Vec<_> = images
            .iter()
            .map(|image| {
                (
                    &*image.wanted,
                    &*image.image,
                    image.index,
                    &*image.container.container_id,
                )
            })
            .collect();
        assert_eq!(
            texts,
            [("app:1", "app:1", 2, ""), ("b:2", "r/b:2", 1, "c1")]
        );
        assert_eq!(
            read(several.clone()).unwrap().shape,
            Shape::ImpossibleCommand
        );
        several["metadata"]["annotations"][IMAGE] = "app:1 b:2 c:3".into();
        assert_eq!(read(several), None);
    }

    #[test]
    fn a_pod_is_elsewhere_if_it_is_on_another_node_than_its_annotation_names() {
        for (on, is_elsewhere) in [
            (json!("n"), false),
            (json!(null), false),
            (json!(""), false),
            (json!("m"), true),
        ] {
            let mut pod = pod();
            pod["spec"]["nodeName"] = on.clone();
            assert_eq!(read(pod).unwrap().is_elsewhere, is_elsewhere, "{on}");
        }
    }

    /// Anyone who may create pods can write a hundred thousand spaces there.
    #[test]
    fn a8_a_pod_in_place_has_one_image() {
        for images in ["app:1 b:2", "app:1 ", " ".repeat(100_000).as_str()] {
            let mut several = pod();
            several["metadata"]["annotations"][IMAGE] = images.into();
            assert_eq!(read(several), None);
        }
    }

    #[test]
    fn no_file_system_can_hold_the_impossible_command() {
        assert!(
            IMPOSSIBLE_COMMAND
                .strip_prefix('/')
                .is_some_and(|name| name.len() > 255 && !name.contains('/'))
        );
    }

    #[test]
    fn null_is_absent_and_other_pods_are_none() {
        let odd = |place: &str| {
            let mut odd = pod();
            *odd.pointer_mut(place).unwrap() = Value::Null;
            read(odd)
        };
        let nothing = odd("/status").unwrap();
        assert_eq!(nothing.images[0].container, Reported::default());
        assert_eq!(odd("/metadata/annotations"), None);
        assert_eq!(odd("/spec/containers"), None);
    }
}
