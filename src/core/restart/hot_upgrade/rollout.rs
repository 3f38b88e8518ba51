//! The rollout of a set over its pods: the writes to each pod, and the status of the set.

use std::collections::{BTreeMap, BTreeSet};

use super::pair::{Change, Pair, PairMemory, Stage, Step};
use super::pod::{UpgradeContainer, UpgradePod};
use super::record::Entry;
use super::sidecar_set::{HotContainer, SidecarSet, UpgradeImages};
use crate::objects::moment::Moment;
use crate::objects::values::amount::Rounding;
use crate::report::decision::Report;
use crate::report::reason::Reason;

/// The memory of a pod in this run of the process, by name of the sidecar.
pub type PodMemory = BTreeMap<Box<str>, PairMemory>;

/// One pod that a set selects.
#[derive(Debug)]
pub struct Member<'a> {
    /// The pod that is selected.
    pub pod: &'a UpgradePod,
    /// The memory of the pod.
    pub memory: &'a mut PodMemory,
    /// True while nothing may be written to the pod: a write is in flight, or was just refused.
    pub is_busy: bool,
    /// True if the last write to the pod was not applied: then it waits in its own namespace.
    pub is_refused: bool,
    /// True if the pod has appeared since all pods were listed, and this process has begun no
    /// upgrade in it: one that it shows is none of ours.
    pub is_foreign: bool,
    /// The names of sidecars that another set handles, which takes precedence.
    pub taken: Vec<Box<str>>,
}

/// The writes, reports and counts of a set at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The writes, each with the position of the pod in the list.
    pub writes: Vec<(usize, Change)>,
    /// The problems, each with the position of the pod.
    pub reports: Vec<(usize, Report)>,
    /// When to reconcile again if nothing changes.
    pub due: Option<Moment>,
    /// The counts for the status.
    pub counts: Counts,
}

/// The counts of a set, as OpenKruise has them (`status` of a `SidecarSet`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pods with a pair that the set handles.
    pub matched: usize,
    /// Matched pods with the new images, or in which they are being started.
    pub updated: usize,
    /// Pods that are ready, and in which nothing is being started.
    pub ready: usize,
    /// Pods that are counted both as updated and as ready.
    pub updated_ready: usize,
    /// Pods in which the new image was taken back.
    pub failed: usize,
    /// Pods with a pair whose working container is unknown.
    pub unknown: usize,
}

/// The state of a pod in the rollout.
#[derive(Default)]
struct Standing<'a> {
    /// The first pair that is still to be upgraded.
    old: Option<Pair<'a>>,
    upgrades: bool,
    /// True if the upgrade counts in all namespaces.
    is_counted: bool,
    is_partly_updated: bool,
    has_failed: bool,
    /// True if this process has begun an upgrade that the pod does not record.
    is_unrecorded: bool,
}

/// The pods that are still to be upgraded, and what blocks them.
#[derive(Default)]
struct Waiting<'a> {
    /// The pods, each with its position in the list.
    pods: Vec<(usize, Standing<'a>)>,
    /// Pods that are being upgraded.
    under_way: usize,
    /// Pods that block their own namespace alone: they are updated and not ready, or nothing proves
    /// that they are being upgraded. Anyone who may change pods of a namespace can make them so.
    local: BTreeMap<&'a str, usize>,
    /// Namespaces in which the image was taken back; by namespace for the same reason.
    failed: BTreeSet<&'a str>,
}

impl<'a> Waiting<'a> {
    /// Counts an unavailable pod of a namespace, for all namespaces or for this one.
    fn count(&mut self, namespace: &'a str, for_all: bool) {
        if for_all {
            self.under_way += 1;
        } else {
            *self.local.entry(namespace).or_default() += 1;
        }
    }

    /// Returns how many unavailable pods count in a namespace.
    fn unavailable(&self, namespace: &str) -> usize {
        self.under_way + self.local.get(namespace).copied().unwrap_or_default()
    }
}

