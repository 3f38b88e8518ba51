//! The memory of a pod between two reconciles. It times things and keeps reports from being
//! repeated; losing it (a restart of the process) changes no outcome.

pub mod finish_record;
pub mod image_troubles;
pub mod proof;

use std::collections::BTreeMap;
use std::time::Duration;

use self::finish_record::FinishRecord;
use crate::cluster::exit_images::ExitImages;
use crate::objects::moment::Moment;
use crate::objects::pod::evidence::{self, Footprint, Progress, exit_image_shown, progress};
use crate::objects::pod::roles::{self, Unended};
use crate::objects::pod::{Container, PROVIDER_FAILED, Pod, Terminated};
use crate::objects::recreate_request::RecreateRequest;
use crate::objects::values::backoff::Backoff;
use crate::report::decision::{Method, Swap};
use crate::report::reason::Reason;
use crate::terminate::methods::swap;

/// The memory of one pod (one uid).
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// True while a write for this pod is in flight.
    pub in_flight: bool,
    /// The end of the back-off after a write that failed.
    pub not_before: Option<Moment>,
    /// The number of writes that failed one after another.
    pub failures: u32,
    /// When the first and the last of the writes failed that have failed one after another, and not by
    /// an answer about the pod.
    pub failing: Option<(Moment, Moment)>,
    /// The writes that the API server has denied.
    pub denied: DeniedWays,
    /// When all main containers were first observed done; `None` while they are not.
    pub mains_done_at: Option<Moment>,
    /// When a main container was last observed not to be done, and not ended either, if that was
    /// observed.
    pub mains_ran_at: Option<Moment>,
    /// Swaps that were applied, or whose result is unknown; one per container.
    pub swaps: Vec<SwapRecord>,
    /// Set once the provider of a virtual node has failed on a swap.
    pub rejected: bool,
    /// The record of the method `finish`, from when the main containers are done.
    pub finish: Option<Box<FinishRecord>>,
    /// The `ContainerRecreateRequest` that was made for this pod, or tried.
    pub asked: Option<Asked>,
    /// When a request for this pod was first observed, whoever created it.
    pub request_seen_at: Option<Moment>,
    /// The method by which each sidecar ended that is observed to have ended since the main
    /// containers are done.
    ends: BTreeMap<Box<str>, Option<Method>>,
    /// The reasons that were reported.
    pub said: Vec<Reason>,
}

/// One swap of one container, as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct SwapRecord {
    /// The name of the container.
    pub container: Box<str>,
    /// The image before; `None` if another run of the process made the swap.
    pub from: Option<Box<str>>,
    /// The image that was sent, by which other pods are judged.
    pub asked: Box<str>,
    /// What the API server stored of it: a webhook may have given it another name.
    pub to: Box<str>,
    /// When the write returned, or when the exit image was first observed in the spec.
    pub at: Moment,
    /// The number of times the image of this container was swapped.
    pub times: u32,
    /// The status fields before the swap; `None` if this run of the process did not observe them.
    pub before: Option<Footprint>,
    /// When the exit image was first observed running; `None` if it was not.
    pub runs_since: Option<Moment>,
    /// When the node was first shown to fail with the exit image; `None` if it was not.
    pub(crate) trouble_since: Option<Moment>,
    /// The end of the sidecar itself, if the node showed it (kubelets before 1.36 show it for about
    /// a second).
    pub real_end: Option<Terminated>,
    /// The number of times that the exit image has not started, or not ended with 0.
    pub(crate) failures: u32,
    /// The restart count that the node showed with the last of them.
    failed_at: Option<i64>,
}

impl Memory {
    /// Updates the memory from the present state of the pod. Call it before every decision.
    pub fn observe(&mut self, pod: &Pod, exit_images: &ExitImages, now: Moment) {
        let mains = roles::mains_state(pod);
        if mains == roles::Mains::Done {
            self.mains_done_at.get_or_insert(now);
        } else {
            self.mains_done_at = None;
            let is_awaited = roles::awaited(pod, mains).is_some();
            self.mains_ran_at = self.mains_ran_at.filter(|_| is_awaited).or(Some(now));
        }
        if let Some(record) = &mut self.finish {
            record.observe(pod, now);
        } else if self.mains_done_at.is_some() && !pod.phase.is_terminal() {
            self.finish = Some(Box::new(FinishRecord::new(pod, now)));
        }
        for sidecar in roles::sidecars(pod) {
            if self.shows_exit_image(sidecar, exit_images) {
                self.observe_swapped(pod, sidecar, now);
            }
        }
        self.observe_ends(pod);
        // A polled provider's next status resets it, and the library's next retry sets it again.
        self.rejected |= *pod.reason == *PROVIDER_FAILED && self.swapped_at(pod).is_some();
    }

