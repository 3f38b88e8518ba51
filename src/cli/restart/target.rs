//! The target that the command line names: pods, a workload, or a selector.

use swaplet_core::restart::rollout::Rounding;

/// The target of a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// These named pods.
    Pods(Vec<String>),
    /// The pods of a workload.
    Workload(Workload, String),
    /// The pods that a label selector matches.
    Selector(String),
}

/// A kind whose pods can be restarted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    Deployment,
    StatefulSet,
    DaemonSet,
}

/// The words that kubectl accepts for pods.
const PODS: [&str; 3] = ["po", "pod", "pods"];

enum Named {
    Pod(String),
    Workload(Workload, String),
}

impl Workload {
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
        }
    }

    /// Parses the words that kubectl accepts for it.
    fn read(word: &str) -> Option<Self> {
        match word {
            "deploy" | "deployment" | "deployments" | "deployment.apps" | "deployments.apps" => {
                Some(Self::Deployment)
            }
            "sts" | "statefulset" | "statefulsets" | "statefulset.apps" | "statefulsets.apps" => {
                Some(Self::StatefulSet)
            }
            "ds" | "daemonset" | "daemonsets" | "daemonset.apps" | "daemonsets.apps" => {
                Some(Self::DaemonSet)
            }
            _ => None,
        }
    }
}

impl Target {
    /// Parses the command line.
    ///
    /// # Errors
    /// What is wrong with it, and the correct form.
    pub(super) fn read(names: &[String], selector: Option<&str>) -> Result<Self, String> {
        let mut named = type_slash_name(names)
            .iter()
            .map(|name| one(name))
            .collect::<Result<Vec<_>, _>>()?;
        match (named.len(), selector) {
            (0, Some(selector)) if selector.trim().is_empty() => {
                Err("-l is empty: it would restart every pod of the namespace".to_owned())
            }
            (0, Some(selector)) => Ok(Self::Selector(selector.to_owned())),
            (0, None) => Err(
                "say what to restart: a pod, deploy/NAME, sts/NAME, ds/NAME, or -l SELECTOR"
                    .to_owned(),
            ),
            (_, Some(_)) => Err("name something or select it with -l, not both".to_owned()),
            (1, None) => Ok(match named.remove(0) {
                Named::Pod(name) => Self::Pods(vec![name]),
                Named::Workload(kind, name) => Self::Workload(kind, name),
            }),
            (_, None) => pods(named).map(Self::Pods),
        }
    }

    /// Returns how a percentage of its pods is rounded.
    pub(super) const fn rounding(&self) -> Rounding {
        match self {
            Self::Workload(Workload::StatefulSet | Workload::DaemonSet, _) => Rounding::Up,
            Self::Workload(Workload::Deployment, _) | Self::Pods(_) | Self::Selector(_) => {
                Rounding::Down
            }
        }
    }

    /// Returns true if its pods have ordinals.
    pub(super) const fn has_ordinals(&self) -> bool {
        matches!(self, Self::Workload(Workload::StatefulSet, _))
    }

    /// Returns true if the pods were named one by one: then each must exist.
    pub(super) const fn is_named(&self) -> bool {
        matches!(self, Self::Pods(_))
    }
}

/// Converts `TYPE NAME...` to `TYPE/NAME ...`: kubectl's users write both.
fn type_slash_name(words: &[String]) -> Vec<String> {
    match words.split_first() {
        Some((kind, names))
            if !names.is_empty()
                && (PODS.contains(&&**kind) || Workload::read(kind).is_some())
                && names.iter().all(|name| !name.contains('/')) =>
        {
            names.iter().map(|name| format!("{kind}/{name}")).collect()
        }
        _ => words.to_vec(),
    }
}

fn one(text: &str) -> Result<Named, String> {
    let Some((kind, name)) = text.split_once('/') else {
        return Ok(Named::Pod(text.to_owned()));
    };
    if name.is_empty() || name.contains('/') {
        return Err(format!("\"{text}\" is not of the form KIND/NAME"));
    }
    match (kind, Workload::read(kind)) {
        (kind, _) if PODS.contains(&kind) => Ok(Named::Pod(name.to_owned())),
        (_, Some(workload)) => Ok(Named::Workload(workload, name.to_owned())),
        _ => Err(format!(
            "\"{text}\": containers of a {kind} cannot be restarted; name a pod, deploy/NAME, sts/NAME or ds/NAME"
        )),
    }
}

/// Returns the names of the pods, each once.
fn pods(named: Vec<Named>) -> Result<Vec<String>, String> {
    let mut pods: Vec<String> = Vec::new();
    for one in named {
        match one {
            Named::Pod(name) if pods.contains(&name) => {}
            Named::Pod(name) => pods.push(name),
            Named::Workload(kind, name) => {
                return Err(format!(
                    "one workload at a time: {}/{name} is not the only target",
                    kind.kind()
                ));
            }
        }
    }
    Ok(pods)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(names: &[&str], selector: Option<&str>) -> Result<Target, String> {
        Target::read(
            &names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>(),
            selector,
        )
    }

    #[test]
    fn targets_are_written_as_for_kubectl() {
        let pods = |names: &[&str]| {
            Ok(Target::Pods(
                names.iter().map(|name| (*name).to_owned()).collect(),
            ))
        };
        assert_eq!(read(&["web"], None), pods(&["web"]));
        assert_eq!(read(&["pod/web", "po/b", "web"], None), pods(&["web", "b"]));
        assert_eq!(read(&["pod", "web", "b"], None), pods(&["web", "b"]));
        assert_eq!(
            read(&["deployment.apps/web"], None),
            Ok(Target::Workload(Workload::Deployment, "web".to_owned()))
        );
        assert_eq!(
            read(&["deployment", "web"], None),
            Ok(Target::Workload(Workload::Deployment, "web".to_owned()))
        );
        assert_eq!(
            read(&["sts/db"], None),
            Ok(Target::Workload(Workload::StatefulSet, "db".to_owned()))
        );
        assert_eq!(
            read(&["daemonsets/log"], None),
            Ok(Target::Workload(Workload::DaemonSet, "log".to_owned()))
        );
        assert_eq!(
            read(&[], Some("app=web")),
            Ok(Target::Selector("app=web".to_owned()))
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_how_to_write_it() {
        for (names, selector, words) in [
            (&[][..], None, "deploy/NAME"),
            (&["web"], Some("a=b"), "not both"),
            (&[], Some(" "), "every pod"),
            (&["job/x"], None, "containers of a job cannot be restarted"),
            (&["deploy/"], None, "KIND/NAME"),
            (&["pod/a/b"], None, "KIND/NAME"),
            (&["deploy/a", "pod/b"], None, "one workload at a time"),
        ] {
            let problem = read(names, selector).unwrap_err();
            assert!(problem.contains(words), "{names:?}: {problem}");
        }
    }
}
