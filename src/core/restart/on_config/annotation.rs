//! The annotation by which a pod requests that a container be restarted when its configuration
//! changes:
//!
//! ```text
//! swaplet.io/restart-on: app=configmap/app-settings,secret-metadata/app-tls; log=configmap/log-settings,pod-metadata
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use strum::{EnumString, IntoStaticStr};

use crate::objects::values::label_selector::is_subdomain;

/// The annotation of a pod. A request that is made because of it has it too, with what the
/// containers are restarted for.
pub const RESTART_ON: &str = "swaplet.io/restart-on";
/// The word for [`Source::PodMetadata`] in the annotation.
const POD_METADATA: &str = "pod-metadata";
/// The most sources that one pod may name: each object is a watch.
pub const MOST_REFERENCES: usize = 16;
/// The longest value of the annotation in bytes, so that the memory of a pod stays small.
const MOST_BYTES: usize = 1024;

/// The sources that each named container is restarted for.
pub type RestartOn = BTreeMap<Box<str>, BTreeSet<Source>>;

/// A source of a container's configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A `ConfigMap`, or the metadata of a `Secret`.
    Object(Reference),
    /// The labels and annotations of its own pod that its environment takes, by
    /// `valueFrom.fieldRef`: as the kubelet does at each start of a container
    /// (`pkg/kubelet/kubelet_pods.go`, `podFieldSelectorRuntimeValue`), and `OpenKruise`'s daemon for
    /// its gate `InPlaceUpdateEnvFromMetadata`.
    PodMetadata,
}

/// A reference to an object in the pod's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    /// The kind of the object.
    pub kind: ReferenceKind,
    /// The name of the object.
    pub name: Box<str>,
}

/// The kinds of objects that can be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EnumString, IntoStaticStr)]
pub enum ReferenceKind {
    /// A `ConfigMap`, of which `data` and `binaryData` count.
    #[strum(serialize = "configmap")]
    ConfigMap,
    /// The metadata of a `Secret`, of which the resourceVersion counts: its values are never read.
    #[strum(serialize = "secret-metadata")]
    SecretMetadata,
}

/// Why a value of the annotation cannot be used, with the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A part without `=`, or with nothing on one side of it.
    #[error("\"{0}\" is not of the form CONTAINER=configmap/NAME")]
    Form(Box<str>),
    /// A container is named twice.
    #[error(
        "container {0} is named twice; write all of its objects after one \"=\", with commas between them"
    )]
    Twice(Box<str>),
    /// An object of another kind, or of none.
    #[error(
        "\"{0}\" is neither configmap/NAME nor secret-metadata/NAME (of a Secret only the metadata is read, never its values) nor {POD_METADATA}"
    )]
    Kind(Box<str>),
    /// A name that no object can have.
    #[error("\"{0}\" is not the name of an object: lower-case letters, digits, \"-\" and \".\"")]
    Name(Box<str>),
    /// The pod has no such container that could be restarted.
    #[error(
        "the pod has no container {0} that can be restarted (of init containers native sidecars can)"
    )]
    NoContainer(Box<str>),
    /// The container's environment takes no label or annotation that could change.
    #[error(
        "{POD_METADATA} for container {0}, whose environment uses no label or annotation of the pod: give it a variable with \
         valueFrom.fieldRef.fieldPath metadata.labels['KEY'] or metadata.annotations['KEY'] (keys of swaplet.io do not count), or leave \
         {POD_METADATA} out"
    )]
    NoMetadata(Box<str>),
    /// More sources, or a longer value, than the limits.
    #[error(
        "at most {MOST_REFERENCES} objects in {MOST_BYTES} characters can be named; leave some out"
    )]
    TooMany,
    /// The annotation names nothing.
    #[error("nothing is named; write CONTAINER=configmap/NAME, or remove the annotation")]
    Empty,
}

impl ReferenceKind {
    /// Returns the plural name of the resource.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmaps",
            Self::SecretMetadata => "secrets",
        }
    }

    /// Returns the word for the kind in the annotation.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.kind.as_str(), self.name)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(reference) => reference.fmt(out),
            Self::PodMetadata => out.write_str(POD_METADATA),
        }
    }
}

impl Source {
    /// Parses a source as it is written in the annotation.
    ///
    /// # Errors
    /// [`Problem::Kind`] if it names no known kind, and [`Problem::Name`] if no object can have the
    /// name.
    pub fn read(text: &str) -> Result<Self, Problem> {
        if text == POD_METADATA {
            Ok(Self::PodMetadata)
        } else {
            Reference::read(text).map(Self::Object)
        }
    }
}

