//! A pod that requests restarts by [`RESTART_ON`](super::annotation::RESTART_ON), with the way in
//! which its containers use the objects that it names.

use std::collections::{BTreeMap, BTreeSet};

use super::Content;
use super::annotation::{Problem, Reference, RestartOn, Source};
use crate::objects::item::{FromView, Item};
use crate::objects::job::OwnerView;
use crate::objects::pod::ContainerState;
use crate::objects::pod::view::{
    ContainerStatusView, ContainerView, PodView, SourceView, SpecView, VolumeView,
};
use crate::objects::values::fields::strings;
use crate::restart::hot_upgrade::pod::{VERSION, VERSION_ALT, WORKING};
use crate::restart::on_config::annotation::{RESTART_ON, ReferenceKind, parse};
use k8s_openapi::api::core::v1::Pod;

/// A pod with the annotation, reduced to what restarts after a configuration change need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredPod {
    /// `metadata.namespace`
    pub namespace: Box<str>,
    /// `metadata.name`
    pub name: Box<str>,
    /// `metadata.uid`
    pub uid: Box<str>,
    /// `metadata.labels`
    pub labels: BTreeMap<String, String>,
    /// The uid of the controlling owner; `None` if there is none.
    pub owner: Option<Box<str>>,
    /// `spec.nodeName`; empty until the pod is scheduled.
    pub node: Box<str>,
    /// True if the pod is being deleted or has finished: none of its containers is restarted any
    /// more.
    pub ending: bool,
    /// True if the condition Ready is `True`.
    pub ready: bool,
    /// The parsed annotation, or the problem with it.
    pub wish: Result<RestartOn, Problem>,
    /// How a container uses an object, in its environment or volumes; no entry if it uses it in
    /// another way.
    pub uses: BTreeMap<(Box<str>, Reference), Use>,
    /// `image` of the containers that the annotation names.
    pub images: BTreeMap<Box<str>, Box<str>>,
    /// The labels and annotations that a container's environment takes, for the containers that are
    /// restarted for them.
    pub metadata: BTreeMap<Box<str>, Content>,
    /// The stage of each container in the status.
    pub lives: BTreeMap<Box<str>, Life>,
}

/// How a container uses an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// True if it is mounted as files of a volume, which the node updates some time after a change.
    pub mounted: bool,
    /// True if the container cannot be started without it.
    pub required: bool,
}

/// The stage of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// The container has never been started.
    Unstarted,
    /// The container runs, or is about to be started again.
    Alive,
    /// The container has ended, for now or for good.
    Ended,
}

impl ConfiguredPod {
    /// Returns how a container uses a source of its configuration.
    pub fn usage(&self, container: &str, source: &Source) -> Use {
        match source {
            Source::Object(reference) => self
                .uses
                .get(&(container.into(), reference.clone()))
                .copied()
                .unwrap_or_default(),
            Source::PodMetadata => Use::default(),
        }
    }

    /// Returns the stage of a container; unstarted if the node has not reported it.
    pub fn life(&self, container: &str) -> Life {
        self.lives
            .get(container)
            .copied()
            .unwrap_or(Life::Unstarted)
    }
}

// The reader of pods that are restarted when their configuration changes.

/// A pod of a list or watch.
pub type ConfiguredPodWire = Item<ConfiguredPod>;

impl FromView for ConfiguredPod {
    type Kind = Pod;
    type View = PodView;

