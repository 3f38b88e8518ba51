//! One pair of containers: the stage of its upgrade, and the next step.

use std::time::Duration;

use super::pod::{UpgradeContainer, UpgradePod, VERSION, VERSION_ALT, WORKING};
use super::record::{Entry, RECORD};
use super::sidecar_set::{HotContainer, SidecarSet, UpgradeImages};
use crate::image::reference::ImageReference;
use crate::image::renamed::may_be_renamed;
use crate::objects::moment::Moment;
use crate::report::decision::Report;
use crate::report::reason::Reason;

/// How long the new container has to be ready before the old one stops: a container without a
/// readiness probe is ready as soon as it runs.
const SETTLES: Duration = Duration::from_secs(3);
/// How long until a new image that cannot be pulled or started is taken back.
const TROUBLE: Duration = Duration::from_secs(60);
/// How long until a new image that does not become ready is taken back.
const READY_WITHIN: Duration = Duration::from_secs(600);
/// How long an upgrade counts in all namespaces: as long as one can take, and a minute for its
/// writes. Who may change the pod can make it look so for ever.
const COUNTS: Duration = Duration::from_secs(660);

/// The stage of a pair's upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage<'a> {
    /// One of the two works, and the other is empty.
    Rests {
        /// The container that works.
        working: &'a UpgradeContainer,
        /// The container with the empty image.
        empty: &'a UpgradeContainer,
    },
    /// One of the two was given the new image, and the other still works.
    Upgrades {
        /// The container with the new image.
        new: &'a UpgradeContainer,
        /// The working container, with the old image.
        old: &'a UpgradeContainer,
        /// The entry that was recorded with the new image.
        entry: &'a Entry,
    },
    /// The working container is unknown; holds the reason and the fix.
    Unknown(String),
}

/// The memory of an upgrade in this run of the process. If it is lost, times start again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairMemory {
    /// The upgrade that the times are about.
    entry: Entry,
    began: Option<Moment>,
    ready: Option<Moment>,
    trouble: Option<Moment>,
    /// The image that the API server has stored in place of the last one that was written.
    pub stored: Option<Box<str>>,
    /// The version of the pod in which this process has begun an upgrade that is not seen to be
    /// over.
    pub begun: Option<Box<str>>,
    /// When an upgrade was first observed, for this generation of the set: whatever the pod says
    /// since.
    first: Option<(i64, Moment)>,
}

impl PairMemory {
    /// Returns the time until which an upgrade that is observed now counts in all namespaces.
    pub(super) fn counts_until(&mut self, generation: i64, now: Moment) -> Moment {
        let first = self.first.filter(|(of, _)| *of == generation);
        let (_, since) = *self.first.insert(first.unwrap_or((generation, now)));
        since + COUNTS
    }

    /// Forgets the upgrade, as there is none in this version of the pod. Returns false if nothing is
    /// left to remember.
    pub(super) fn rests(&mut self, generation: i64, version: &str) -> bool {
        let first = self.first.filter(|(of, _)| *of == generation);
        *self = Self {
            first,
            // The pod may not be seen yet with what was just written.
            stored: self.stored.take(),
            begun: self.begun.take().filter(|begun| **begun == *version),
            ..Self::default()
        };
        first.is_some() || self.stored.is_some() || self.begun.is_some()
    }
}

/// The next step for a pair that is being upgraded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Do nothing before this time.
    Wait(Moment),
    /// Make this change of the pod.
    Write(Change),
}

/// One write to a pod, in one patch of one version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// `metadata.resourceVersion` of the pod for which it was decided.
    pub version: Box<str>,
    /// The name of the container to change.
    pub container: Box<str>,
    /// The image that it has.
    pub before: Box<str>,
    /// The image that the container gets.
    pub image: Box<str>,
    /// The annotations to write; `None` removes one.
    pub annotations: Vec<(String, Option<String>)>,
    /// The report about the pod once the change is applied.
    pub report: Option<Report>,
    /// True if it begins an upgrade; false if it ends one, whoever began it.
    pub begins: bool,
}