impl Reference {
    /// Parses a reference as it is written in the annotation.
    ///
    /// # Errors
    /// [`Problem::Kind`] if it names no known kind, and [`Problem::Name`] if no object can have the
    /// name.
    pub fn read(text: &str) -> Result<Self, Problem> {
        let found = text
            .split_once('/')
            .and_then(|(word, name)| Some((word.parse().ok()?, name)));
        let (kind, name) = found.ok_or_else(|| Problem::Kind(text.into()))?;
        if !is_subdomain(name) {
            return Err(Problem::Name(name.into()));
        }
        Ok(Self {
            kind,
            name: name.into(),
        })
    }
}

/// Parses the annotation of a pod that has these containers.
///
/// # Errors
/// The first [`Problem`] found: then nothing of the annotation is used.
pub fn parse(text: &str, containers: &[Box<str>]) -> Result<RestartOn, Problem> {
    if text.len() > MOST_BYTES {
        return Err(Problem::TooMany);
    }
    let mut wish = RestartOn::new();
    for part in text
        .split(';')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (container, objects) = part
            .split_once('=')
            .ok_or_else(|| Problem::Form(part.into()))?;
        let (container, objects) = (container.trim(), objects.trim());
        if container.is_empty() || objects.is_empty() {
            return Err(Problem::Form(part.into()));
        }
        if !containers.iter().any(|known| **known == *container) {
            return Err(Problem::NoContainer(container.into()));
        }
        let sources = objects
            .split(',')
            .map(|source| Source::read(source.trim()))
            .collect::<Result<_, _>>()?;
        if wish.insert(container.into(), sources).is_some() {
            return Err(Problem::Twice(container.into()));
        }
    }
    let count = wish.values().map(BTreeSet::len).sum::<usize>();
    if wish.is_empty() {
        Err(Problem::Empty)
    } else if count > MOST_REFERENCES {
        Err(Problem::TooMany)
    } else {
        Ok(wish)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<RestartOn, Problem> {
        parse(text, &["app".into(), "log".into()])
    }

    #[test]
    fn containers_and_their_objects_are_read() {
        let wish =
            read(" app = configmap/settings, secret-metadata/app.tls ;log=configmap/settings,pod-metadata; ")
                .unwrap();
        let objects = |container: &str| {
            wish[container]
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (objects("app"), objects("log")),
            (
                vec![
                    "configmap/settings".into(),
                    "secret-metadata/app.tls".into()
                ],
                vec!["configmap/settings".to_owned(), "pod-metadata".to_owned()]
            )
        );
    }

    #[test]
    fn each_mistake_is_told_with_what_to_write_instead() {
        for (text, words) in [
            (
                "configmap/settings",
                "\"configmap/settings\" is not of the form CONTAINER=configmap/NAME",
            ),
            ("app=", "CONTAINER=configmap/NAME"),
            ("=configmap/a", "CONTAINER=configmap/NAME"),
            ("", "remove the annotation"),
            (" ; ", "remove the annotation"),
            (
                "app=configmap/a;app=configmap/b",
                "container app is named twice",
            ),
            ("web=configmap/a", "no container web"),
            (
                "app=secret/a",
                "\"secret/a\" is neither configmap/NAME nor secret-metadata/NAME",
            ),
            ("app=configmap/a,,", "\"\" is neither"),
            ("app=configmap", "\"configmap\" is neither"),
            ("app=pod-metadata/a", "nor pod-metadata"),
            ("app=configmap/", "\"\" is not the name"),
            ("app=configmap/A", "\"A\" is not the name"),
            ("app=configmap/a/b", "\"a/b\" is not the name"),
            ("app=configmap/a..b", "\"a..b\" is not the name"),
        ] {
            let problem = read(text).expect_err(text).to_string();
            assert!(problem.contains(words), "{text}: {problem}");
        }
        let many: Vec<_> = (0..=MOST_REFERENCES)
            .map(|nth| format!("configmap/a{nth}"))
            .collect();
        assert_eq!(
            read(&format!("app={}", many.join(","))),
            Err(Problem::TooMany)
        );
        assert_eq!(
            read(&format!("app=configmap/{}", "a".repeat(MOST_BYTES))),
            Err(Problem::TooMany)
        );
    }
}
