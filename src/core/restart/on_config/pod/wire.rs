//! The reader of pods that are restarted when their configuration changes.

mod metadata;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;

use super::{ConfiguredPod, Life, Use};
use crate::objects::item::{FromView, Item, items};
use crate::objects::job::OwnerView;
use crate::objects::pod::ContainerState;
use crate::objects::pod::view::{
    ContainerStatusView, ContainerView, PodView, SourceView, SpecView, VolumeView,
};
use crate::objects::values::lenient::{Member, Text};
use crate::restart::on_config::annotation::{RESTART_ON, Reference, ReferenceKind, parse};

/// A pod of a list or watch.
pub type ConfiguredPodWire = Item<ConfiguredPod>;

impl FromView for ConfiguredPod {
    type Kind = Pod;
    type View = PodView;

    /// Returns `None` if it has no annotation, or lacks a namespace, name or uid.
    fn of(pod: PodView) -> Option<Self> {
        let PodView {
            metadata: meta,
            spec,
            status,
            ..
        } = pod;
        let required = |text: Text| text.value.filter(|text| !text.is_empty());
        let annotations = meta.annotations.value.0;
        let text = annotations.get(RESTART_ON)?;
        let containers = items(&spec.containers);
        let containers: Vec<_> = containers
            .filter_map(|one| one.name.value.clone())
            .collect();
        let labels = meta.labels.value.0;
        let wish = parse(text, &containers);
        let metadata =
            wish.and_then(|wish| Ok((spec.metadata(&wish, &labels, &annotations)?, wish)));
        let (metadata, wish) = match metadata {
            Ok((metadata, wish)) => (metadata, Ok(wish)),
            Err(problem) => (BTreeMap::new(), Err(problem)),
        };
        let labels = labels.into_iter();
        Some(Self {
            namespace: required(meta.namespace)?,
            name: required(meta.name)?,
            uid: required(meta.uid)?,
            labels: labels
                .map(|(key, text)| (key.into(), text.into()))
                .collect(),
            owner: OwnerView::uid_of_controller(&meta.owner_references.value),
            node: spec.node_name.value.clone().unwrap_or_default(),
            ending: meta.deletion_timestamp.value.0 || status.is_over(),
            ready: status.is_ready(),
            wish,
            uses: spec.uses(),
            metadata,
            lives: items(&status.container_statuses)
                .cloned()
                .filter_map(life)
                .collect(),
        })
    }
}

impl SpecView {
    fn uses(&self) -> BTreeMap<(Box<str>, Reference), Use> {
        let mut uses = BTreeMap::<_, Use>::new();
        for container in items(&self.containers) {
            let Some(name) = &container.name.value else {
                continue;
            };
            let mounts = container.volume_mounts.value.list.iter();
            let mounts: BTreeSet<_> = mounts
                .filter_map(|mount| mount.value.0.name.value.as_deref())
                .collect();
            let is_mounted = |volume: &&VolumeView| {
                let name = volume.name.value.as_deref();
                name.is_some_and(|name| mounts.contains(name))
            };
            let files = items(&self.volumes)
                .filter(is_mounted)
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
        let values = items(&self.env).filter_map(|env| env.value_from.value.as_deref());
        let values =
            values.flat_map(|from| mentions(&from.config_map_key_ref, &from.secret_key_ref));
        let all = items(&self.env_from);
        values.chain(all.flat_map(|from| mentions(&from.config_map_ref, &from.secret_ref)))
    }
}

impl VolumeView {
    fn mentions(&self) -> impl Iterator<Item = Mention> {
        let projected = self.projected.value.iter();
        let projected = projected.flat_map(|projected| items(&projected.sources));
        mentions(&self.config_map, &self.secret)
            .chain(projected.flat_map(|source| mentions(&source.config_map, &source.secret)))
    }
}

fn mentions<'a>(
    config_map: &'a Member<SourceView>,
    secret: &'a Member<SourceView>,
) -> impl Iterator<Item = Mention> + 'a {
    [
        (ReferenceKind::ConfigMap, config_map),
        (ReferenceKind::SecretMetadata, secret),
    ]
    .into_iter()
    .filter_map(|(kind, source)| {
        let source = source.value.as_deref()?;
        let name = source
            .name
            .value
            .clone()
            .or_else(|| source.secret_name.value.clone())?;
        Some((
            Reference { kind, name },
            source.optional.value != Some(true),
        ))
    })
}

/// Returns the container's name, and how it lives.
fn life(container: ContainerStatusView) -> Option<(Box<str>, Life)> {
    let state = container.state.value.0.read();
    let last = container.last_state.value.0.read();
    let was_there = container.restart_count.value.unwrap_or_default() > 0
        || matches!(last, ContainerState::Terminated(_));
    let life = match state {
        ContainerState::Terminated(_) => Life::Ended,
        ContainerState::Running { .. } => Life::Alive,
        _ if was_there => Life::Alive,
        _ => Life::Unstarted,
    };
    Some((container.name.value?, life))
}
