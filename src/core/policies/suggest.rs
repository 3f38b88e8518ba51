//! Suggestions of policies that would end the containers for which stuck pods wait.
//!
//! Nobody has declared these containers sidecars, so this is a guess, with the evidence for it. A
//! pod is stuck if some containers have ended for good and all others have been running for a while
//! since. Each of the running ones may be the one that does the work.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::presets;
use super::set::owner_kind;
use crate::check::known;
use crate::objects::pod::{Container, ContainerState, Pod, RestartPolicy, roles};
use crate::objects::sidecar_policy::CLOSED;

/// The most suggestions that are made.
pub const MOST: usize = 64;
/// The most examples of pods, of images and of ended containers in a suggestion.
const MOST_EXAMPLES: usize = 5;
/// The most namespaces in a suggestion.
const MOST_NAMESPACES: usize = 64;

/// Presets of proxies, through which other sidecars send their last data.
const PROXIES: [&str; 4] = ["istio", "linkerd", "kuma", "dapr"];

/// A pod that seems to wait for containers that no mark or policy makes sidecars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The namespace of the pod.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// The name of its Job, if a Job controls it.
    pub job: Option<Box<str>>,
    /// The kind of its controller, as policies spell it.
    pub owner_kind: Box<str>,
    /// When the last of the ended containers ended.
    pub since: Timestamp,
    /// The containers that have ended.
    pub ended: Vec<Box<str>>,
    /// The containers that run.
    pub waits_for: Vec<Waiting>,
}

/// A running container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its name.
    pub name: Box<str>,
    /// Its image.
    pub image: Box<str>,
    /// A description of a known sidecar, by its name or image; `None` if it is unknown.
    pub what: Option<&'static str>,
}

/// A suggestion of one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// The subject of its rule.
    pub subject: Subject,
    /// A description of the container, if it is known.
    pub what: Option<&'static str>,
    /// True if it is to be ended after others, which may send through it.
    pub comes_last: bool,
    /// Some of the images of the container.
    pub images: BTreeSet<Box<str>>,
    /// The namespaces of the pods.
    pub namespaces: BTreeSet<Box<str>>,
    /// True if there are more namespaces.
    pub more_namespaces: bool,
    /// The kinds of the pods' controllers.
    pub owner_kinds: BTreeSet<Box<str>>,
    /// The containers that have ended beside it.
    pub ended: BTreeSet<Box<str>>,
    /// The number of pods that wait for it.
    pub pods: usize,
    /// Some of these pods, the longest waiting first, as NAMESPACE/NAME.
    pub examples: Vec<String>,
    /// Since when the longest waiting pod waits.
    pub since: Timestamp,
}

/// The subject of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The preset of the container.
    Preset(&'static str),
    /// The name of the container.
    Name(Box<str>),
}

impl Subject {
    /// Returns the value that is written into the policy.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Preset(preset) => preset,
            Self::Name(name) => name,
        }
    }

    /// Returns the names of the containers.
    pub fn containers(&self) -> Vec<&str> {
        match self {
            Self::Preset(preset) => presets::named(preset)
                .map(|preset| preset.containers.iter().map(String::as_str).collect())
                .unwrap_or_default(),
            Self::Name(name) => vec![name],
        }
    }
}

impl Waiting {
    fn of(container: &Container) -> Self {
        Self {
            name: container.name.clone(),
            image: container.image.clone(),
            what: known::sidecar(&container.name, &container.image),
        }
    }

    /// Returns the subject that a policy would use for it.
    pub fn subject(&self) -> Subject {
        match presets::of_container(&self.name) {
            Some(preset) => Subject::Preset(&preset.name),
            None => Subject::Name(self.name.clone()),
        }
    }
}

/// What a container waits for that runs nothing and may never do. With other reasons it is about to
/// start, or is started again and again, as work is that fails.
const STAYS: [&str; 2] = ["ErrImagePull", "ImagePullBackOff"];

