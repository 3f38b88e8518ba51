//! Tags that are pinned to the digest that they have when a job begins, so that all nodes get the
//! same bytes although a tag moves meanwhile.
//!
//! A digest counts once it is stored in the status of the job, where it survives a restart of the
//! controller. Until then nothing is pulled for the image.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::image::ImageReference;
use crate::objects::moment::Moment;
use crate::objects::values::backoff::Backoff;
use crate::warm::pull_job::object::{Completion, Pinned, PullSpec};

/// The back-off while a registry does not answer, or refuses.
const RETRY: Backoff = Backoff {
    first: Duration::from_secs(5),
    longest: Duration::from_secs(300),
};
/// The longest wait that a registry can request, because a tenant chooses which registry is
/// queried.
const LONGEST_ASKED: Duration = Duration::from_secs(3600);

/// The note about pull secrets, which are not read.
const SECRETS: &str =
    "registries are queried with the credentials of swaplet itself, not with pullSecrets";
/// The remedy for an image that cannot be pinned.
const REMEDY: &str = "write the digest into the image yourself, as app:v1@sha256:..., or remove the annotation swaplet.io/pin-tags";

/// An image of a job, and what is pulled for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The image as the job spells it.
    pub image: Box<str>,
    /// The reference that is pulled for it, if any.
    pub pull: Pull,
}

/// What is pulled for an image of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pull {
    /// This image reference.
    Image(Box<str>),
    /// Nothing yet: the digest is not stored in the status.
    Waits,
    /// Nothing, for this reason.
    Fails(Box<str>),
}

/// The digest of a tag as a registry returned it, or why it is unknown.
pub type Resolved = Result<Box<str>, Unresolved>;

/// An error for a tag whose digest is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved {
    /// The reason, as text.
    pub words: Box<str>,
    /// True if the registry has answered: another query is of no use until something has changed.
    pub is_answer: bool,
    /// The wait that the registry requests.
    pub retry_after: Option<Duration>,
}

/// The state of a job's tags besides what its status records. It can be lost: then registries are
/// queried again for what the status lacks.
#[derive(Clone, Debug, Default)]
pub struct Pins {
    /// Digests that are not in the status yet.
    resolved: BTreeMap<Box<str>, Box<str>>,
    /// Images that cannot be pinned, with the reason.
    failed: BTreeMap<Box<str>, Box<str>>,
    /// The last error of a registry that did not answer.
    trouble: Option<Box<str>>,
    is_asking: bool,
    /// Set once registries have been queried for the present spec.
    has_asked: bool,
    failures: u32,
    not_before: Moment,
    /// When the first query for unknown digests was made; `None` while none is unknown.
    since: Option<Moment>,
}

impl Pins {
    /// Follows a change of the spec: images that have failed get another chance.
    pub fn follow(&mut self, spec: &PullSpec) {
        self.resolved.retain(|image, _| spec.images.contains(image));
        *self = Self {
            resolved: std::mem::take(&mut self.resolved),
            is_asking: self.is_asking,
            ..Self::default()
        };
    }

    /// Returns what is pulled for each image of the job; `pinned` is what its status records.
    #[must_use]
    pub fn targets(&self, spec: &PullSpec, pinned: &[Pinned]) -> Vec<Target> {
        let target = |image: &str| Target {
            image: image.into(),
            pull: self.pull(image, spec, pinned),
        };
        spec.images.iter().map(|image| target(image)).collect()
    }

    fn pull(&self, image: &str, spec: &PullSpec, pinned: &[Pinned]) -> Pull {
        if !needs_pin(image, spec) {
            return Pull::Image(image.into());
        }
        match (self.failed.get(image), pinned_reference(image, pinned)) {
            (Some(why), _) => Pull::Fails(why.clone()),
            (None, Some(reference)) => Pull::Image(reference),
            (None, None) => Pull::Waits,
        }
    }

    /// Returns the digests to store in the status, from which point on they count.
    #[must_use]
    pub fn to_keep(&self, spec: &PullSpec, pinned: &[Pinned]) -> Vec<Pinned> {
        let known = |image: &str| {
            let stored = pinned
                .iter()
                .find(|pin| *pin.image == *image && pinned_reference(image, pinned).is_some());
            let resolved = || {
                self.resolved.get(image).map(|digest| Pinned {
                    image: image.into(),
                    digest: digest.clone(),
                })
            };
            stored.cloned().or_else(resolved)
        };
        spec.images
            .iter()
            .filter(|image| needs_pin(image, spec))
            .filter_map(|image| known(image))
            .collect()
    }

    /// Returns true if the job waits for registries before it begins, so that digests are stored
    /// together with its start.
    #[must_use]
    pub fn holds_up(&self, spec: &PullSpec, pinned: &[Pinned]) -> bool {
        !self.has_asked && self.open(spec, pinned).next().is_some()
    }

    /// Returns the images whose digest is to be queried now; empty during a query or a back-off.
    pub fn question(&mut self, spec: &PullSpec, pinned: &[Pinned], now: Moment) -> Vec<Box<str>> {
        if self.is_asking || now < self.not_before {
            return Vec::new();
        }
        let images: Vec<_> = self.open(spec, pinned).cloned().collect();
        self.is_asking = !images.is_empty();
        self.since = if images.is_empty() {
            None
        } else {
            self.since.or(Some(now))
        };
        images
    }