    /// Returns true if the main containers were done when the pod was first observed, and a node that
    /// an earlier run of the process has given an exit image may still not show it.
    pub fn was_found_done(&self, pod: &Pod, now: Moment) -> bool {
        let found = self.mains_done_at.filter(|_| self.mains_ran_at.is_none());
        found.is_some_and(|at| now < at + swap::patience(pod).min(swap::LONGEST))
    }

    /// Returns when the first swap was made in the pod, as far as it shows one.
    pub fn swapped_at(&self, pod: &Pod) -> Option<Moment> {
        let swaps = roles::sidecars(pod).filter_map(|sidecar| {
            let record = self.swap_of(&sidecar.name)?;
            record.is_of_a_swap(sidecar).then_some(record.at)
        });
        swaps.min()
    }

    /// Returns true if the spec of a container has an exit image: one of the installation's, or
    /// what the API server made of the one that was written (an admission webhook may have
    /// rewritten it).
    pub fn shows_exit_image(&self, container: &Container, exit_images: &ExitImages) -> bool {
        self.swap_of(&container.name)
            .is_some_and(|record| record.to == container.image)
            || exit_images.contains(&container.image)
            || shows_image_asked_for(container, exit_images)
    }

    /// Records the exit images that a finished pod shows when it is first observed as swaps, and its
    /// phase as written. It may have ended while no process watched, and then its end was not
    /// reported.
    pub fn find_ended(&mut self, pod: &Pod, exit_images: &ExitImages, now: Moment) {
        for sidecar in roles::sidecars(pod) {
            if self.shows_exit_image(sidecar, exit_images) {
                self.swaps.push(SwapRecord::found(sidecar, now));
            }
        }
        if pod.phase_was_ours {
            self.finish = Some(Box::new(FinishRecord::new(pod, now)));
        }
    }

    /// Records these swaps as made before, if all that the API server has stored for them is what the
    /// containers have already, and the node has not started that: a webhook has given the exit
    /// images that an earlier run of the process wrote names of its own. Returns false if nothing
    /// shows that, or if this run has seen the pod at work: then the images are its own.
    pub fn finds_stored(&mut self, pod: &Pod, swaps: &[Swap], now: Moment) -> bool {
        if self.mains_ran_at.is_some() {
            return false;
        }
        let container = |swap: &Swap| {
            let container = pod.containers.get(swap.index)?;
            let status = container.status.as_ref()?;
            let is_changed = exit_image_shown(&status.image, &container.image) == Some(false);
            (is_changed && self.swap_of(&swap.container).is_none()).then_some(container)
        };
        let found: Option<Vec<_>> = swaps
            .iter()
            .map(|swap| Some(SwapRecord::found(container(swap)?, now)))
            .collect();
        let is_found = found.is_some();
        self.swaps.extend(found.into_iter().flatten());
        is_found
    }

    /// Records a swap that the spec shows. A pod that is finished when it is first observed was
    /// reported by an earlier run of the process, unless it has just ended
    /// ([`Memory::find_ended`]).
    fn observe_swapped(&mut self, pod: &Pod, sidecar: &Container, now: Moment) {
        if !pod.phase.is_terminal() && self.swap_of(&sidecar.name).is_none() {
            self.swaps.push(SwapRecord::found(sidecar, now));
        }
        let in_flight = self.in_flight;
        if let Some(record) = self
            .swaps
            .iter_mut()
            .find(|record| record.container == sidecar.name)
        {
            // What is observed while a write is in flight is that write, which is counted when it
            // returns.
            record.times = record.times.max(u32::from(!in_flight));
            record.observe(sidecar, now);
        }
    }

