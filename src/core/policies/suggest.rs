//! Policies that would end what stuck pods wait for.
//!
//! Nobody has said that these containers are sidecars, so this is a guess, and it says what speaks
//! for it. A pod is stuck where some containers have ended for good, all others run, and that for a
//! while. Of those that run each may be the one that does the work.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::presets::{self, Preset};
use super::set::owner_kind;
use crate::check::known;
use crate::objects::pod::{Container, ContainerState, Pod, RestartPolicy, roles};

/// The most suggestions.
pub const MOST: usize = 64;
/// The most examples of each, of images and of namespaces.
const MOST_EXAMPLES: usize = 5;
/// The most namespaces of a policy.
const MOST_NAMESPACES: usize = 64;

/// Presets of proxies, through which other sidecars send what they still have.
const PROXIES: [&str; 4] = ["istio", "linkerd", "kuma", "dapr"];

/// A pod that seems to wait for containers that nothing makes sidecars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its Job, if it is of one.
    pub job: Option<Box<str>>,
    /// The kind of what controls it, as policies write it.
    pub owner_kind: Box<str>,
    /// When the last of those containers ended that have.
    pub since: Timestamp,
    /// Those that have ended.
    pub ended: Vec<Box<str>>,
    /// Those that run.
    pub waits_for: Vec<Waiting>,
}

/// A container that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its name.
    pub name: Box<str>,
    /// Its image.
    pub image: Box<str>,
    /// What it is, by its name or its image, where that is known.
    pub what: Option<&'static str>,
}

/// One policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// What it calls the container.
    pub subject: Subject,
    /// What the container is, where that is known.
    pub what: Option<&'static str>,
    /// Whether it is to come after others, which may send through it.
    pub comes_last: bool,
    /// Some of the images.
    pub images: BTreeSet<Box<str>>,
    /// The namespaces of the pods.
    pub namespaces: BTreeSet<Box<str>>,
    /// Whether there are more of them.
    pub more_namespaces: bool,
    /// What controls the pods.
    pub owner_kinds: BTreeSet<Box<str>>,
    /// The containers that have ended beside it.
    pub ended: BTreeSet<Box<str>>,
    /// How many pods wait for it, and some of them, the longest first.
    pub pods: usize,
    /// Some pods, as NAMESPACE/NAME.
    pub examples: Vec<String>,
    /// Since when the one that has waited longest does.
    pub since: Timestamp,
}

/// What a policy calls the container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// By its preset.
    Preset(&'static str),
    /// By its name.
    Name(Box<str>),
}

impl Subject {
    /// The word that stands in the policy.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Preset(preset) => preset,
            Self::Name(name) => name,
        }
    }

    /// The names of the containers.
    #[must_use]
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

    /// What a policy would call it.
    #[must_use]
    pub fn subject(&self) -> Subject {
        match preset(&self.name) {
            Some(preset) => Subject::Preset(&preset.name),
            None => Subject::Name(self.name.clone()),
        }
    }
}

/// The preset of a container of this name.
fn preset(name: &str) -> Option<&'static Preset> {
    let mut all = presets::all().iter();
    all.find(|preset| preset.containers.iter().any(|known| *known == *name))
}

/// Whether a pod has been stuck for so long. One whose sidecars are all known to swaplet is not: it
/// is ended already, or something else keeps it.
#[must_use]
pub fn stuck(pod: &Pod, now: Timestamp, least: SignedDuration) -> Option<Stuck> {
    let is_over = pod.deleting || pod.phase.is_terminal();
    let ends = matches!(
        pod.restart_policy,
        RestartPolicy::Never | RestartPolicy::OnFailure
    );
    if is_over || !ends || pod.malformed.is_some() {
        return None;
    }
    let (mut ended, mut waits_for) = (Vec::new(), Vec::new());
    for container in roles::mains(pod) {
        match (container.end(), &container.status.as_ref()?.state) {
            (Some(end), _) if container.comes_back_after(pod, end.exit_code) == Some(false) => {
                ended.push(container);
            }
            (None, ContainerState::Running { .. }) => waits_for.push(Waiting::of(container)),
            // It is being started: the work goes on.
            _ => return None,
        }
    }
    // A helper that has ended beside the work is no sign.
    let worked = |each: &&Container| {
        known::sidecar(&each.name, &each.image).is_none() && preset(&each.name).is_none()
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

/// A policy for each distinct container that they wait for: those for which most pods wait come
/// first; and how many more there would be.
#[must_use]
pub fn suggest(pods: &[Stuck]) -> (Vec<Suggestion>, usize) {
    let mut pods: Vec<_> = pods.iter().collect();
    pods.sort_by_key(|pod| pod.since);
    let mut found = BTreeMap::<Subject, Suggestion>::new();
    for pod in pods {
        let mut told = BTreeSet::new();
        for waiting in &pod.waits_for {
            let subject = waiting.subject();
            let suggestion = found
                .entry(subject.clone())
                .or_insert_with(|| Suggestion::new(subject.clone(), pod.since));
            suggestion.note_image(waiting, pod);
            if told.insert(subject) {
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