    /// Returns the images whose tag is neither resolved nor known to fail. Jobs of type `Never`
    /// keep querying failed ones too.
    fn open<'a>(
        &'a self,
        spec: &'a PullSpec,
        pinned: &'a [Pinned],
    ) -> impl Iterator<Item = &'a Box<str>> {
        let goes_on = spec.completion == Completion::Never;
        let is_open = move |image: &str| {
            needs_pin(image, spec)
                && pinned_reference(image, pinned).is_none()
                && !self.resolved.contains_key(image)
                && (goes_on || !self.failed.contains_key(image))
        };
        spec.images.iter().filter(move |image| is_open(image))
    }

    /// Records the answers of registries. Images without an answer were not queried.
    pub fn answered(&mut self, answers: Vec<(Box<str>, Resolved)>, spec: &PullSpec, now: Moment) {
        (self.is_asking, self.has_asked, self.trouble) = (false, true, None);
        let (mut retry_after, mut has_failed) = (Duration::ZERO, false);
        for (image, resolved) in answers
            .into_iter()
            .filter(|(image, _)| spec.images.contains(image))
        {
            let unresolved = match resolved.and_then(|digest| check(&image, digest)) {
                Ok(digest) => {
                    self.failed.remove(&image);
                    self.resolved.insert(image, digest);
                    continue;
                }
                Err(unresolved) => unresolved,
            };
            has_failed = true;
            retry_after = retry_after.max(
                unresolved
                    .retry_after
                    .unwrap_or_default()
                    .min(LONGEST_ASKED),
            );
            if unresolved.is_answer {
                self.failed
                    .insert(image.clone(), cannot_be_pinned(&unresolved.words, spec));
            } else {
                self.trouble = Some(unresolved.words);
            }
        }
        let wait = RETRY.after(self.failures).max(retry_after);
        self.failures = if has_failed {
            self.failures.saturating_add(1)
        } else {
            0
        };
        self.not_before = if has_failed { now + wait } else { now };
    }

    /// Fails images without a digest once the job's deadline is over; without a deadline, after the
    /// `timeoutSeconds` of the job. Jobs of type `Never` wait for ever.
    pub fn settle(&mut self, spec: &PullSpec, pinned: &[Pinned], is_late: bool, now: Moment) {
        let has_deadline = matches!(
            spec.completion,
            Completion::Always {
                deadline_seconds: Some(_),
                ..
            }
        );
        let limit = Duration::from_secs(spec.timeout_seconds.into());
        let is_over = spec.completion != Completion::Never
            && !has_deadline
            && self.since.is_some_and(|since| now >= since + limit);
        if !is_late && !is_over {
            return;
        }
        let not_in_time = if is_late {
            "job exceeds activeDeadlineSeconds".to_owned()
        } else {
            format!("no answer within {} s", limit.as_secs())
        };
        let why = format!(
            "{not_in_time}: {}",
            self.trouble
                .as_deref()
                .unwrap_or("the digest of its tag is not known")
        );
        let has_no_pin =
            |image: &str| needs_pin(image, spec) && pinned_reference(image, pinned).is_none();
        for image in spec.images.iter().filter(|image| has_no_pin(image)) {
            self.failed
                .entry(image.clone())
                .or_insert_with(|| cannot_be_pinned(&why, spec));
        }
    }

    /// Records that the API server dropped the digests from the status that was written: an older
    /// CRD is installed.
    pub fn are_not_kept(&mut self, spec: &PullSpec) {
        let why = "the installed CRD of the job has no status.pinned; apply the one of this release from deploy/crds";
        for image in spec.images.iter().filter(|image| needs_pin(image, spec)) {
            self.failed
                .insert(image.clone(), cannot_be_pinned(why, spec));
        }
    }

    /// Returns the last error of a registry that did not answer, for the message of the job.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

fn needs_pin(image: &str, spec: &PullSpec) -> bool {
    spec.pin_tags
        && ImageReference::parse(image).is_ok_and(|reference| reference.digest().is_none())
}

/// Returns the image with the digest that the status records; `None` if it records none.
fn pinned_reference(image: &str, pinned: &[Pinned]) -> Option<Box<str>> {
    let digest = &pinned.iter().find(|pin| *pin.image == *image)?.digest;
    let reference = ImageReference::parse(image).ok()?.pinned(digest).ok()?;
    Some(reference.as_str().into())
}

/// Returns the registry's digest, or an error if it is none.
fn check(image: &str, digest: Box<str>) -> Resolved {
    match ImageReference::parse(image).and_then(|reference| reference.pinned(&digest)) {
        Ok(_) => Ok(digest),
        Err(error) => Err(Unresolved {
            words: format!("the registry returned an invalid digest: {error}").into(),
            is_answer: true,
            retry_after: None,
        }),
    }
}

fn cannot_be_pinned(why: &str, spec: &PullSpec) -> Box<str> {
    let secrets = if spec.pods.pull_secrets.is_empty() {
        String::new()
    } else {
        format!("{SECRETS}; ")
    };
    format!("not pulled, because its tag cannot be pinned: {why}; {secrets}{REMEDY}").into()
}
