//! Restarts of containers whose configuration has changed, for pods that request it
//! ([`crate::restart::on_config::annotation`]).
//!
//! The content of an object that a running container has loaded cannot be read from its pod. So it
//! is recorded for each pod when the pod is first observed, and after each restart. A content that
//! differs from the record is a change.
//!
//! * Restarts are made by requests ([`Asked`]), one per pod, named after the pod and the contents
//!   that its containers are restarted for. So the same restart cannot be requested twice, whatever
//!   state was lost. A request is kept until the pod has another one.
//! * The outcome of requests goes into the record. So it does not matter what was known of them
//!   before.
//! * Pods of one owner are restarted one after another ([`round`]).
//!
//! The content after a restart that failed is `Unclear`: the container may have started with the
//! new content, and that may be why it failed. So an object that gets its old content back is a
//! change too. Of Secrets only the metadata is requested (`PartialObjectMetadata`), since a watch
//! of the objects would deliver the values. Their resourceVersion is all that is known, and an edit
//! of a label is a change.

pub mod annotation;
pub mod pod;
pub mod record;
pub mod round;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::restart::reconcile::ParkImage;

use crate::objects::moment::Moment;
use crate::objects::values::short_digest::short_hex;
use crate::report::decision::listed;
use crate::restart::on_config::annotation::{Reference, Source};
use crate::restart::on_config::pod::{ConfiguredPod, Life, Use};
use k8s_openapi::api::core::v1::ConfigMap;
use sha2::{Digest, Sha256};

/// How long a content has to stay unchanged before containers are restarted for it: several edits
/// in a row cost one restart.
pub const QUIET: Duration = Duration::from_secs(5);

/// Contents, by container and source.
pub type Contents = BTreeMap<Box<str>, BTreeMap<Source, Content>>;

/// The observed state of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    /// The object has not been observed yet.
    #[default]
    Unseen,
    /// The API server denies watching the object.
    Forbidden,
    /// The object was observed, or observed to be absent.
    Seen {
        /// The content of the object.
        content: Content,
        /// The time since when the object has had this content.
        since: Moment,
    },
}

/// A request that swaplet has made to restart containers of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The name of the request.
    pub name: Box<str>,
    /// The uid of the request; empty until the request is observed.
    pub uid: Box<str>,
    /// The contents that its containers are restarted for.
    pub target: Contents,
    /// The outcome of the request so far.
    pub progress: Progress,
    /// When the request was created, by the API server's clock.
    pub created_at: Option<jiff::Timestamp>,
}

/// The outcome of a request so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The request is not completed, or it is unknown whether it was created.
    Open,
    /// All containers were restarted, and are ready.
    Succeeded,
    /// Some containers were not, for this reason.
    Failed(Box<str>),
}

/// The comparison of a pod with the objects that configure it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The contents to record for the pod.
    pub record: Contents,
    /// The present contents of its objects, as far as they are observed.
    pub current: Contents,
    /// The contents for which containers are to be restarted now.
    pub stale: Contents,
    /// When the next contents become stale, if nothing changes.
    pub due: Option<Moment>,
    /// The sources that the API server denies watching.
    pub forbidden: BTreeSet<Source>,
}

/// The inputs of the comparison besides the pod.
pub struct Around<'a> {
    /// Returns the observed state of an object in the pod's namespace.
    pub find: &'a dyn Fn(&Reference) -> Sight,
    /// How long a change of an object takes to reach the files of a mounted volume.
    pub mount_delay: Duration,
    /// The park image: a container that has it loads nothing. It is the idle one of a pair that is
    /// hot-upgraded, or is about to be started anew.
    pub park: Option<&'a ParkImage>,
    /// The time since when the metadata of the pod has been unchanged.
    pub edited_at: Moment,
    /// The time of the decision.
    pub now: Moment,
}

impl Around<'_> {
    fn sight(&self, pod: &ConfiguredPod, container: &str, source: &Source) -> Sight {
        match source {
            Source::Object(reference) => (self.find)(reference),
            Source::PodMetadata => match pod.metadata.get(container) {
                Some(content) => Sight::Seen {
                    content: content.clone(),
                    since: self.edited_at,
                },
                None => Sight::Unseen,
            },
        }
    }
}

