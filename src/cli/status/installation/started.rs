//! The command line of the container of an installation: its arguments, variables and the file of
//! `--config`, combined like the kubelet does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVar, PodSpec};
use kube::{Api, Client};
use swaplet_controller::frame::list::words;
use swaplet_core::objects::command::expand::Environment;
use swaplet_core::objects::pod::container_spec::{self, ContainerSpec, EnvValue};

use super::Flags;

/// The maximum number of arguments or variables; no real installation has more.
const MOST: usize = 1000;
/// The prefix of the variables of `swaplet run`.
const OURS: &str = "SWAPLET_";

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
    let (args, variables) = expanded(args, env, namespace, name)?;
    let in_map = |path: &str| source(pod, container, Path::new(path));
    let config = value_of("config", &args).or_else(|| variables.get("SWAPLET_CONFIG").cloned());
    let config = match config {
        Some(path) => {
            let text = text(client, namespace, &path, in_map(&path)).await?;
            Some((PathBuf::from(path), text))
        }
        None => None,
    };
    let mut flags = Flags::read(&args, &variables, config)?;
    if let Some(path) = flags.one("node-classes").map(str::to_owned) {
        flags.node_classes = Some(text(client, namespace, &path, in_map(&path)).await?);
    }
    Ok(flags)
}

/// Returns the arguments and the variables that matter, with `$(NAME)` replaced as by the kubelet,
/// and no further than Linux would take: anybody who may create Deployments writes them.
fn expanded(
    args: &[String],
    env: &[EnvVar],
    namespace: &str,
    name: &str,
) -> Result<(Vec<String>, BTreeMap<String, String>), String> {
    let container = ContainerSpec {
        env: variables(env, namespace, name)?,
        ..ContainerSpec::default()
    };
    let environment = Environment::of(&container);
    let expand = |text: &str, what: &str| {
        environment.expand(text).ok_or_else(|| {
            format!("{what} is too long, or refers to what is not in the Deployment")
        })
    };
    let ours = container.env.iter().map(|entry| &*entry.name);
    let variables = ours
        .filter(|name| name.starts_with(OURS))
        .map(|name| Ok((name.to_owned(), expand(&format!("$({name})"), name)?)))
        .collect::<Result<_, String>>()?;
    let args = args
        .iter()
        .map(|arg| expand(arg, "an argument"))
        .collect::<Result<_, _>>()?;
    Ok((args, variables))
}

/// Returns the variables whose values are known; one of ours from elsewhere is an error.
fn variables(
    env: &[EnvVar],
    namespace: &str,
    name: &str,
) -> Result<Vec<container_spec::EnvVar>, String> {
    let mut variables = Vec::new();
    for each in env {
        let field = each
            .value_from
            .as_ref()
            .and_then(|from| from.field_ref.as_ref());
        let value = match field.map(|field| &*field.field_path) {
            Some("metadata.namespace") => Some(namespace),
            Some("metadata.name") => Some(name),
            Some(_) => None,
            None if each.value_from.is_some() => None,
            None => Some(each.value.as_deref().unwrap_or_default()),
        };
        match value {
            Some(value) => variables.push(container_spec::EnvVar {
                name: each.name.as_str().into(),
                value: EnvValue::Literal(value.into()),
            }),
            None if each.name.starts_with(OURS) => {
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

/// Returns the text of a file of the container, which is in this key of this ConfigMap.
async fn text(
    client: &Client,
    namespace: &str,
    path: &str,
    in_map: Option<(String, String)>,
) -> Result<String, String> {
    let (map, key) = in_map.ok_or_else(|| format!("its file {path} is in no ConfigMap"))?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let read = maps
        .get(&map)
        .await
        .map_err(|error| format!("ConfigMap {map}: {}", words(&error)))?;
    read.data
        .and_then(|mut data| data.remove(&key))
        .ok_or_else(|| format!("ConfigMap {map} has no key {key}"))
}

/// Returns the ConfigMap, and the key in it, that are mounted at this path.
fn source(pod: &PodSpec, container: &Container, path: &Path) -> Option<(String, String)> {
    let mounts = container.volume_mounts.as_deref().unwrap_or_default();
    let (mount, rest) = mounts
        .iter()
        .filter_map(|mount| Some((mount, path.strip_prefix(&mount.mount_path).ok()?)))
        .max_by_key(|(mount, _)| mount.mount_path.len())?;
    let file = match &mount.sub_path {
        Some(sub_path) => Path::new(sub_path).join(rest),
        None => rest.to_owned(),
    };
    let file = file.to_str()?.trim_end_matches('/');
    let mut volumes = pod.volumes.iter().flatten();
    let volume = volumes.find(|volume| volume.name == mount.name)?;
    let map = volume.config_map.as_ref()?;
    let key = match &map.items {
        Some(items) => items.iter().find(|item| item.path == file)?.key.clone(),
        None => file.to_owned(),
    };
    Some((map.name.clone(), key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str], env: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let env: Vec<_> = env
            .iter()
            .map(|(name, value)| EnvVar {
                name: (*name).to_owned(),
                value: Some((*value).to_owned()),
                ..EnvVar::default()
            })
            .collect();
        let (args, variables) = expanded(&args, &env, "system", "swaplet")?;
        Ok(args.into_iter().chain(variables.into_values()).collect())
    }

    #[test]
    fn references_are_replaced_as_by_the_kubelet() {
        let env = [
            ("TAG", "v1"),
            ("SWAPLET_EXIT_IMAGE", "r.example/exit:$(TAG)"),
        ];
        assert_eq!(
            read(&["run", "--leash=$(TAG)$(NONE)$$(TAG)"], &env).unwrap(),
            ["run", "--leash=v1$(NONE)$(TAG)", "r.example/exit:v1"]
        );
    }

    /// Whoever may create Deployments can give one the label, and each line doubles the one before.
    #[test]
    fn values_that_double_line_by_line_are_not_expanded() {
        let names: Vec<_> = (0..20).map(|nth| format!("V{nth:02}")).collect();
        let twice: Vec<_> = names
            .iter()
            .map(|name| format!("$({name})$({name})"))
            .collect();
        let mut env = vec![("V00", "0123456789abcdef")];
        env.extend(
            names[1..]
                .iter()
                .map(String::as_str)
                .zip(twice.iter().map(String::as_str)),
        );
        for (args, more) in [(["run", "$(V19)"], "x"), (["run", "x"], "$(V19)")] {
            let env = [&env[..], &[("SWAPLET_LEASH", more)]].concat();
            let words = read(&args, &env).unwrap_err();
            assert!(words.contains("too long"), "{words}");
        }
    }
}