/// Decides the writes, reports and counts of a set at this time.
#[must_use]
pub fn plan<'a>(
    set: &'a SidecarSet,
    images: &UpgradeImages,
    members: &mut [Member<'a>],
    now: Moment,
) -> Plan {
    let mut plan = Plan::default();
    let mut waiting = Waiting::default();
    for (nth, member) in members.iter_mut().enumerate() {
        let Some(standing) = plan.advance(set, images, nth, member, now) else {
            continue;
        };
        let is_updated = standing.old.is_none();
        let counts = &mut plan.counts;
        counts.matched += 1;
        counts.updated += usize::from(is_updated);
        let is_ready = member.pod.is_ready && !standing.upgrades;
        counts.ready += usize::from(is_ready);
        counts.updated_ready += usize::from(is_ready && is_updated);
        let namespace = &*member.pod.namespace;
        if standing.has_failed || standing.is_unrecorded {
            waiting.failed.insert(namespace);
        }
        if standing.upgrades {
            waiting.count(namespace, standing.is_counted);
        } else if !is_updated {
            waiting.pods.push((nth, standing));
        } else if !is_ready {
            waiting.count(namespace, false);
        }
    }
    if set.update.is_on {
        plan.begin(set, images, members, waiting);
    }
    plan
}

impl Plan {
    /// Continues the upgrades that have begun in a pod. Returns `None` if the set does not handle
    /// it.
    fn advance<'a>(
        &mut self,
        set: &'a SidecarSet,
        images: &UpgradeImages,
        nth: usize,
        member: &mut Member<'a>,
        now: Moment,
    ) -> Option<Standing<'a>> {
        let pod = member.pod;
        let is_ours = |sidecar: &&HotContainer| !member.taken.contains(&sidecar.name);
        let sidecars = set.containers.iter().filter(is_ours);
        let pairs: Vec<_> = sidecars
            .filter_map(|sidecar| Pair::find(set, sidecar, pod))
            .collect();
        if !pod.is_active || pairs.is_empty() {
            return None;
        }
        let mut standing = Standing::default();
        for pair in pairs {
            match pair.stage(images) {
                Stage::Rests { working, empty } => {
                    self.rests((nth, member), pair, (working, empty), images, &mut standing);
                }
                Stage::Upgrades { new, old, entry } => {
                    let all = (new, old, entry);
                    self.go_on((nth, member), pair, all, images, &mut standing, now);
                }
                Stage::Unknown(mut why) => {
                    self.counts.unknown += 1;
                    standing.has_failed |= pair.has_failed();
                    standing.old.get_or_insert(pair);
                    let memory = member.memory.get(&pair.sidecar.name);
                    if memory.is_some_and(|memory| memory.begun.is_some()) {
                        (standing.upgrades, standing.is_unrecorded) = (true, true);
                        self.count((nth, member), pair, &mut standing, now);
                        why.insert_str(0, "its annotations were not stored with the image, by a webhook of the cluster or somebody: ");
                    }
                    self.refuse(nth, &pair, &why);
                }
            }
        }
        self.counts.failed += usize::from(standing.has_failed);
        Some(standing)
    }

    /// Sorts in a pair of which one container works and the other is empty.
    fn rests<'a>(
        &mut self,
        (nth, member): (usize, &mut Member<'a>),
        pair: Pair<'a>,
        (working, empty): (&UpgradeContainer, &UpgradeContainer),
        images: &UpgradeImages,
        standing: &mut Standing<'a>,
    ) {
        let (name, generation) = (&pair.sidecar.name, pair.set.generation);
        let memory = &mut member.memory;
        memory.retain(|of, memory| of != name || memory.rests(generation, &pair.pod.version));
        if let Some(change) = pair.ends(empty, working) {
            let is_undone = change.report.is_some();
            standing.upgrades |= is_undone;
            let is_busy = member.is_busy || member.pod.is_parked;
            self.take(nth, Step::Write(change), is_busy);
            if is_undone {
                return;
            }
        }
        if pair.has_image(working) {
            standing.is_partly_updated = true;
            return;
        }
        if !images.admits(working) {
            // The admission policy checks the image that is replaced as well.
            let why = format!(
                "the image {} that works is not on the list of --hot-upgrade-images",
                working.image
            );
            self.refuse(nth, &pair, &why);
        }
        standing.has_failed |= pair.has_failed();
        standing.old.get_or_insert(pair);
    }

    /// Continues an upgrade that has begun, unless somebody else has changed it.
    fn go_on<'a>(
        &mut self,
        (nth, member): (usize, &mut Member<'a>),
        pair: Pair<'a>,
        all @ (new, _, entry): (&UpgradeContainer, &UpgradeContainer, &Entry),
        images: &UpgradeImages,
        standing: &mut Standing<'a>,
        now: Moment,
    ) {
        standing.upgrades = true;
        let memory = member.memory.entry(pair.sidecar.name.clone()).or_default();
        if pair.is_changed_by_others(new, entry, memory) {
            let why = format!(
                "{} has the image {}, which somebody else has given it, or a webhook of the cluster has made of {}",
                new.name, new.image, entry.image
            );
            self.counts.unknown += 1;
            standing.old.get_or_insert(pair);
            return self.refuse(nth, &pair, &why);
        }
        let step = pair.advance(all, images, memory, now);
        self.take(nth, step, member.is_busy || member.pod.is_parked);
        self.count((nth, member), pair, standing, now);
    }

    /// Counts an upgrade in all namespaces, for as long as one can take.
    fn count(
        &mut self,
        (nth, member): (usize, &mut Member<'_>),
        pair: Pair<'_>,
        standing: &mut Standing<'_>,
        now: Moment,
    ) {
        let memory = member.memory.entry(pair.sidecar.name.clone()).or_default();
        let until = memory.counts_until(pair.set.generation, now);
        if until > now && !member.is_foreign {
            standing.is_counted = true;
            self.take(nth, Step::Wait(until), false);
        }
    }

    /// Reports why a pair is left alone, unless a restart has one of its containers parked.
    fn refuse(&mut self, nth: usize, pair: &Pair<'_>, why: &str) {
        if pair.pod.is_parked {
            return;
        }
        let (sidecar, set) = (&pair.sidecar.name, &pair.set.name);
        let note = format!("{sidecar} is not upgraded by the SidecarSet {set}: {why}");
        let reason = Reason::HotUpgradeRefused;
        self.reports.push((nth, Report::new(reason, note)));
    }

    fn take(&mut self, nth: usize, step: Step, is_busy: bool) {
        match step {
            Step::Wait(until) => {
                self.due = Some(self.due.map_or(until, |due| due.min(until)));
            }
            // One pair of a pod at a time: the other one is written on the next version.
            Step::Write(change) if !is_busy && !self.writes.iter().any(|(of, _)| *of == nth) => {
                self.writes.push((nth, change));
            }
            Step::Write(_) => {}
        }
    }

    /// Begins as many pods as may be upgraded at once. Pods that are not ready come first, as they
    /// have nothing to lose (OpenKruise: `calculateUpgradeCount`). An image that does not work on
    /// one pod is tried on no other of its namespace. A pod that is parked has no turn, nor
    /// has one whose node has not acted on the end of the last upgrade.
    fn begin<'a>(
        &mut self,
        set: &SidecarSet,
        images: &UpgradeImages,
        members: &[Member<'a>],
        mut waiting: Waiting<'a>,
    ) {
        let total = self.counts.matched;
        let mut pods = std::mem::take(&mut waiting.pods);
        pods.retain(|(nth, _)| members[*nth].pod.is_selected);
        pods.sort_by_key(|(nth, standing)| {
            let pod = members[*nth].pod;
            (pod.is_ready, !standing.is_partly_updated, *nth)
        });
        let partition = set.update.kept(total);
        pods.truncate(pods.len().saturating_sub(partition));
        let most = set.update.max_unavailable.of(total, Rounding::Up);
        for (nth, standing) in pods {
            let (member, pod) = (&members[nth], members[nth].pod);
            let Some(pair) = standing.old else { continue };
            let Stage::Rests { working, empty } = pair.stage(images) else {
                continue;
            };
            let namespace = &*pod.namespace;
            let is_full = pod.is_ready && waiting.unavailable(namespace) >= most;
            if !images.admits(working) || pod.is_parked || pair.still_runs(empty) {
                continue;
            }
            if is_full || waiting.failed.contains(namespace) {
                continue;
            }
            if pod.is_ready {
                waiting.count(namespace, !member.is_refused);
            }
            let change = pair.begin(empty, working);
            self.take(nth, Step::Write(change), member.is_busy);
        }
    }
}