/// Returns the pod as stuck if it has been for at least `least`. A pod whose sidecars are all known
/// to swaplet is not stuck: it is ended already, or something else keeps it. Nor is one for which no
/// policy counts, or one more name would be refused as well.
pub fn stuck(pod: &Pod, now: Timestamp, least: SignedDuration) -> Option<Stuck> {
    let is_over = pod.deleting || pod.phase.is_terminal();
    let ends = matches!(
        pod.restart_policy,
        RestartPolicy::Never | RestartPolicy::OnFailure
    );
    let is_closed = CLOSED.contains(&&*pod.namespace) || pod.refused_policy.is_some();
    if is_over || !ends || is_closed || pod.malformed.is_some() {
        return None;
    }
    let (mut ended, mut waits_for) = (Vec::new(), Vec::new());
    for container in roles::mains(pod) {
        match (container.end(), &container.status.as_ref()?.state) {
            (Some(end), _) if container.comes_back_after(pod, end.exit_code) == Some(false) => {
                ended.push(container);
            }
            (None, ContainerState::Running { .. }) => waits_for.push(Waiting::of(container)),
            (None, ContainerState::Waiting { reason, .. }) if STAYS.contains(&&**reason) => {
                waits_for.push(Waiting::of(container));
            }
            // The container is being started: the work continues.
            _ => return None,
        }
    }
    // A helper that has ended beside the work is no sign.
    let worked = |each: &&Container| {
        known::sidecar(&each.name, &each.image).is_none()
            && presets::of_container(&each.name).is_none()
    };
    ended.iter().copied().find(worked)?;
    let since = ended
        .iter()
        .filter_map(|each| each.end()?.finished_at)
        .max()?;
    let is_long = now.duration_since(since) >= least;
    (is_long && !waits_for.is_empty()).then(|| Stuck {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        job: pod.job.as_ref().map(|job| job.name.clone()),
        owner_kind: owner_kind(pod),
        since,
        ended: ended.iter().map(|each| each.name.clone()).collect(),
        waits_for,
    })
}

/// Suggests a policy for each distinct container that they wait for, the one with the most waiting
/// pods first. Also returns the number of suggestions beyond [`MOST`].
pub fn suggest(pods: &[Stuck]) -> (Vec<Suggestion>, usize) {
    let mut pods: Vec<_> = pods.iter().collect();
    pods.sort_by_key(|pod| pod.since);
    let mut found = BTreeMap::<Subject, Suggestion>::new();
    for pod in pods {
        let mut reported = BTreeSet::new();
        for waiting in &pod.waits_for {
            let subject = waiting.subject();
            let suggestion = found
                .entry(subject.clone())
                .or_insert_with(|| Suggestion::new(subject.clone(), pod.since));
            suggestion.note_image(waiting, pod);
            if reported.insert(subject) {
                suggestion.note(pod);
            }
        }
    }
    let mut found: Vec<_> = found.into_values().collect();
    found.sort_by_key(|suggestion| std::cmp::Reverse(suggestion.pods));
    let more = found.len().saturating_sub(MOST);
    found.truncate(MOST);
    (found, more)
}

impl Suggestion {
    const fn new(subject: Subject, since: Timestamp) -> Self {
        Self {
            subject,
            what: None,
            comes_last: false,
            images: BTreeSet::new(),
            namespaces: BTreeSet::new(),
            more_namespaces: false,
            owner_kinds: BTreeSet::new(),
            ended: BTreeSet::new(),
            pods: 0,
            examples: Vec::new(),
            since,
        }
    }

    fn note_image(&mut self, waiting: &Waiting, pod: &Stuck) {
        self.what = self.what.or(waiting.what);
        let is_proxy = matches!(self.subject, Subject::Preset(preset) if PROXIES.contains(&preset));
        self.comes_last |= is_proxy && pod.waits_for.len() > 1;
        if self.images.len() < MOST_EXAMPLES {
            self.images.insert(waiting.image.clone());
        }
    }

    fn note(&mut self, pod: &Stuck) {
        self.pods += 1;
        if self.examples.len() < MOST_EXAMPLES {
            self.examples
                .push(format!("{}/{}", pod.namespace, pod.name));
        }
        if self.namespaces.len() < MOST_NAMESPACES {
            self.namespaces.insert(pod.namespace.clone());
        } else {
            self.more_namespaces |= !self.namespaces.contains(&pod.namespace);
        }
        if self.owner_kinds.len() < crate::objects::sidecar_policy::MOST_OWNER_KINDS {
            self.owner_kinds.insert(pod.owner_kind.clone());
        }
        if self.ended.len() < MOST_EXAMPLES {
            let ended = pod.ended.iter().take(MOST_EXAMPLES);
            self.ended.extend(ended.cloned());
        }
    }
}
