//! Restarts of containers whose configuration has changed, for pods that ask for it
//! ([`crate::restart::on_config::annotation`]).
//!
//! What a running container has seen of an object cannot be read from its pod, so it is recorded:
//! for each pod that is seen for the first time, and after each restart. A content that differs
//! from the record is a change.
//!
//! * Restarts are asked for by requests ([`Asked`]), one per pod, named after the pod and the
//!   contents that its containers are restarted for: so the same restart cannot be asked for twice,
//!   whatever was forgotten. A request is kept until the pod has another one.
//! * What came of requests goes into the record. So it does not matter what was known of them
//!   before.
//! * Pods of one owner are restarted one after another ([`round`]).
//!
//! What a container has seen after a restart that failed is `Unclear`: it may have started with the
//! new content, and be the reason why. So an object that gets its old content back is a change too.
//! Of Secrets the metadata alone is asked for (`PartialObjectMetadata`), since a watch of the
//! objects would bring the values: their resourceVersion is all that is known, and an edit of a
//! label is a change.

pub mod annotation;
pub mod content;
pub mod pod;
pub mod record;
pub mod round;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::restart::on_config::annotation::{Reference, Source};
use crate::restart::on_config::content::Content;
use crate::restart::on_config::pod::{ConfiguredPod, Life, Use};

/// How long a content has to stay before containers are restarted for it: several edits in a row
/// cost one restart.
pub const QUIET: Duration = Duration::from_secs(5);

/// Contents, by container and source.
pub type Contents = BTreeMap<Box<str>, BTreeMap<Source, Content>>;

/// What is known of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    /// Nothing yet.
    #[default]
    Unseen,
    /// It may not be looked at.
    Forbidden,
    /// What it contains.
    Seen {
        /// What it is.
        content: Content,
        /// Since when it has been seen so.
        since: Duration,
    },
}

/// A request of ours to restart containers of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its name.
    pub name: Box<str>,
    /// Its uid; empty where nothing has been seen of it.
    pub uid: Box<str>,
    /// What its containers are restarted for.
    pub target: Contents,
    /// What has become of it.
    pub progress: Progress,
    /// When it was made, by the API server's clock.
    pub created_at: Option<jiff::Timestamp>,
}

/// What has become of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is not completed, or nobody knows whether it was made.
    Open,
    /// All containers were restarted, and are ready.
    Succeeded,
    /// Some were not; why.
    Failed(Box<str>),
}

/// How a pod stands to its objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// What is to be recorded of the pod.
    pub record: Contents,
    /// What its objects contain, as far as they are seen.
    pub current: Contents,
    /// The contents for which containers are to be restarted now.
    pub stale: Contents,
    /// When there will be more of them, if nothing changes.
    pub due: Option<Duration>,
    /// Those that may not be looked at.
    pub forbidden: BTreeSet<Source>,
}

/// What is known besides the pod.
pub struct Around<'a> {
    /// What is known of an object of the pod's namespace.
    pub look: &'a dyn Fn(&Reference) -> Sight,
    /// How long a change of an object takes until it is in the files of a mounted volume.
    pub mount_delay: Duration,
    /// Since when the metadata of the pod has been what it is.
    pub edited_at: Duration,
    /// The time.
    pub now: Duration,
}

impl Around<'_> {
    fn sight(&self, pod: &ConfiguredPod, container: &str, source: &Source) -> Sight {
        match source {
            Source::Object(reference) => (self.look)(reference),
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

/// Compares what was recorded of a pod with what is there; `requests` are those for the pod, the
/// oldest first.
#[must_use]
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
        standing.add(pod, container, changes, around.now);
    }
    standing
}

/// What a container was configured with and has changed.
#[derive(Default)]
struct Changes {
    changed: BTreeMap<Source, Content>,
    /// When all of them may be acted upon.
    due: Duration,
    /// Whether there is an object that is not known yet.
    unknown: bool,
}

impl Changes {
    /// An object that is gone changes nothing: a restart would only find it missing.
    fn compare(
        &mut self,
        usage: Use,
        source: &Source,
        of: (Option<&Content>, &Content),
        since: Duration,
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
        self.due = self.due.max(since.saturating_add(delay));
        self.changed.insert(source.clone(), content.clone());
    }
}

impl Standing {
    fn add(&mut self, pod: &ConfiguredPod, container: &str, changes: Changes, now: Duration) {
        if changes.changed.is_empty() || changes.unknown || pod.life(container) != Life::Alive {
            return;
        }
        if changes.due <= now {
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

/// A container that cannot be started without an object starts with what the object contains once
/// it is there.
fn was_waited_for(pod: &ConfiguredPod, container: &str, source: &Source, before: &Content) -> bool {
    *before == Content::Absent
        && pod.life(container) == Life::Unstarted
        && pod.usage(container, source).required
}

/// The record, with what has come of the requests since.
fn with_requests(recorded: &Contents, requests: &[&Asked]) -> Contents {
    let mut contents = recorded.clone();
    for request in requests {
        for (container, objects) in &request.target {
            for (source, content) in objects {
                let seen = match request.progress {
                    Progress::Open => continue,
                    Progress::Succeeded => content.clone(),
                    // Perhaps it was restarted and is not ready: so it may have seen this, or what
                    // was there before.
                    Progress::Failed(_) => Content::Unclear,
                };
                insert(&mut contents, container, source, seen);
            }
        }
    }
    contents
}

/// The contents in the form in which they are stored.
#[must_use]
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

/// Contents that were stored; `None` where they are none of ours.
#[must_use]
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

/// The sources in words: `configmap/a, pod-metadata`.
#[must_use]
pub fn sources_of(contents: &Contents) -> String {
    let objects: BTreeSet<_> = contents
        .values()
        .flat_map(BTreeMap::keys)
        .map(ToString::to_string)
        .collect();
    objects.into_iter().collect::<Vec<_>>().join(", ")
}

/// The containers in words.
#[must_use]
pub fn containers_of(contents: &Contents) -> String {
    contents
        .keys()
        .map(|container| &**container)
        .collect::<Vec<_>>()
        .join(", ")
}
