//! The decoder of volumes and their mounts.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::objects::pod::container_spec::{Backing, MountSpec};
use crate::objects::values::bounds;
use crate::objects::values::lenient::{Filled, Lenient, Member, Present, Text};

/// The backings of the volumes of a pod, by volume name.
pub(super) type Volumes<'a> = BTreeMap<&'a str, Backing>;

/// The `type` of a seccomp or AppArmor profile, and that of an SELinux label.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ProfileWire {
    #[serde(rename = "type")]
    pub(super) kind: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MountWire {
    name: Text,
    pub(super) mount_path: Text<{ bounds::PATH }>,
    sub_path: Lenient<Filled>,
    sub_path_expr: Lenient<Filled>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct VolumeWire {
    name: Text,
    config_map: Lenient<Present>,
    secret: Lenient<Present>,
    projected: Lenient<Present>,
    #[serde(rename = "downwardAPI")]
    downward_api: Lenient<Present>,
    host_path: Member<ProfileWire>,
}

impl MountWire {
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

impl VolumeWire {
    pub(super) fn named(&self) -> Option<(&str, Backing)> {
        Some((self.name.value.as_deref()?, self.backing()))
    }

    fn backing(&self) -> Backing {
        let configuration = [
            &self.config_map,
            &self.secret,
            &self.projected,
            &self.downward_api,
        ];
        let host_path = self
            .host_path
            .value
            .as_ref()
            .and_then(|host| host.kind.value.as_deref());
        match host_path {
            Some("File" | "FileOrCreate" | "Socket" | "CharDevice" | "BlockDevice") => {
                Backing::HostFile
            }
            _ if configuration.iter().any(|source| source.value.0) => Backing::Configuration,
            _ => Backing::Data,
        }
    }
}