    /// Returns true if a sidecar was swapped and has not ended: that is awaited even if no further
    /// swap would be made.
    pub(crate) fn awaits_swap(&self, unended: &[Unended<'_>]) -> bool {
        let is_swapped = |sidecar: &Container| {
            self.swap_of(&sidecar.name)
                .is_some_and(|record| record.to == sidecar.image)
        };
        unended.iter().any(|(_, sidecar)| is_swapped(sidecar))
    }

    /// Returns when the phase was written last, if it was.
    pub fn phase_written_at(&self) -> Option<Moment> {
        self.finish.as_deref()?.written_at
    }

    /// Returns when the first write took effect, as far as it is known.
    pub fn first_write(&self) -> Option<Moment> {
        let swapped = self.swaps.iter().map(|record| record.at);
        swapped.chain(self.phase_written_at()).min()
    }

    /// Returns when the first write to end the pod took effect, and the last method; `None` if
    /// nothing was written.
    pub fn ending(&self) -> Option<(Moment, Method)> {
        let last = match (self.phase_written_at(), self.swaps.is_empty()) {
            (Some(_), _) => Method::Finish,
            (None, false) => Method::Swap,
            (None, true) => Method::Recreate,
        };
        self.first_write()
            .or(self.request_seen_at)
            .map(|at| (at, last))
    }

    /// Returns the record of a container's swap.
    pub fn swap_of(&self, container: &str) -> Option<&SwapRecord> {
        self.swaps
            .iter()
            .find(|record| &*record.container == container)
    }

    /// Returns those of these containers whose spec still shows a swap, which somebody may have
    /// undone, each with its record.
    pub(crate) fn swapped_among<'a>(
        &'a self,
        containers: impl Iterator<Item = &'a Container>,
    ) -> impl Iterator<Item = (&'a Container, &'a SwapRecord)> {
        containers.filter_map(|container| {
            let record = self.swap_of(&container.name)?;
            let is_it = record.to == container.image && record.is_of_a_swap(container);
            is_it.then_some((container, record))
        })
    }

    /// Records that a container's image was swapped; `stored` is what the API server stored.
    pub fn swapped(&mut self, container: &Container, swap: &Swap, stored: &str, now: Moment) {
        let known = self.swap_of(&container.name);
        let times = known.map_or(0, |record| record.times) + 1;
        // The watch may have shown this swap, and the end of the sidecar, before the write
        // returned.
        let real_end = known
            .filter(|record| record.times == 0)
            .and_then(|record| record.real_end.clone());
        self.swaps
            .retain(|record| record.container != container.name);
        self.swaps.push(SwapRecord {
            from: Some(swap.from.clone()),
            asked: swap.to.clone(),
            to: stored.into(),
            times,
            before: Some(Footprint::of(container)),
            real_end,
            ..SwapRecord::found(container, now)
        });
    }

    /// Returns true if the reason is reported for the first time, and remembers it.
    pub fn first_time(&mut self, reason: Reason) -> bool {
        let first = !self.said.contains(&reason);
        if first {
            self.said.push(reason);
        }
        first
    }
}

impl SwapRecord {
    /// Returns true if a swap made the container what it is. A pod may be created with an exit
    /// image: its node never had another one for it, so it proves nothing about swaps.
    pub(crate) fn is_of_a_swap(&self, sidecar: &Container) -> bool {
        let shows_another = |image: &str| exit_image_shown(image, &sidecar.image) == Some(false);
        let status = sidecar.status.as_ref();
        self.before.is_some() || status.is_some_and(|status| shows_another(&status.image))
    }

    /// Describes the swap. Each description ends in the image that was written and `)`: by that
    /// `swaplet explain` and `swaplet rescue` recognise an exit image that is not theirs.
    pub fn words(&self) -> String {
        let (container, to) = (&self.container, &self.to);
        let times = Some(self.times).filter(|times| *times > 1);
        let times = times.map(|times| format!(" {times} times"));
        let before = self.from.as_deref().map(|from| format!("{from} -> "));
        let (times, before) = (times.unwrap_or_default(), before.unwrap_or_default());
        format!("{container}{times} (image {before}{to})")
    }

    /// Returns when the node has acted on the swap, by this first sign of it, if that may count:
    /// until the sidecar has stopped a node shows nothing, and that has an end.
    pub(crate) fn acted_at(&self, sign: Option<Moment>, patience: Duration) -> Moment {
        sign.unwrap_or(self.at).min(self.at + patience)
    }

    fn found(sidecar: &Container, now: Moment) -> Self {
        Self {
            container: sidecar.name.clone(),
            asked: sidecar.image.clone(),
            to: sidecar.image.clone(),
            at: now,
            ..Self::default()
        }
    }