    /// Returns `None` if it has no annotation, or lacks a namespace, name or uid.
    fn of(pod: PodView) -> Option<Self> {
        let (meta, spec, status) = pod.parts();
        let annotations = meta.annotations.all()?;
        let text = annotations.get(RESTART_ON)?;
        let ending = meta.deletion_timestamp.0 || status.is_over();
        let ready = status.is_ready();
        let statuses = status.container_statuses.items.into_iter();
        let statuses = statuses.chain(status.init_container_statuses.items);
        let containers = spec.restartable();
        let containers: Vec<_> = containers
            .filter_map(|one| one.name.value.clone())
            .collect();
        let labels = meta.labels.all()?;
        let wish = parse(text, &containers);
        let metadata =
            wish.and_then(|wish| Ok((spec.metadata(&wish, &labels, &annotations)?, wish)));
        let (metadata, wish) = match metadata {
            Ok((metadata, wish)) => (metadata, Ok(wish)),
            Err(problem) => (BTreeMap::new(), Err(problem)),
        };
        let is_named = |name: &str| wish.iter().flatten().any(|(named, _)| **named == *name);
        let images = spec.restartable().filter_map(|one| {
            let name = one.name.as_ref().filter(|name| is_named(name))?;
            Some((name.clone(), one.image.value.clone()?))
        });
        Some(Self {
            images: images.collect(),
            namespace: meta.namespace.filled()?,
            name: meta.name.filled()?,
            uid: meta.uid.filled()?,
            labels: strings(labels),
            owner: OwnerView::uid_of_controller(&meta.owner_references),
            node: spec.node_name.value.clone().unwrap_or_default(),
            ending,
            ready,
            wish,
            uses: spec.uses(),
            metadata,
            lives: statuses.filter_map(life).collect(),
        })
    }
}

impl SpecView {
    /// Returns the containers that can be restarted.
    fn restartable(&self) -> impl Iterator<Item = &ContainerView> {
        let inits = self.init_containers.iter();
        let containers = self.containers.iter();
        containers.chain(inits.filter(|init| init.is_native_sidecar()))
    }

    fn uses(&self) -> BTreeMap<(Box<str>, Reference), Use> {
        let mut uses = BTreeMap::<_, Use>::new();
        for container in self.restartable() {
            let Some(name) = &container.name.value else {
                continue;
            };
            let mounts = container.volume_mounts.iter();
            let mounts: BTreeSet<_> = mounts.filter_map(|mount| mount.name.as_deref()).collect();
            let is_mounted = |volume: &&VolumeView| {
                let name = volume.name.as_deref();
                name.is_some_and(|name| mounts.contains(name))
            };
            let volumes = self.volumes.iter().filter(is_mounted);
            let files = volumes
                .flat_map(VolumeView::mentions)
                .map(|mention| (mention, true));
            for ((reference, is_required), is_mounted) in container
                .mentions()
                .map(|mention| (mention, false))
                .chain(files)
            {
                let usage = uses.entry((name.clone(), reference)).or_default();
                usage.mounted |= is_mounted;
                usage.required |= is_required;
            }
        }
        uses
    }
}

/// An object that is mentioned, and true if it has to exist.
type Mention = (Reference, bool);

impl ContainerView {
    fn mentions(&self) -> impl Iterator<Item = Mention> {
        let values = self.env.iter().filter_map(|env| env.value_from.as_ref());
        let values =
            values.flat_map(|from| mentions(&from.config_map_key_ref, &from.secret_key_ref));
        let all = self.env_from.iter();
        values.chain(all.flat_map(|from| mentions(&from.config_map_ref, &from.secret_ref)))
    }
}

impl VolumeView {
    fn mentions(&self) -> impl Iterator<Item = Mention> {
        let projected = self.projected.iter();
        let projected = projected.flat_map(|projected| projected.sources.iter());
        mentions(&self.config_map, &self.secret)
            .chain(projected.flat_map(|source| mentions(&source.config_map, &source.secret)))
    }
}

fn mentions<'a>(
    config_map: &'a Option<Box<SourceView>>,
    secret: &'a Option<Box<SourceView>>,
) -> impl Iterator<Item = Mention> + 'a {
    [
        (ReferenceKind::ConfigMap, config_map),
        (ReferenceKind::SecretMetadata, secret),
    ]
    .into_iter()
    .filter_map(|(kind, source)| {
        let source = source.as_ref()?;
        let name = source.name.as_ref().or(source.secret_name.as_ref())?;
        let name = name.clone();
        Some((Reference { kind, name }, source.optional != Some(true)))
    })
}

/// Returns the container's name, and how it lives.
fn life(container: ContainerStatusView) -> Option<(Box<str>, Life)> {
    let state = container.state.read();
    let last = container.last_state.read();
    let was_there = container.restart_count.unwrap_or_default() > 0
        || matches!(last, ContainerState::Terminated(_));
    let life = match state {
        ContainerState::Terminated(_) => Life::Ended,
        ContainerState::Running { .. } => Life::Alive,
        _ if was_there => Life::Alive,
        _ => Life::Unstarted,
    };
    Some((container.name.value?, life))
}