impl Change {
    /// Returns the name of the sidecar.
    pub fn sidecar(&self) -> Option<&str> {
        self.container.rsplit_once('-').map(|(sidecar, _)| sidecar)
    }
}

/// A pair of containers of one sidecar in a pod.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// The set that handles the pair.
    pub set: &'a SidecarSet,
    /// The sidecar, as the set describes it.
    pub sidecar: &'a HotContainer,
    /// The pod that has the pair.
    pub pod: &'a UpgradePod,
    first: &'a UpgradeContainer,
    second: &'a UpgradeContainer,
}

impl<'a> Pair<'a> {
    /// Finds the pair of this sidecar; `None` if the pod does not have both containers.
    pub fn find(
        set: &'a SidecarSet,
        sidecar: &'a HotContainer,
        pod: &'a UpgradePod,
    ) -> Option<Self> {
        let named = |end: &str| pod.find(&format!("{}-{end}", sidecar.name));
        Some(Self {
            set,
            sidecar,
            pod,
            first: named("1")?,
            second: named("2")?,
        })
    }

    /// Returns the stage of the upgrade, from the pod alone.
    pub fn stage(&self, images: &UpgradeImages) -> Stage<'a> {
        let (first, second) = (self.first, self.second);
        let working = self.pod.working.get(&self.sidecar.name);
        let is_second = working.is_some_and(|name| *name == second.name);
        match (
            images.is_empty(&first.image),
            images.is_empty(&second.image),
        ) {
            (false, true) => Stage::Rests {
                working: first,
                empty: second,
            },
            (true, false) => Stage::Rests {
                working: second,
                empty: first,
            },
            (true, true) => Stage::Unknown(format!(
                "both {} and {} have the empty image: give one of them the image of the sidecar",
                first.name, second.name
            )),
            (false, false) => {
                let (new, old) = if is_second {
                    (second, first)
                } else {
                    (first, second)
                };
                match self.begun().filter(|_| working.is_some()) {
                    Some(entry) => Stage::Upgrades { new, old, entry },
                    None => Stage::Unknown(format!(
                        "neither {} nor {} has the empty image, and the pod records no upgrade: set the image of the idle one to {}",
                        first.name, second.name, self.sidecar.empty
                    )),
                }
            }
        }
    }

    /// Returns the entry of an upgrade that has begun in the pod, and is not over.
    fn begun(&self) -> Option<&'a Entry> {
        let entry = self.pod.record.0.get(&self.sidecar.name);
        entry.filter(|entry| entry.failed.is_none())
    }

    /// Returns true if a container has the set's image.
    pub fn has_image(&self, container: &UpgradeContainer) -> bool {
        container.has(&self.sidecar.image)
    }

    /// Returns true if somebody has given the new container another image than swaplet did. What a
    /// webhook has made of that is not somebody's: after the loss of the memory that is what the pod
    /// has one change after the upgrade was recorded with it.
    pub fn is_changed_by_others(
        &self,
        new: &UpgradeContainer,
        entry: &Entry,
        memory: &PairMemory,
    ) -> bool {
        let next = entry.generation.map(|generation| generation + 1);
        let is_written = next.is_some() && next == self.pod.generation;
        !(new.has(&entry.image)
            || is_written
            || may_be_renamed(&new.image, &entry.image)
            || memory.stored.as_ref() == Some(&new.image))
    }

    /// Returns the change of annotations that ends the upgrade of a pair that rests, if there is
    /// one. If its image was set back, as by a webhook, it is reported.
    pub fn ends(&self, empty: &UpgradeContainer, working: &UpgradeContainer) -> Option<Change> {
        let entry = self.begun()?;
        let named = self.pod.working.get(&self.sidecar.name)?;
        if *named == working.name {
            return Some(self.change(empty, &empty.image, None));
        }
        let why = "the change of the image was undone, by a webhook of the cluster or somebody";
        (*named == empty.name).then(|| Change {
            image: empty.image.clone(),
            ..self.take_back(empty, working, entry, Some(why))
        })
    }

    /// Returns true if the set's image was taken back here, for this generation of the set.
    pub fn has_failed(&self) -> bool {
        let entry = self.pod.record.0.get(&self.sidecar.name);
        entry.is_some_and(|entry| {
            entry.failed == Some(self.set.generation) && entry.image == self.sidecar.image
        })
    }

    /// Returns true if the node may still run the set's image in the empty container, as just after
    /// an upgrade: it would start nothing for an upgrade to that image.
    pub fn still_runs(&self, empty: &UpgradeContainer) -> bool {
        empty.trouble.is_none() && shows(empty, &self.sidecar.image)
    }

    /// Begins an upgrade: the empty container gets the new image.
    pub fn begin(&self, empty: &UpgradeContainer, working: &UpgradeContainer) -> Change {
        let image = &self.sidecar.image;
        let before = self.pod.record.0.get(&self.sidecar.name);
        let mut earlier = before.map(Entry::all).unwrap_or_default();
        earlier.retain(|earlier| earlier != image);
        let entry = Entry {
            image: image.clone(),
            run: empty.run.clone(),
            bytes: Some(empty.image_id.clone())
                .filter(|_| shows(empty, &empty.image))
                .unwrap_or_default(),
            generation: self.pod.generation,
            failed: None,
            earlier,
        };
        let before = self.pod.versions.get(&working.name);
        let before = before.map_or("0", |version| version);
        let version = &*self.set.version;
        let mut change = self.change(empty, &self.sidecar.image, Some(entry));
        change.begins = true;
        change.annotations.extend([
            self.names_working(empty),
            says(VERSION, empty, version),
            says(VERSION_ALT, empty, before),
            says(VERSION_ALT, working, version),
        ]);
        change
    }

    /// Returns the next step of an upgrade that has begun.
    pub fn advance(
        &self,
        (new, old, entry): (&UpgradeContainer, &UpgradeContainer, &Entry),
        images: &UpgradeImages,
        memory: &mut PairMemory,
        now: Moment,
    ) -> Step {
        if memory.entry != *entry {
            *memory = PairMemory {
                entry: entry.clone(),
                stored: memory.stored.take(),
                begun: memory.begun.take(),
                first: memory.first,
                ..PairMemory::default()
            };
        }
        if !new.has(&entry.image) {
            let why = format!("a webhook of the cluster has made {} of it", new.image);
            return Step::Write(self.take_back(new, old, entry, Some(&why)));
        }
        let began = *memory.began.get_or_insert(now);
        if runs(new, entry, images) {
            memory.trouble = None;
            let settled = *memory.ready.get_or_insert(now) + SETTLES;
            if settled > now {
                return Step::Wait(settled);
            }
            return Step::Write(self.finish(new, old));
        }
        memory.ready = None;
        if entry.image != self.sidecar.image {
            return Step::Write(self.take_back(new, old, entry, None));
        }
        let mut until = began + READY_WITHIN;
        if let Some((reason, words)) = new.trouble.as_ref().filter(|_| !backs_off(new, entry)) {
            let since = *memory.trouble.get_or_insert(now);
            // An invalid name is never pulled.
            if &**reason == "InvalidImageName" || since + TROUBLE <= now {
                let why = format!("{reason}: {words}");
                return Step::Write(self.take_back(new, old, entry, Some(&why)));
            }
            until = until.min(since + TROUBLE);
        }
        if until <= now {
            let seconds = READY_WITHIN.as_secs();
            let why = if new.is_ready && new.run != entry.run {
                format!(
                    "the node has not shown that it runs it in {seconds} s, but {}",
                    new.shown
                )
            } else {
                format!("it has not become ready in {seconds} s")
            };
            return Step::Write(self.take_back(new, old, entry, Some(&why)));
        }
        Step::Wait(until)
    }

    /// Gives the old container the empty image, as the new one works. The entry stays until that is
    /// seen.
    fn finish(&self, new: &UpgradeContainer, old: &UpgradeContainer) -> Change {
        let mut change = self.change(old, &self.sidecar.empty, self.begun().cloned());
        change
            .annotations
            .extend([says(VERSION, old, "0"), says(VERSION_ALT, new, "0")]);
        let note = format!(
            "{}: {} works with the image {}, and {} has the empty image ({} before), by the SidecarSet {}",
            self.sidecar.name, new.name, new.image, old.name, old.image, self.set.name
        );
        change.report = Some(Report::new(Reason::HotUpgraded, note));
        change
    }

    /// Takes the new image back: the new container gets the empty image again; the old one has
    /// worked all the time.
    fn take_back(
        &self,
        new: &UpgradeContainer,
        old: &UpgradeContainer,
        entry: &Entry,
        why: Option<&str>,
    ) -> Change {
        let failed = Entry {
            run: Box::default(),
            generation: None,
            failed: Some(self.set.generation),
            ..entry.clone()
        };
        let mut change = self.change(new, &self.sidecar.empty, Some(failed));
        change.annotations.extend([
            self.names_working(old),
            says(VERSION, new, "0"),
            says(VERSION_ALT, old, "0"),
        ]);
        change.report = why.map(|why| Report {
            reason: Reason::HotUpgradeFailed,
            note: format!(
                "{}: the image {} is reverted, {} keeps working with {}: {why}; no other pod of the namespace gets it, change the SidecarSet {} to try again",
                self.sidecar.name, entry.image, old.name, old.image, self.set.name
            ),
        });
        change
    }

    fn change(&self, container: &UpgradeContainer, image: &str, entry: Option<Entry>) -> Change {
        let record = self.pod.record.with(&self.sidecar.name, entry);
        Change {
            version: self.pod.version.clone(),
            container: container.name.clone(),
            before: container.image.clone(),
            image: image.into(),
            annotations: vec![(RECORD.to_owned(), record.as_text())],
            report: None,
            begins: false,
        }
    }

    fn names_working(&self, container: &UpgradeContainer) -> (String, Option<String>) {
        let mut working = self.pod.working.clone();
        working.insert(self.sidecar.name.clone(), container.name.clone());
        let text = serde_json::to_string(&working).unwrap_or_default();
        (WORKING.to_owned(), Some(text))
    }
}

