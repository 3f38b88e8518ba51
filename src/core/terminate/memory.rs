//! The memory of a pod between two reconciles. It times things and keeps reports from being
//! repeated; losing it (a restart of the process) changes no outcome.

pub mod asked;
pub mod denials;
pub mod ends;
pub mod finish_record;
pub mod image_troubles;
pub mod proof;

use self::asked::Asked;
use self::denials::DeniedWays;
use self::ends::SeenEnds;
use self::finish_record::FinishRecord;
use crate::cluster::exit_images::ExitImages;
use crate::objects::moment::Moment;
use crate::objects::pod::evidence::{self, Footprint, Progress, exit_image_shown, progress};
use crate::objects::pod::roles::{self, Unended};
use crate::objects::pod::{Container, PROVIDER_FAILED, Pod, Terminated};
use crate::report::decision::{Method, Swap};
use crate::report::reason::Reason;

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
    /// When a main container was last observed not to be done.
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
    /// The methods by which sidecars ended.
    pub ends: SeenEnds,
    /// The reasons that were reported.
    pub said: Vec<Reason>,
}

/// One swap of one container, as far as it is known.
#[derive(Clone, Debug)]
pub struct SwapRecord {
    /// The name of the container.
    pub container: Box<str>,
    /// The image before; `None` if another run of the process made the swap.
    pub from: Option<Box<str>>,
    /// The image that was written, as the API server stored it.
    pub to: Box<str>,
    /// When the write returned, or when the exit image was first observed in the spec.
    pub at: Moment,
    /// The number of times the image of this container was swapped.
    pub times: u32,
    /// The status fields before the swap; `None` if this run of the process did not observe them.
    pub before: Option<Footprint>,
    /// When the exit image was first observed running; `None` if it was not.
    pub runs_since: Option<Moment>,
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
        if roles::mains_state(pod) == roles::Mains::Done {
            self.mains_done_at.get_or_insert(now);
        } else {
            self.mains_done_at = None;
            self.mains_ran_at = Some(now);
        }
        if let Some(record) = &mut self.finish {
            record.observe(pod, now);
        } else if self.mains_done_at.is_some() {
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

    /// Returns when the first swap was made in the pod, as far as it shows one.
    #[must_use]
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
    #[must_use]
    pub fn shows_exit_image(&self, container: &Container, exit_images: &ExitImages) -> bool {
        self.swap_of(&container.name)
            .is_some_and(|record| record.to == container.image)
            || exit_images.contains(&container.image)
            || shows_image_asked_for(container, exit_images)
    }

    /// Records the exit images that a finished pod shows when it is first observed as swaps. It may
    /// have ended while no process watched, and then its end was not reported.
    pub fn find_ended(&mut self, pod: &Pod, exit_images: &ExitImages, now: Moment) {
        for sidecar in roles::sidecars(pod) {
            if self.shows_exit_image(sidecar, exit_images) {
                self.swaps.push(SwapRecord::found(sidecar, now));
            }
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

    /// Returns when the first write took effect, as far as it is known.
    #[must_use]
    pub fn first_write(&self) -> Option<Moment> {
        let finished = self.finish.as_ref().and_then(|record| record.written_at());
        self.swaps
            .iter()
            .map(|record| record.at)
            .chain(finished)
            .min()
    }

    /// Returns when the first write to end the pod took effect, and the last method; `None` if
    /// nothing was written.
    #[must_use]
    pub fn ending(&self) -> Option<(Moment, Method)> {
        let finished = self.finish.as_ref().and_then(|record| record.written_at());
        let last = match (finished, self.swaps.is_empty()) {
            (Some(_), _) => Method::Finish,
            (None, false) => Method::Swap,
            (None, true) => Method::Recreate,
        };
        self.first_write()
            .or(self.request_seen_at)
            .map(|at| (at, last))
    }

    /// Returns the record of a container's swap.
    #[must_use]
    pub fn swap_of(&self, container: &str) -> Option<&SwapRecord> {
        self.swaps
            .iter()
            .find(|record| &*record.container == container)
    }

    /// Records that a container's image was swapped.
    pub fn swapped(&mut self, container: &Container, from: &str, to: &str, now: Moment) {
        let known = self.swap_of(&container.name);
        let times = known.map_or(0, |record| record.times) + 1;
        // The watch may have shown this swap, and the end of the sidecar, before the write
        // returned.
        let real_end = known
            .filter(|record| record.times == 0)
            .and_then(|record| record.real_end.clone());
        self.swaps
            .retain(|record| record.container != container.name);
        let before = Some(Footprint::of(container));
        self.swaps.push(SwapRecord {
            container: container.name.clone(),
            from: Some(from.into()),
            to: to.into(),
            at: now,
            times,
            before,
            runs_since: None,
            real_end,
            failures: 0,
            failed_at: None,
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
    #[must_use]
    pub fn words(&self) -> String {
        let (container, to) = (&self.container, &self.to);
        let times = Some(self.times).filter(|times| *times > 1);
        let times = times.map(|times| format!(" {times} times"));
        let before = self.from.as_deref().map(|from| format!("{from} -> "));
        let (times, before) = (times.unwrap_or_default(), before.unwrap_or_default());
        format!("{container}{times} (image {before}{to})")
    }

    fn found(sidecar: &Container, now: Moment) -> Self {
        Self {
            container: sidecar.name.clone(),
            from: None,
            to: sidecar.image.clone(),
            at: now,
            times: 0,
            before: None,
            runs_since: None,
            real_end: None,
            failures: 0,
            failed_at: None,
        }
    }

    fn observe(&mut self, sidecar: &Container, now: Moment) {
        let Some(status) = &sidecar.status else {
            return;
        };
        if progress(sidecar, self.before.as_ref()) == Progress::Runs {
            self.runs_since.get_or_insert(now);
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
            return is_ours && end.exit_code.is_some_and(|code| code != 0);
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