// The labels and annotations that a container's environment takes by `valueFrom.fieldRef`.

/// The labels or the annotations of a pod.
type Fields = BTreeMap<Box<str>, Box<str>>;

impl SpecView {
    /// Returns the digests of the metadata by container, for those that are restarted for it.
    fn metadata(
        &self,
        wish: &RestartOn,
        labels: &Fields,
        annotations: &Fields,
    ) -> Result<BTreeMap<Box<str>, Content>, Problem> {
        let asks = |sources: &BTreeSet<Source>| sources.contains(&Source::PodMetadata);
        let asking = wish.iter().filter(|(_, sources)| asks(sources));
        asking
            .map(|(name, _)| {
                let containers = self.restartable();
                let fields: BTreeMap<_, _> = containers
                    .filter(|container| container.name.as_ref() == Some(name))
                    .flat_map(ContainerView::field_paths)
                    .filter_map(|path| Some((path, value_at(path, labels, annotations)?)))
                    .collect();
                if fields.is_empty() {
                    return Err(Problem::NoMetadata(name.clone()));
                }
                Ok((name.clone(), Content::of_metadata(&fields)))
            })
            .collect()
    }
}

/// Returns the value of a variable with this `fieldPath` (`pkg/fieldpath`,
/// `ExtractFieldPathAsString`): empty if the key is missing. `None` for another field, and for keys
/// that swaplet writes: a container would be restarted because it was restarted, or hot-upgraded.
fn value_at<'a>(path: &str, labels: &'a Fields, annotations: &'a Fields) -> Option<&'a str> {
    let key = |field: &str| {
        let key = path.strip_prefix(field)?.strip_prefix("['")?;
        let key = key.strip_suffix("']").filter(|key| !key.is_empty())?;
        let ours = ["swaplet.io/", VERSION, VERSION_ALT, WORKING];
        let is_ours = ours.iter().any(|start| key.starts_with(start));
        (!is_ours).then_some(key)
    };
    let (fields, key) = key("metadata.labels")
        .map(|key| (labels, key))
        .or_else(|| Some((annotations, key("metadata.annotations")?)))?;
    Some(fields.get(key).map(|text| &**text).unwrap_or_default())
}