/// Compares the record of a pod with the present contents. `requests` are those for the pod, the
/// oldest first.
pub fn stand(
    pod: &ConfiguredPod,
    recorded: &Contents,
    requests: &[&Asked],
    around: &Around<'_>,
) -> Standing {
    let mut standing = Standing::default();
    let recorded = with_requests(recorded, requests);
    for (container, sources) in pod.wish.iter().flatten() {
        let mut changes = Changes::default();
        let image = pod.images.get(container);
        let is_idle = image
            .zip(around.park)
            .is_some_and(|(image, park)| park.is(image));
        for source in sources {
            let before = recorded
                .get(container)
                .and_then(|contents| contents.get(source));
            let before = before.filter(|before| !was_waited_for(pod, container, source, before));
            let kept = match around.sight(pod, container, source) {
                Sight::Seen { content, since } => {
                    insert(&mut standing.current, container, source, content.clone());
                    changes.compare(
                        pod.usage(container, source),
                        source,
                        (before, &content),
                        since,
                        around,
                    );
                    Some(before.cloned().unwrap_or(content))
                }
                Sight::Unseen => {
                    changes.unknown = true;
                    before.cloned()
                }
                Sight::Forbidden => {
                    standing.forbidden.insert(source.clone());
                    before.cloned()
                }
            };
            kept.into_iter()
                .for_each(|content| insert(&mut standing.record, container, source, content));
        }
        standing.add(pod, container, changes, is_idle, around.now);
    }
    standing
}

/// The changed configuration of one container.
#[derive(Default)]
struct Changes {
    changed: BTreeMap<Source, Content>,
    /// When the container may be restarted for all of them.
    due: Moment,
    /// Set once a source is found that is not observed yet.
    unknown: bool,
}

impl Changes {
    /// Adds a source whose content differs from the record. An object that is gone is no change: a
    /// restart would only find it missing.
    fn compare(
        &mut self,
        usage: Use,
        source: &Source,
        of: (Option<&Content>, &Content),
        since: Moment,
        around: &Around<'_>,
    ) {
        let (before, content) = of;
        if before.is_none_or(|before| before == content) || *content == Content::Absent {
            return;
        }
        let delay = if usage.mounted {
            around.mount_delay.max(QUIET)
        } else {
            QUIET
        };
        self.due = self.due.max(since + delay);
        self.changed.insert(source.clone(), content.clone());
    }
}

impl Standing {
    /// Adds the changes of a container. An idle one that loads later loads them all once they have
    /// reached its files.
    fn add(
        &mut self,
        pod: &ConfiguredPod,
        container: &str,
        changes: Changes,
        is_idle: bool,
        now: Moment,
    ) {
        if changes.changed.is_empty() || changes.unknown || pod.life(container) != Life::Alive {
            return;
        }
        if changes.due <= now && is_idle {
            for (source, content) in changes.changed {
                insert(&mut self.record, container, &source, content);
            }
        } else if changes.due <= now {
            self.stale.insert(container.into(), changes.changed);
        } else {
            self.due = Some(self.due.map_or(changes.due, |due| due.min(changes.due)));
        }
    }
}

fn insert(contents: &mut Contents, container: &str, source: &Source, content: Content) {
    contents
        .entry(container.into())
        .or_default()
        .insert(source.clone(), content);
}

/// Returns true for a container that waits for a missing object that it requires: it starts with
/// the object's content once that exists.
fn was_waited_for(pod: &ConfiguredPod, container: &str, source: &Source, before: &Content) -> bool {
    *before == Content::Absent
        && pod.life(container) == Life::Unstarted
        && pod.usage(container, source).required
}

/// Returns the record, updated by the outcome of the requests since.
fn with_requests(recorded: &Contents, requests: &[&Asked]) -> Contents {
    let mut contents = recorded.clone();
    for request in requests {
        for (container, objects) in &request.target {
            for (source, content) in objects {
                let seen = match request.progress {
                    Progress::Open => continue,
                    Progress::Succeeded => content.clone(),
                    // It may have been restarted without becoming ready: with this content, or with
                    // the one before.
                    Progress::Failed(_) => Content::Unclear,
                };
                insert(&mut contents, container, source, seen);
            }
        }
    }
    contents
}

/// Returns the contents in the JSON form in which they are stored.
pub fn as_text(contents: &Contents) -> String {
    let texts: BTreeMap<_, BTreeMap<_, _>> = contents
        .iter()
        .map(|(container, objects)| {
            (
                container,
                objects
                    .iter()
                    .map(|(object, content)| (object.to_string(), content.as_text()))
                    .collect(),
            )
        })
        .collect();
    // Maps of texts are always JSON.
    serde_json::to_string(&texts).unwrap_or_default()
}

