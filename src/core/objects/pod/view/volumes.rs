//! The decoder of volumes and their mounts.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::SourceView;
use crate::objects::pod::container_spec::{Backing, MountSpec};
use crate::objects::values::bounds;
use crate::objects::values::lenient::{Filled, Lenient, Member, Objects, Present, Text};

/// The backings of the volumes of a pod, by volume name.
pub(super) type Volumes<'a> = BTreeMap<&'a str, Backing>;

/// The `type` of a seccomp or AppArmor profile, and that of an SELinux label.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ProfileView {
    #[serde(rename = "type")]
    pub(super) kind: Text,
}

/// One of `volumeMounts`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MountView {
    pub name: Text,
    pub(super) mount_path: Text<{ bounds::PATH }>,
    sub_path: Lenient<Filled>,
    sub_path_expr: Lenient<Filled>,
}

/// One of `volumes`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeView {
    pub name: Text,
    pub config_map: Member<SourceView>,
    pub secret: Member<SourceView>,
    pub projected: Member<ProjectedView>,
    #[serde(rename = "downwardAPI")]
    downward_api: Lenient<Present>,
    host_path: Member<ProfileView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ProjectedView {
    pub sources: Objects<ProjectionView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ProjectionView {
    pub config_map: Member<SourceView>,
    pub secret: Member<SourceView>,
}

impl MountView {
    pub(super) fn read(self, volumes: &Volumes<'_>) -> MountSpec {
        MountSpec {
            has_sub_path: self.sub_path.value.0 || self.sub_path_expr.value.0,
            backing: self
                .name
                .value
                .as_deref()
                .and_then(|name| volumes.get(name))
                .copied()
                .unwrap_or(Backing::Data),
            path: self.mount_path.value.unwrap_or_default(),
        }
    }
}

impl VolumeView {
    pub(super) fn named(&self) -> Option<(&str, Backing)> {
        Some((self.name.value.as_deref()?, self.backing()))
    }

    fn backing(&self) -> Backing {
        let is_configuration = self.config_map.is_there()
            || self.secret.is_there()
            || self.projected.is_there()
            || self.downward_api.value.0;
        let host_path = self
            .host_path
            .value
            .as_ref()
            .and_then(|host| host.kind.value.as_deref());
        match host_path {
            Some("File" | "FileOrCreate" | "Socket" | "CharDevice" | "BlockDevice") => {
                Backing::HostFile
            }
            _ if is_configuration => Backing::Configuration,
            _ => Backing::Data,
        }
    }
}