impl ContainerView {
    fn field_paths(&self) -> impl Iterator<Item = &str> {
        let values = self.env.iter().filter_map(|env| env.value_from.as_ref());
        values.filter_map(|from| from.field_ref.field_path.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::restart::on_config::annotation::RESTART_ON;

    fn read(pod: Value) -> Option<ConfiguredPod> {
        serde_json::from_value::<ConfiguredPodWire>(pod)
            .unwrap()
            .read()
    }

    fn source(text: &str) -> Source {
        Source::read(text).unwrap()
    }

    #[test]
    fn how_containers_use_objects_is_read_from_environments_and_volumes() {
        let pod = read(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"app": "web"}, "annotations": {RESTART_ON: "app=configmap/a"},
                "ownerReferences": [{"uid": "no"}, {"uid": "rs", "controller": true}]},
            "spec": {"nodeName": "n", "containers": [
                {"name": "app", "volumeMounts": [{"name": "files"}, {"name": "all"}],
                    "env": [{"name": "A", "value": "a"}, {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "k"}}}],
                    "envFrom": [{"secretRef": {"name": "s", "optional": true}}]},
                {"name": "log"},
            ], "volumes": [
                {"name": "files", "configMap": {"name": "b", "optional": true}}, {"name": "unused", "configMap": {"name": "c"}},
                {"name": "all", "projected": {"sources": [{"configMap": {"name": "a"}}, {"secret": {"name": "s"}}]}},
            ]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [
                {"name": "app", "state": {"running": {}}}, {"name": "log", "state": {"waiting": {}}},
            ]},
        }))
        .unwrap();
        let usage = |text: &str| pod.usage("app", &source(text));
        assert_eq!(
            usage("configmap/a"),
            Use {
                mounted: true,
                required: true
            }
        );
        assert_eq!(
            usage("configmap/b"),
            Use {
                mounted: true,
                required: false
            }
        );
        assert_eq!(
            usage("secret-metadata/s"),
            Use {
                mounted: true,
                required: true
            }
        );
        assert_eq!(
            (
                usage("configmap/c"),
                pod.usage("log", &source("configmap/a"))
            ),
            (Use::default(), Use::default())
        );
        assert_eq!(
            (
                pod.owner.as_deref(),
                pod.ready,
                pod.ending,
                pod.labels["app"].as_str()
            ),
            (Some("rs"), true, false, "web")
        );
        assert_eq!(
            (pod.life("app"), pod.life("log"), pod.life("other")),
            (Life::Alive, Life::Unstarted, Life::Unstarted)
        );
    }

    fn taking(annotation: &str, paths: &[&str], labels: Value, color: &str) -> ConfiguredPod {
        let env = paths
            .iter()
            .map(|path| json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": path}}}));
        read(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": labels,
                "annotations": {RESTART_ON: annotation, "example.com/color": color, "swaplet.io/parked": color}},
            "spec": {"containers": [{"name": "app", "env": env.collect::<Vec<_>>()}, {"name": "log"}]},
        }))
        .unwrap()
    }

    #[test]
    fn what_an_environment_takes_of_the_metadata_is_content() {
        const PATHS: &[&str] = &[
            "metadata.labels['tier']",
            "metadata.annotations['example.com/color']",
            "metadata.name",
        ];
        let content = |labels: Value, color: &str| {
            let pod = taking("app=pod-metadata", PATHS, labels, color);
            assert!(pod.wish.is_ok() && pod.uses.is_empty(), "{:?}", pod.wish);
            pod.metadata["app"].clone()
        };
        let first = content(json!({"tier": "a"}), "red");
        assert_eq!(first, content(json!({"tier": "a", "other": "x"}), "red"));
        assert_ne!(first, content(json!({"tier": "b"}), "red"));
        assert_ne!(first, content(json!({"tier": "a"}), "blue"));
        // The kubelet gives an empty text for a label that is not there.
        assert_eq!(
            content(json!({}), "red"),
            content(json!({"tier": ""}), "red")
        );
        let unasked = taking("app=configmap/a", PATHS, json!({}), "red");
        assert!(unasked.wish.is_ok() && unasked.metadata.is_empty());
    }

    #[test]
    fn metadata_that_no_environment_takes_is_told() {
        for paths in [
            &[][..],
            &["metadata.name", "metadata.labels"],
            // What swaplet itself writes would restart the container for ever.
            &["metadata.annotations['swaplet.io/parked']"],
            &["metadata.labels['", "metadata.labels['']", "status.hostIP"],
        ] {
            let pod = taking("app=pod-metadata", paths, json!({}), "red");
            assert_eq!(
                pod.wish,
                Err(Problem::NoMetadata("app".into())),
                "{paths:?}"
            );
        }
        let pod = taking("log=pod-metadata", &["metadata.labels['a']"], json!({}), "");
        assert_eq!(pod.wish, Err(Problem::NoMetadata("log".into())));
    }

    #[test]
    fn a_pod_that_asks_for_nothing_is_not_kept() {
        assert_eq!(
            read(
                json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u", "annotations": {"other": "x"}}})
            ),
            None
        );
    }

    #[test]
    fn a_crash_loop_is_alive_and_an_end_is_an_end() {
        let lives = |status: Value| {
            let pod = read(
                json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u", "annotations": {RESTART_ON: ""}},
                "status": {"containerStatuses": [status]}}),
            );
            pod.unwrap().life("app")
        };
        assert_eq!(
            lives(
                json!({"name": "app", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}})
            ),
            Life::Alive
        );
        assert_eq!(
            lives(
                json!({"name": "app", "state": {"waiting": {}}, "lastState": {"terminated": {}}})
            ),
            Life::Alive
        );
        assert_eq!(
            lives(json!({"name": "app", "restartCount": 3, "state": {"terminated": {}}})),
            Life::Ended
        );
    }

    #[test]
    fn null_is_absent() {
        let pod = read(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": null, "ownerReferences": null,
                "annotations": {RESTART_ON: "app=configmap/a"}},
            "spec": {"volumes": null, "containers": [{"name": "app", "env": null, "envFrom": null, "volumeMounts": null}]},
            "status": {"conditions": null, "containerStatuses": null, "phase": null},
        }));
        assert!(pod.is_some_and(|pod| pod.wish.is_ok() && pod.uses.is_empty() && !pod.ready));
    }
}