/// Parses stored contents. Returns `None` if they were not stored by swaplet.
pub fn from_text(text: &str) -> Option<Contents> {
    let texts: BTreeMap<Box<str>, BTreeMap<String, String>> = serde_json::from_str(text).ok()?;
    let read = |objects: BTreeMap<String, String>| {
        objects
            .into_iter()
            .map(|(object, content)| {
                Some((Source::read(&object).ok()?, Content::from_text(&content)))
            })
            .collect::<Option<_>>()
    };
    texts
        .into_iter()
        .map(|(container, objects)| Some((container, read(objects)?)))
        .collect()
}

/// Returns the sources as text: `configmap/a, pod-metadata`.
pub fn sources_of(contents: &Contents) -> String {
    let sources = contents.values().flat_map(BTreeMap::keys);
    listed(sources.map(ToString::to_string).collect::<BTreeSet<_>>())
}

/// Returns the names of the containers as text, separated by commas.
pub fn containers_of(contents: &Contents) -> String {
    listed(contents.keys())
}

// The content of an object, or of a pod's metadata: kept only as a digest or a version.

/// The bytes of a digest that are kept.
const DIGEST: usize = 16;

/// The content of an object, as it is kept and compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// The object does not exist.
    Absent,
    /// A digest of the data of a `ConfigMap` or of metadata of the pod, or the resourceVersion of a
    /// `Secret`.
    Is(Box<str>),
    /// Unknown, because a restart has failed halfway, or the object cannot be read. Differs from
    /// every other content.
    Unclear,
}

impl Content {
    /// Returns the digest of a `ConfigMap`, of its data only: editing metadata is no change.
    pub fn of(map: &ConfigMap) -> Self {
        let texts = map.data.iter().flatten();
        let texts = texts.flat_map(|(key, value)| [&b"data"[..], key.as_bytes(), value.as_bytes()]);
        let binary = map.binary_data.iter().flatten();
        let binary = binary.flat_map(|(key, value)| [&b"binaryData"[..], key.as_bytes(), &value.0]);
        Self::digest(texts.chain(binary))
    }

    /// Returns the digest of labels and annotations of the pod, given as `fieldPath` and value.
    pub fn of_metadata(fields: &BTreeMap<&str, &str>) -> Self {
        let fields = fields.iter();
        Self::digest(fields.flat_map(|(path, value)| [path.as_bytes(), value.as_bytes()]))
    }

    fn digest<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut digest = Sha256::new();
        for part in parts {
            digest.update(part.len().to_be_bytes());
            digest.update(part);
        }
        Self::Is(short_hex(&digest.finalize(), DIGEST).into())
    }

    /// Returns the form in which it is stored; empty for `Absent`.
    pub fn as_text(&self) -> &str {
        match self {
            Self::Absent => "",
            Self::Is(text) => text,
            Self::Unclear => "?",
        }
    }

    /// Parses the stored form.
    pub fn from_text(text: &str) -> Self {
        match text {
            "" => Self::Absent,
            "?" => Self::Unclear,
            text => Self::Is(text.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    #[test]
    fn the_content_of_a_config_map_is_its_data() {
        let map = |data: &[(&str, &str)], binary: &[(&str, &str)]| ConfigMap {
            data: Some(
                data.iter()
                    .map(|(key, value)| (key.to_string(), value.to_string()))
                    .collect(),
            ),
            binary_data: Some(
                binary
                    .iter()
                    .map(|(key, value)| (key.to_string(), ByteString(value.as_bytes().to_vec())))
                    .collect(),
            ),
            ..ConfigMap::default()
        };
        let first = map(&[("a", "bc")], &[]);
        let mut edited = first.clone();
        edited.metadata.annotations = Some(BTreeMap::from([("x".to_owned(), "y".to_owned())]));
        edited.metadata.resource_version = Some("7".to_owned());
        assert_eq!(
            Content::of(&first),
            Content::of(&edited),
            "an edit of the metadata changes nothing"
        );
        let none = ConfigMap::default();
        assert_eq!(Content::of(&none), Content::of(&map(&[], &[])));
        let others = [
            map(&[("ab", "c")], &[]),
            map(&[], &[("a", "bc")]),
            map(&[("a", "bd")], &[]),
            none,
        ];
        assert!(
            others
                .iter()
                .all(|other| Content::of(other) != Content::of(&first))
        );
    }

    #[test]
    fn contents_are_read_as_they_were_stored() {
        for content in [Content::Absent, Content::Unclear, Content::Is("42".into())] {
            assert_eq!(Content::from_text(content.as_text()), content);
        }
    }
}