    fn observe(&mut self, sidecar: &Container, now: Moment) {
        let Some(status) = &sidecar.status else {
            return;
        };
        match progress(sidecar, self.before.as_ref()) {
            Progress::Runs => _ = self.runs_since.get_or_insert(now),
            Progress::NotPulled(..) | Progress::NotStarted(..) => {
                self.trouble_since.get_or_insert(now);
            }
            Progress::Unchanged | Progress::Ended => {}
        }
        self.count_failures(sidecar, status.restart_count);
        let shown = self.is_of_exit_image(sidecar);
        if let Some(end) = sidecar.end().filter(|_| shown == Some(false)) {
            self.real_end = Some(end.clone());
        } else if let Some(end) = status
            .last_end
            .as_deref()
            .filter(|_| shown == Some(true) && self.real_end.is_none())
        {
            self.real_end = Some(end.clone());
        }
    }

    /// Returns whether the container that the node shows was started from the exit image; `None` if
    /// that is not known.
    pub(crate) fn is_of_exit_image(&self, sidecar: &Container) -> Option<bool> {
        let status = sidecar.status.as_ref()?;
        evidence::shows_written(status, &self.to, self.before.as_ref())
            .or_else(|| self.runs_again(sidecar).then_some(true))
    }

    /// Counts by the restarts of the node, which may show only some of them.
    fn count_failures(&mut self, sidecar: &Container, restarts: i64) {
        if !self.shows_failure(sidecar) || self.failed_at == Some(restarts) {
            return;
        }
        let before = self.before.as_ref().map(Footprint::restart_count);
        let more = self
            .failed_at
            .or(before)
            .map_or(1, |before| restarts - before);
        let more = u32::try_from(more.max(1)).unwrap_or(u32::MAX);
        self.failures = self.failures.saturating_add(more);
        self.failed_at = Some(restarts);
    }

    /// Returns true if the exit image was started here, for this run's swap, and has ended with 0.
    pub(crate) fn has_worked(&self, sidecar: &Container) -> bool {
        let is_well = sidecar.end().is_some_and(|end| end.exit_code == Some(0));
        is_well && evidence::proves_update(sidecar, self.before.as_ref())
    }

    /// Returns true if the node shows that it could not start the exit image, or that this has
    /// ended with an error.
    pub(crate) fn shows_failure(&self, sidecar: &Container) -> bool {
        if let Some(end) = sidecar.end() {
            let status = sidecar.status.as_ref();
            let shown = status
                .and_then(|status| evidence::shows_written(status, &self.to, self.before.as_ref()));
            let is_ours = match &self.before {
                Some(_) => shown != Some(false) && self.runs_again(sidecar),
                None => shown == Some(true),
            };
            return is_ours && end.has_failed();
        }
        matches!(
            progress(sidecar, self.before.as_ref()),
            Progress::NotStarted(..)
        )
    }

    fn runs_again(&self, sidecar: &Container) -> bool {
        self.before
            .as_ref()
            .is_some_and(|before| before.shows_new_container(&Footprint::of(sidecar)))
    }
}

/// Returns true if the container has the listed image that it requests, with a digest that a
/// webhook has added: a new run of the process has no record of what was stored.
fn shows_image_asked_for(container: &Container, exit_images: &ExitImages) -> bool {
    container.exit_image_asked().is_some_and(|asked| {
        exit_image_shown(&container.image, asked) == Some(true)
            && exit_images
                .choose(Some(asked))
                .is_ok_and(|choice| choice.refused.is_none())
    })
}

// The memory of the request to OpenKruise's daemon.

/// How long the daemon may take to handle a request. Alone it takes a second; with its client's 5
/// requests per second and a full node it takes longer. OpenKruise's manager gives up after 60 s,
/// and the next method has to be reached within a minute.
pub(crate) const ANSWERS: Duration = Duration::from_secs(40);

/// A request that was created, or tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// When the first try returned.
    pub at: Moment,
    /// The error of the API server if the request was not created.
    pub error: Option<String>,
    /// True if the API server rejects the request, however often it is tried.
    pub refused: bool,
}

impl Asked {
    /// Returns true if the request may be tried once more.
    pub(crate) fn is_worth_another_try(&self, now: Moment) -> bool {
        self.error.is_some() && !self.refused && now < self.at + ANSWERS
    }
}

impl Memory {
    /// Updates the memory from the request for the pod. Call it before every decision.
    pub fn observe_request(&mut self, request: Option<&RecreateRequest>, now: Moment) {
        if request.is_some() {
            self.request_seen_at.get_or_insert(now);
        }
    }

