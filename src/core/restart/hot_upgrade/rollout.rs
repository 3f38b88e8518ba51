//! All pods of a set: what is to be written to which of them, and what its status says.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::pair::{Change, Pair, PairMemory, Stage, Step};
use super::pod::UpgradePod;
use super::sidecar_set::{HotContainer, SidecarSet, UpgradeImages};
use crate::report::decision::Report;
use crate::report::reason::Reason;

/// What this life of the controller has seen of a pod, by the name of the sidecar.
pub type PodMemory = BTreeMap<Box<str>, PairMemory>;

/// One pod that a set selects.
#[derive(Debug)]
pub struct Member<'a> {
    /// The pod.
    pub pod: &'a UpgradePod,
    /// What was seen of it.
    pub memory: &'a mut PodMemory,
    /// Whether nothing is to be written to it now: a write is under way, or was just refused.
    pub is_busy: bool,
    /// The names of sidecars that another set is about, which comes first.
    pub taken: Vec<Box<str>>,
}

/// What a set comes to now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// By the place of the pod in the list, what is to be written to it.
    pub writes: Vec<(usize, Change)>,
    /// By the place of the pod, what is wrong with it.
    pub reports: Vec<(usize, Report)>,
    /// When something is to be done although nothing happens.
    pub due: Option<Duration>,
    /// What the status says.
    pub counts: Counts,
}

/// OpenKruise's numbers (`status` of a `SidecarSet`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pods with a pair that the set is about.
    pub matched: usize,
    /// Of these, pods with the new images, or in which they are being started.
    pub updated: usize,
    /// Pods that are ready, and in which nothing is being started.
    pub ready: usize,
    /// Both.
    pub updated_ready: usize,
    /// Pods in which the new image was taken back.
    pub failed: usize,
    /// Pods with a pair of which nobody knows which container works.
    pub unknown: usize,
}

/// What a pod has come to.
struct Standing<'a> {
    /// The first pair that is to be upgraded, at rest.
    old: Option<Pair<'a>>,
    upgrades: bool,
    is_partly_updated: bool,
    has_failed: bool,
}

/// The pods that are to be upgraded, and what keeps them.
#[derive(Default)]
struct Waiting<'a> {
    /// By the place of the pod.
    pods: Vec<(usize, Standing<'a>)>,
    /// Pods that are being upgraded.
    under_way: usize,
    /// By namespace: pods that are updated and not ready. Who may change pods of a namespace can make
    /// them so, and keeps no other namespace waiting.
    unready: BTreeMap<&'a str, usize>,
    /// Namespaces in which the image was taken back, for the same reason.
    failed: BTreeSet<&'a str>,
}

/// Decides what is to be done for a set at this time.
#[must_use]
pub fn plan<'a>(
    set: &'a SidecarSet,
    images: &UpgradeImages,
    members: &mut [Member<'a>],
    now: Duration,
) -> Plan {
    let mut plan = Plan::default();
    let mut waiting = Waiting::default();
    for (nth, member) in members.iter_mut().enumerate() {
        let Some(standing) = plan.look_at(set, images, nth, member, now) else {
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
        if standing.has_failed {
            waiting.failed.insert(namespace);
        }
        if standing.upgrades {
            waiting.under_way += 1;
        } else if !is_updated {
            waiting.pods.push((nth, standing));
        } else if !is_ready {
            *waiting.unready.entry(namespace).or_default() += 1;
        }
    }
    if set.update.is_on {
        plan.begin(set, images, members, waiting);
    }
    plan
}

impl Plan {
    /// Goes on with what has begun in a pod; `None` where the set is not about it.
    fn look_at<'a>(
        &mut self,
        set: &'a SidecarSet,
        images: &UpgradeImages,
        nth: usize,
        member: &mut Member<'a>,
        now: Duration,
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
        let mut standing = Standing {
            old: None,
            upgrades: false,
            is_partly_updated: false,
            has_failed: false,
        };
        for pair in pairs {
            let name = &pair.sidecar.name;
            match pair.stage(images) {
                Stage::Rests { working, .. } => {
                    member.memory.remove(name);
                    if working.image == pair.sidecar.image {
                        standing.is_partly_updated = true;
                        continue;
                    }
                    if !images.lists(&working.image) {
                        // Which image is taken from a container the API server asks as well.
                        let why = format!(
                            "the image {} that works is not on the list of --hot-upgrade-images",
                            working.image
                        );
                        self.refuse(nth, &pair, &why);
                    }
                    standing.has_failed |= pair.has_failed();
                    standing.old.get_or_insert(pair);
                }
                Stage::Upgrades { new, old, entry } => {
                    standing.upgrades = true;
                    let memory = member.memory.entry(name.clone()).or_default();
                    let step = pair.go_on((new, old, entry), images, memory, now);
                    self.take(nth, step, member.is_busy || pod.is_parked);
                }
                Stage::Unknown(why) => {
                    self.counts.unknown += 1;
                    standing.old.get_or_insert(pair);
                    self.refuse(nth, &pair, &why);
                }
            }
        }
        self.counts.failed += usize::from(standing.has_failed);
        Some(standing)
    }

    fn refuse(&mut self, nth: usize, pair: &Pair<'_>, why: &str) {
        let (sidecar, set) = (&pair.sidecar.name, &pair.set.name);
        let note = format!("{sidecar} is not upgraded by the SidecarSet {set}: {why}");
        let reason = Reason::HotUpgradeRefused;
        self.reports.push((nth, Report { reason, note }));
    }

    fn take(&mut self, nth: usize, step: Step, is_busy: bool) {
        match step {
            Step::Wait(until) => {
                self.due = Some(self.due.map_or(until, |due| due.min(until)));
            }
            // Of two pairs of a pod one at a time: the other is written on the next version.
            Step::Write(change) if !is_busy && !self.writes.iter().any(|(of, _)| *of == nth) => {
                self.writes.push((nth, change));
            }
            Step::Write(_) => {}
        }
    }

    /// Begins with as many pods as may be upgraded at once, those that are not ready first: they
    /// have nothing to lose (OpenKruise: `calculateUpgradeCount`). An image that does not work on one
    /// pod is tried on no other of its namespace.
    fn begin(
        &mut self,
        set: &SidecarSet,
        images: &UpgradeImages,
        members: &[Member<'_>],
        mut waiting: Waiting<'_>,
    ) {
        let total = self.counts.matched;
        let mut pods = std::mem::take(&mut waiting.pods);
        pods.retain(|(nth, _)| members[*nth].pod.is_selected);
        pods.sort_by_key(|(nth, standing)| {
            let pod = members[*nth].pod;
            (pod.is_ready, !standing.is_partly_updated, *nth)
        });
        let partition = set.update.partition.partition_of(total);
        pods.truncate(pods.len().saturating_sub(partition));
        let most = set.update.max_unavailable.of(total);
        for (nth, standing) in pods {
            let (member, pod) = (&members[nth], members[nth].pod);
            let Some(pair) = standing.old else { continue };
            let Stage::Rests { working, empty } = pair.stage(images) else {
                continue;
            };
            let unready = waiting.unready.get(&*pod.namespace).copied();
            let unavailable = waiting.under_way + unready.unwrap_or_default();
            let is_full = pod.is_ready && unavailable >= most;
            if !images.lists(&working.image) {
                continue;
            }
            if is_full || waiting.failed.contains(&*pod.namespace) {
                continue;
            }
            waiting.under_way += usize::from(pod.is_ready);
            let change = pair.begin(empty, working);
            self.take(nth, Step::Write(change), member.is_busy || pod.is_parked);
        }
    }
}