/// Returns true if the status shows a container with the new image, which is ready. A kubelet shows
/// it running when its postStart hook has ended (`docs/measured.md`). The image in the status may
/// be spelled otherwise, or be a bare `sha256:`, so it must be named, or be other bytes than those
/// of the empty image and of the images before.
fn runs(new: &UpgradeContainer, entry: &Entry, images: &UpgradeImages) -> bool {
    let mut earlier = entry.earlier.iter();
    let are_other_bytes = ![&*new.image_id, ""].contains(&&*entry.bytes)
        && !new.image_id.is_empty()
        && !images.is_empty(&new.shown)
        && !earlier.any(|image| shows(new, image));
    let is_new = shows(new, &entry.image) || shows(new, &new.image) || are_other_bytes;
    new.is_ready && new.run != entry.run && is_new
}

/// Returns true if the status of a container shows this image, by its name or its digest.
fn shows(container: &UpgradeContainer, image: &str) -> bool {
    let digest = image.split_once('@').map(|(_, digest)| digest);
    names(&container.shown, image)
        || digest.is_some_and(|digest| container.image_id.ends_with(digest))
}

/// Returns true if a status shows this image by its own tag or digest, however it is spelled.
fn names(shown: &str, image: &str) -> bool {
    ImageReference::both(shown, image).is_some_and(|(shown, image)| {
        shown.same_repository(&image)
            && shown.digest() == image.digest()
            && (image.digest().is_some() || shown.tag() == image.tag())
    })
}

/// Returns true if the node backs off before it starts the new image for the first time. A kubelet
/// does so if the container had this image not long ago, and ended, as it does with each upgrade.
fn backs_off(new: &UpgradeContainer, entry: &Entry) -> bool {
    let of_container = |run: &'_ str| {
        run.rsplit_once(' ')
            .map(|(container, _)| container.to_owned())
    };
    let is_back_off = new
        .trouble
        .as_ref()
        .is_some_and(|(reason, _)| &**reason == "CrashLoopBackOff");
    is_back_off && of_container(&new.run) == of_container(&entry.run)
}

fn says(key: &str, container: &UpgradeContainer, version: &str) -> (String, Option<String>) {
    (format!("{key}{}", container.name), Some(version.to_owned()))
}
