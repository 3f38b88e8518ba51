//! The volumes of a pod, and where its containers mount them.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// A volume of the spec, if it holds configuration files.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    pub name: String,
    pub config_map: Option<IgnoredAny>,
    pub secret: Option<IgnoredAny>,
    pub projected: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Mount {
    pub name: String,
    pub mount_path: String,
    /// True for a ConfigMap or the like, whose programs are scripts.
    #[serde(skip)]
    pub is_configuration: bool,
}