    /// Records the result of creating a request: `error` if it was not created.
    pub fn asked_for(&mut self, error: Option<String>, refused: bool, now: Moment) {
        let at = self.asked.as_ref().map_or(now, |asked| asked.at);
        self.asked = Some(Asked { at, error, refused });
    }

    /// Returns when the request for the pod was first tried or observed.
    pub fn asked_at(&self) -> Option<Moment> {
        self.asked
            .as_ref()
            .map(|asked| asked.at)
            .or(self.request_seen_at)
    }

    /// Returns true if this run of the process has written something for the pod, or an earlier one its
    /// phase.
    pub(crate) fn has_acted(&self) -> bool {
        self.phase_written_at().is_some()
            || self.asked.is_some()
            || self.swaps.iter().any(|record| record.before.is_some())
    }
}

// The method by which each sidecar ended, recorded when its own end is first observed.

impl Memory {
    /// Records the sidecars that have ended. The exit image that replaces one does not undo its
    /// end; if nothing was written, a sidecar that runs again has not ended.
    fn observe_ends(&mut self, pod: &Pod) {
        if self.mains_done_at.is_none() {
            return self.ends.clear();
        }
        for sidecar in roles::sidecars(pod) {
            let name = &sidecar.name;
            let swapped = self.swap_of(name);
            let has_ended = sidecar.end().is_some()
                || swapped.is_some_and(|swapped| swapped.real_end.is_some());
            let is_known = self.ends.contains_key(name);
            if has_ended && !is_known {
                let method = self.begun(name);
                self.ends.insert(name.clone(), method);
            } else if !has_ended && swapped.is_none() {
                self.ends.remove(name);
            }
        }
    }

    fn begun(&self, sidecar: &str) -> Option<Method> {
        let is_finished = self
            .finish
            .as_ref()
            .is_some_and(|record| record.has_begun());
        if is_finished {
            Some(Method::Finish)
        } else if self.swap_of(sidecar).is_some() {
            Some(Method::Swap)
        } else {
            self.asked_at().map(|_| Method::Recreate)
        }
    }

    /// Returns the method that ended a sidecar, or the last one that was tried if its end was not
    /// observed; `None` if it ended by itself.
    pub fn method_of(&self, sidecar: &str) -> Option<Method> {
        match self.ends.get(sidecar) {
            // The watch may show the end before the write returns.
            Some(method) => method.or_else(|| self.swap_of(sidecar).map(|_| Method::Swap)),
            None => self.ending().map(|(_, method)| method),
        }
    }
}

// The writes that the API server has denied (a policy, a webhook, or a missing right), and when
// they are retried.
//
// A single denial proves little: a webhook may not have been reached, or an API server's view of
// roles may lag behind. So the first retries follow within seconds, and are not reported. What is
// still denied then stays denied until an administrator changes something. A write that the API
// server does not apply for a minute, whatever its answers are, counts as one that it denies.

/// The number of quick retries of a denied write, within seconds. Whatever reports a denial, or
/// uses another method because of it, waits for them ([`Denials::are_lasting`]).
pub const QUICK_DENIED_RETRIES: u32 = 3;
/// The wait before the first of these retries; it doubles with each further one.
const QUICK_RETRY: Duration = Duration::from_millis(500);
/// The first wait after these retries; it doubles too.
const DENIED_RETRY: Duration = Duration::from_secs(60);
/// The time after which what goes on is reported again: the API server deletes Events after an hour
/// (`--event-ttl` of `kube-apiserver`), and commands know what is denied from them.
const TOLD_AGAIN: Duration = Duration::from_secs(3660);

/// A number of denials, one after another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Denials(u32);

impl Denials {
    /// Counts one more denial. Returns the wait until the next retry, at most `longest`.
    pub fn one_more(&mut self, longest: Duration) -> Duration {
        let before = self.0;
        self.0 = before.saturating_add(1);
        let (first, doubled) = match before.checked_sub(QUICK_DENIED_RETRIES) {
            None => (QUICK_RETRY, before),
            Some(lasting) => (DENIED_RETRY, lasting),
        };
        Backoff { first, longest }.after(doubled)
    }

    /// Returns true if the quick retries were denied as well.
    pub const fn are_lasting(self) -> bool {
        self.0 > QUICK_DENIED_RETRIES
    }

