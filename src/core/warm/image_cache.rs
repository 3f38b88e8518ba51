//! Nodes of Alibaba ECI keep no images, but their provider does, in an `ImageCache`: a job makes
//! one for all of these nodes, and what its status says holds for each of them.
//!
//! It is a snapshot that is billed. So it is made only where the administrator wants it, for the
//! same images once, and always with an end (`retentionDays`). It is not deleted when the job is
//! over or gone, just as images stay on nodes: pods are to start from it then.

pub mod object;

use std::collections::BTreeSet;
use std::time::Duration;

use super::pull_job::pins::{Pull, Target};
use crate::objects::values::short_digest::short_digest;
use crate::warm::image_cache::object::{ImageCache, NewImageCache};
use crate::warm::pull_job::object::{Completion, Parallelism, PullJob, PullSpec};

/// The longest message of the provider that is told.
const MESSAGE_CHARS: usize = 300;

/// What the administrator wants of image caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// The exit image: a container that is swapped to it profits only if it was in the cache that
    /// its pod has started from.
    pub exit_image: Option<Box<str>>,
    /// The size of a cache, in GiB.
    pub size: u32,
    /// After so many days the provider deletes one.
    pub retention_days: u32,
}

/// How far the cache of a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheState {
    /// Not there yet; in words.
    Waits(String),
    /// Its status says that it is there.
    Ready,
    /// It will not be; why.
    Failed(String),
}

/// The nodes of a job for which a cache stands, and how far that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    /// Their names.
    pub nodes: BTreeSet<Box<str>>,
    /// How far the cache is.
    pub state: CacheState,
}

impl Default for Cached {
    fn default() -> Self {
        Self {
            nodes: BTreeSet::new(),
            state: CacheState::Waits(String::new()),
        }
    }
}

impl Cached {
    /// Whether the job has nodes with a cache that may still come.
    #[must_use]
    pub fn waits(&self) -> bool {
        !self.nodes.is_empty() && matches!(self.state, CacheState::Waits(_))
    }
}

/// The cache for the images of a job; `None` while it is not known what is pulled for each of them,
/// and where nothing is. A job that is paused has none made either.
#[must_use]
pub fn wanted(
    job: &PullJob,
    spec: &PullSpec,
    targets: &[Target],
    options: &CacheOptions,
) -> Option<NewImageCache> {
    let is_paused = matches!(
        spec.parallelism,
        Parallelism::Nodes(0) | Parallelism::Percent(0)
    );
    if is_paused || targets.iter().any(|target| target.pull == Pull::Waits) {
        return None;
    }
    let pulled = targets.iter().filter_map(|target| {
        if let Pull::Image(image) = &target.pull {
            Some(image)
        } else {
            None
        }
    });
    let mut images: BTreeSet<Box<str>> = pulled.cloned().collect();
    if images.is_empty() {
        return None;
    }
    images.extend(options.exit_image.clone());
    let secrets = spec.pods.pull_secrets.iter();
    let pull_secrets: BTreeSet<Box<str>> = secrets
        .map(|name| format!("{}:{name}", job.namespace).into())
        .collect();
    let name = format!(
        "swaplet-{}",
        short_digest(format!("{images:?} {pull_secrets:?} {}", options.size), 10)
    );
    let pull_secrets = pull_secrets.into_iter().collect();
    Some(NewImageCache {
        name: name.into(),
        images,
        pull_secrets,
        size: options.size,
        retention_days: options.retention_days,
    })
}

/// How far a job is that wants no cache now. Where nothing is pulled at all, it waits for none
/// either.
#[must_use]
pub fn without(targets: &[Target]) -> CacheState {
    if targets
        .iter()
        .all(|target| matches!(target.pull, Pull::Fails(_)))
    {
        return CacheState::Failed("no image is pulled".to_owned());
    }
    CacheState::Waits("no ImageCache is made yet".to_owned())
}

/// What the provider says of a cache; `found` is the object of its name, if there is one. Only its
/// status proves anything.
#[must_use]
pub fn state(wanted: &NewImageCache, found: Option<&ImageCache>) -> CacheState {
    let name = &wanted.name;
    let Some(found) = found else {
        return CacheState::Waits(format!("ImageCache {name} is being made"));
    };
    if found.images != wanted.images {
        return CacheState::Failed(format!(
            "ImageCache {name} is there with other images: delete it"
        ));
    }
    match &*found.phase {
        _ if found.deleting => CacheState::Waits(format!("ImageCache {name} is being deleted")),
        "Ready" => CacheState::Ready,
        phase @ ("Failed" | "UpdateFailed") => {
            let why: String = found.message.chars().take(MESSAGE_CHARS).collect();
            CacheState::Failed(format!(
                "ImageCache {name} is {phase}: {why}; delete it to have it made again"
            ))
        }
        phase => CacheState::Waits(
            format!("ImageCache {name} is {phase} {}", found.progress)
                .trim_end()
                .to_owned(),
        ),
    }
}

/// How long a cache is waited for: as long as a node may take with all its tries. `None`: until the
/// deadline of the job, or for ever.
#[must_use]
pub fn patience(spec: &PullSpec) -> Option<Duration> {
    let Completion::Always {
        deadline_seconds: None,
        ..
    } = spec.completion
    else {
        return None;
    };
    Some(Duration::from_secs(
        u64::from(spec.timeout_seconds) * (u64::from(spec.backoff_limit) + 1),
    ))
}
