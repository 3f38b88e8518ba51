//! The command line of the container of an installation: its arguments, variables and the file of
//! `--config`, combined like the kubelet does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVar, PodSpec};
use kube::{Api, Client};
use swaplet_controller::frame::list::words;

use super::flags::Flags;

/// The maximum number of arguments or variables; no real installation has more.
const MOST: usize = 1000;

/// Returns the container that runs the controller.
pub(super) fn container(pod: &PodSpec) -> Option<&Container> {
    let runs = |container: &&Container| {
        let args = container.args.as_deref().unwrap_or_default();
        args.first().is_some_and(|word| word == "run")
    };
    let mut containers = pod.containers.iter();
    containers
        .clone()
        .find(|container| container.name == "swaplet")
        .or_else(|| containers.find(runs))
        .or_else(|| pod.containers.first())
}

/// Reads its flags.
pub(super) async fn flags(
    client: &Client,
    namespace: &str,
    name: &str,
    pod: &PodSpec,
) -> Result<Flags, String> {
    let container = container(pod).ok_or("its pod has no container")?;
    let args = container.args.as_deref().unwrap_or_default();
    let env = container.env.as_deref().unwrap_or_default();
    if args.len() > MOST || env.len() > MOST {
        return Err(format!("it has more than {MOST} arguments or variables"));
    }
    let variables = variables(env, namespace, name)?;
    let args: Vec<_> = args.iter().map(|arg| expanded(arg, &variables)).collect();
    let files = Files {
        client,
        namespace,
        pod,
        container,
    };
    let config = value_of("config", &args).or_else(|| variables.get("SWAPLET_CONFIG").cloned());
    let config = match config {
        Some(path) => {
            let text = files.text(&path).await?;
            Some((PathBuf::from(path), text))
        }
        None => None,
    };
    let mut flags = Flags::read(&args, &variables, config)?;
    if let Some(path) = flags.one("node-classes").map(str::to_owned) {
        flags.node_classes = Some(files.text(&path).await?);
    }
    Ok(flags)
}

/// Returns the variables that matter; a value from elsewhere is an error.
fn variables(
    env: &[EnvVar],
    namespace: &str,
    name: &str,
) -> Result<BTreeMap<String, String>, String> {
    let mut variables = BTreeMap::new();
    for each in env {
        let field = each
            .value_from
            .as_ref()
            .and_then(|from| from.field_ref.as_ref());
        let value = match field.map(|field| &*field.field_path) {
            Some("metadata.namespace") => Some(namespace.to_owned()),
            Some("metadata.name") => Some(name.to_owned()),
            Some(_) => None,
            None if each.value_from.is_some() => None,
            None => Some(expanded(
                each.value.as_deref().unwrap_or_default(),
                &variables,
            )),
        };
        match value {
            Some(value) => drop(variables.insert(each.name.clone(), value)),
            None if each.name.starts_with("SWAPLET_") => {
                return Err(format!(
                    "the value of {} is not in the Deployment",
                    each.name
                ));
            }
            None => {}
        }
    }
    Ok(variables)
}

/// Replaces `$(NAME)`, like the kubelet.
fn expanded(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut result = text.to_owned();
    for (name, value) in variables {
        let reference = format!("$({name})");
        if result.contains(&reference) {
            result = result.replace(&reference, value);
        }
    }
    result
}

/// Returns the value of a flag on a command line.
fn value_of(flag: &str, args: &[String]) -> Option<String> {
    let (alone, with_value) = (format!("--{flag}"), format!("--{flag}="));
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if let Some(value) = arg.strip_prefix(&with_value) {
            return Some(value.to_owned());
        }
        if *arg == alone {
            return args.next().cloned();
        }
    }
    None
}

/// The files of the container that come from ConfigMaps.
struct Files<'a> {
    client: &'a Client,
    namespace: &'a str,
    pod: &'a PodSpec,
    container: &'a Container,
}

impl Files<'_> {
    async fn text(&self, path: &str) -> Result<String, String> {
        let (map, key) = self
            .source(Path::new(path))
            .ok_or_else(|| format!("its file {path} is in no ConfigMap"))?;
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), self.namespace);
        let read = maps
            .get(&map)
            .await
            .map_err(|error| format!("ConfigMap {map}: {}", words(&error)))?;
        read.data
            .and_then(|mut data| data.remove(&key))
            .ok_or_else(|| format!("ConfigMap {map} has no key {key}"))
    }

    /// Returns the ConfigMap, and the key in it, that are mounted at this path.
    fn source(&self, path: &Path) -> Option<(String, String)> {
        let mounts = self.container.volume_mounts.as_deref().unwrap_or_default();
        let (mount, rest) = mounts
            .iter()
            .filter_map(|mount| Some((mount, path.strip_prefix(&mount.mount_path).ok()?)))
            .max_by_key(|(mount, _)| mount.mount_path.len())?;
        let file = match &mount.sub_path {
            Some(sub_path) => Path::new(sub_path).join(rest),
            None => rest.to_owned(),
        };
        let file = file.to_str()?.trim_end_matches('/');
        let mut volumes = self.pod.volumes.iter().flatten();
        let volume = volumes.find(|volume| volume.name == mount.name)?;
        let map = volume.config_map.as_ref()?;
        let key = match &map.items {
            Some(items) => items.iter().find(|item| item.path == file)?.key.clone(),
            None => file.to_owned(),
        };
        Some((map.name.clone(), key))
    }
}
