//! The first lines of scripts in ConfigMaps, where the ConfigMaps can be read. Secrets are not
//! read.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::objects::command::FirstLine;
use crate::objects::command::path::{is_below, normal};
use crate::objects::pod::template::items;

/// The beginning of the base64 text of an ELF program.
const PROGRAM_IN_BASE64: &str = "f0VM";
/// The most volumes, mounts and keys that are read.
const MOST: usize = 1024;

/// A ConfigMap, by its namespace and name.
type Id = (Box<str>, Box<str>);

/// The first lines of the files of ConfigMaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigMaps {
    maps: BTreeMap<Id, BTreeMap<Box<str>, FirstLine>>,
}

impl ConfigMaps {
    /// Adds an object, or the items of a list, if they are ConfigMaps; `namespace` is the default
    /// for those without one.
    pub fn add(&mut self, object: &Value, namespace: &str) {
        let maps = items(object).into_iter();
        for map in maps.filter(|item| item["kind"] == "ConfigMap") {
            let namespace = map["metadata"]["namespace"].as_str().unwrap_or(namespace);
            let Some(name) = map["metadata"]["name"].as_str() else {
                continue;
            };
            self.maps
                .insert((namespace.into(), name.into()), first_lines(map));
        }
    }

    /// Returns the first line of the first of these files that is known.
    pub fn first_line(&self, namespace: &str, files: &[ConfigFile]) -> Option<FirstLine> {
        files
            .iter()
            .find_map(|file| self.map(namespace, &file.map)?.get(&*file.key).cloned())
    }

    /// Returns true if this ConfigMap is known.
    pub fn has(&self, namespace: &str, name: &str) -> bool {
        self.map(namespace, name).is_some()
    }

    /// Finds a ConfigMap; one without a namespace applies to every namespace.
    fn map(&self, namespace: &str, name: &str) -> Option<&BTreeMap<Box<str>, FirstLine>> {
        [namespace, ""]
            .into_iter()
            .find_map(|namespace| self.maps.get(&(namespace.into(), name.into())))
    }
}

fn first_lines(map: &Value) -> BTreeMap<Box<str>, FirstLine> {
    let data = map["data"].as_object().into_iter().flatten();
    let texts = data.filter_map(|(key, text)| {
        Some((
            key.as_str().into(),
            FirstLine::read(text.as_str()?.as_bytes()),
        ))
    });
    let binary = map["binaryData"].as_object().into_iter().flatten();
    let programs = binary.filter(|(_, text)| {
        text.as_str()
            .is_some_and(|text| text.starts_with(PROGRAM_IN_BASE64))
    });
    let programs = programs.map(|(key, _)| (key.as_str().into(), FirstLine::Program));
    texts.chain(programs).take(MOST).collect()
}

/// A key of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigFile {
    /// The name of the ConfigMap.
    pub map: Box<str>,
    /// The key in the ConfigMap.
    pub key: Box<str>,
}

/// The files of ConfigMaps that the containers of a pod mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigFiles {
    /// The mounts by container name, in the order of the spec.
    mounts: BTreeMap<Box<str>, Vec<Mounted>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mounted {
    path: String,
    sub_path: String,
    sources: Vec<Source>,
}

/// A ConfigMap as a volume, or as a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    map: Box<str>,
    /// The path of each key; `None` where each key is a file of its name.
    items: Option<Vec<(Box<str>, Box<str>)>>,
}

impl ConfigFiles {
    /// Reads the spec of a pod.
    pub fn of(spec: &Value) -> Self {
        let mut volumes: BTreeMap<&str, Vec<Source>> = BTreeMap::new();
        for volume in list(&spec["volumes"]) {
            let Some(name) = volume["name"].as_str() else {
                continue;
            };
            let projected = list(&volume["projected"]["sources"]).map(|part| &part["configMap"]);
            let sources: Vec<_> = [&volume["configMap"]]
                .into_iter()
                .chain(projected)
                .filter_map(Source::of)
                .collect();
            if !sources.is_empty() {
                volumes.entry(name).or_insert(sources);
            }
        }
        if volumes.is_empty() {
            return Self::default();
        }
        let mounts = |container: &Value| {
            let mounts = list(&container["volumeMounts"]);
            mounts
                .filter_map(|mount| Mounted::of(mount, &volumes))
                .collect::<Vec<_>>()
        };
        let containers = list(&spec["containers"]);
        let of_each = containers
            .filter_map(|container| Some((container["name"].as_str()?.into(), mounts(container))));
        Self {
            mounts: of_each.filter(|(_, mounts)| !mounts.is_empty()).collect(),
        }
    }

    /// Returns the ConfigMap keys that may be the file at an absolute, normalised path of a
    /// container: several if several ConfigMaps may have it, empty if none has.
    pub fn at(&self, container: &str, path: &str) -> Vec<ConfigFile> {
        let mounts = self.mounts.get(container).into_iter().flatten();
        let covers = |mount: &&Mounted| mount.path == path || is_below(path, &mount.path);
        let Some(mount) = mounts.filter(covers).max_by_key(|mount| mount.path.len()) else {
            return Vec::new();
        };
        let rest = path[mount.path.len()..].trim_start_matches('/');
        let whole = [mount.sub_path.as_str(), rest]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("/");
        mount
            .sources
            .iter()
            .filter_map(|source| source.file(&whole))
            .collect()
    }
}

impl Mounted {
    fn of(mount: &Value, volumes: &BTreeMap<&str, Vec<Source>>) -> Option<Self> {
        let sub_path = mount["subPath"].as_str().unwrap_or_default();
        // Another mount hides a ConfigMap's file at the same path.
        let sources = volumes
            .get(mount["name"].as_str()?)
            .filter(|_| !mount["subPathExpr"].is_string());
        Some(Self {
            path: normal(&format!("/{}", mount["mountPath"].as_str()?))?,
            sub_path: normal(&format!("/{sub_path}"))?
                .trim_start_matches('/')
                .to_owned(),
            sources: sources.cloned().unwrap_or_default(),
        })
    }
}

impl Source {
    fn of(config_map: &Value) -> Option<Self> {
        let item =
            |item: &Value| Some((item["path"].as_str()?.into(), item["key"].as_str()?.into()));
        Some(Self {
            map: config_map["name"].as_str()?.into(),
            items: config_map["items"]
                .as_array()
                .map(|items| items.iter().take(MOST).filter_map(item).collect()),
        })
    }

    fn file(&self, path: &str) -> Option<ConfigFile> {
        let key = match &self.items {
            None => path.into(),
            Some(items) => items
                .iter()
                .find(|(item, _)| &**item == path)
                .map(|(_, key)| key.clone())?,
        };
        Some(ConfigFile {
            map: self.map.clone(),
            key,
        })
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten().take(MOST)
}