    /// Returns true if the latest denial has made them lasting: the time to report it.
    pub const fn are_news(self) -> bool {
        self.0 == QUICK_DENIED_RETRIES + 1
    }
}

/// The denials of the writes to one pod, by method.
#[derive(Clone, Debug, Default)]
pub struct DeniedWays(BTreeMap<Method, DeniedWay>);

#[derive(Clone, Debug)]
struct DeniedWay {
    denials: Denials,
    words: Box<str>,
    until: Moment,
    /// True if the API server does not forbid the writes, but does not apply them for long.
    fails: bool,
    /// When it was last reported, by this method or for all.
    told: Option<Moment>,
}

impl DeniedWays {
    /// Returns the denials of this method, one after another.
    pub fn of(&self, method: Method) -> Denials {
        let way = self.0.get(&method);
        way.map(|way| way.denials).unwrap_or_default()
    }

    /// Returns true if those of some method are lasting.
    pub fn are_lasting(&self) -> bool {
        self.0.values().any(|way| way.denials.are_lasting())
    }

    /// Returns true if nobody forbids this method: a write of it may be applied without anybody's
    /// help.
    pub(crate) fn may_pass(&self, method: Method) -> bool {
        let way = self.0.get(&method);
        way.is_none_or(|way| way.fails || !way.denials.are_lasting())
    }

    /// Records a denied write of this method, with its error. Returns the end of the wait before
    /// the next retry, at most `longest` from now.
    pub fn remember(
        &mut self,
        method: Method,
        words: Box<str>,
        now: Moment,
        longest: Duration,
    ) -> Moment {
        let mut denials = self.of(method);
        let until = now + denials.one_more(longest);
        self.replace(method, denials, words, until, false);
        until
    }

    /// Records that writes of this method have failed for so long that it counts as denied, until
    /// then.
    pub fn failed(&mut self, method: Method, words: Box<str>, until: Moment) {
        let times = self.of(method).0.max(QUICK_DENIED_RETRIES);
        self.replace(method, Denials(times.saturating_add(1)), words, until, true);
    }

    fn replace(
        &mut self,
        method: Method,
        denials: Denials,
        words: Box<str>,
        until: Moment,
        fails: bool,
    ) {
        let told = self.0.get(&method).and_then(|way| way.told);
        let way = DeniedWay {
            denials,
            words,
            until,
            fails,
            told,
        };
        self.0.insert(method, way);
    }

    /// Returns true if the lasting denials of this method are to be reported now: they are news, or
    /// what was reported of them is gone.
    pub fn are_told_now(&mut self, method: Method, is_news: bool, now: Moment) -> bool {
        let Some(way) = self.0.get_mut(&method) else {
            return is_news;
        };
        let is_gone = way.told.is_some_and(|told| told + TOLD_AGAIN <= now);
        let is_told = is_news || way.denials.are_lasting() && is_gone;
        if is_told || way.told.is_none() {
            way.told = Some(now);
        }
        is_told
    }

    /// Forgets the denials of this method, because a write was applied.
    pub fn forget(&mut self, method: Method) {
        self.0.remove(&method);
    }

    /// Keeps what is closed now closed until `until`: the method that comes next has not had its turn.
    pub fn stay_closed(&mut self, now: Moment, until: Moment) {
        let closed = self
            .0
            .values_mut()
            .filter(|way| way.denials.are_lasting() && now < way.until);
        closed.for_each(|way| way.until = way.until.max(until));
    }

    /// Returns until when this method is closed, and the error; denials that do not last close
    /// none.
    pub(crate) fn closes(&self, method: Method, now: Moment) -> Option<(Moment, &str)> {
        let way = self
            .0
            .get(&method)
            .filter(|way| way.denials.are_lasting() && now < way.until)?;
        Some((way.until, &way.words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storm_the_first_tries_follow_within_seconds_and_the_later_ones_rarely() {
        let mut denials = Denials::default();
        let mut next = || {
            (
                denials.one_more(Duration::from_secs(900)).as_millis(),
                denials.are_lasting(),
            )
        };
        assert_eq!(
            [next(), next(), next()],
            [(500, false), (1000, false), (2000, false)]
        );
        assert_eq!(
            [next(), next(), next()],
            [(60_000, true), (120_000, true), (240_000, true)]
        );
        for _ in 0..100 {
            next();
        }
        assert_eq!(next(), (900_000, true));
    }
}
