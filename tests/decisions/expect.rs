//! Asks for decisions as the controller does, and asserts that nothing but the expected comes out.

use std::time::Duration;

use swaplet_core::cluster::exit_images::{ExitImages, Public};
use swaplet_core::cluster::headroom::{Ledger, Swapped};
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::Pod;
use swaplet_core::objects::recreate_request::RecreateRequest;
use swaplet_core::report::decision::{Decision, Report};
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::memory::Memory;
use swaplet_core::terminate::memory::image_troubles::ImageTroubles;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::{Coexist, Daemon, OpenKruise, Terminator};
use swaplet_core::terminate::{Circumstances, NodeFacts, decide};

use crate::builder::PodBuilder;

/// The default exit image of the tests.
pub const EXIT: &str = "registry.example/swaplet/exit:v1";
/// An image on the administrator's list (`registry.example/exit/*`).
pub const LISTED: &str = "registry.example/exit/proxy:v2";
/// An image that is not.
pub const UNLISTED: &str = "registry.example/tenant/exit:v1";
/// A digest.
pub const DIGEST: &str = "sha256:7173b809ca12ec5dee4506cd86be934c4596dd234ee82c0662eac04a8c2c71dc";

/// What `swaplet run` allows where nothing is said (`src/cli/rules.rs` has a test that it is this).
pub const SHIPPED: AllowedMethods = AllowedMethods {
    prefer: None,
    finish: true,
    recreate: true,
    swap_under_never: false,
};

/// The rules of the installation: a default and a list.
pub fn rules() -> ExitImages {
    rules_with(Some(EXIT), &["registry.example/exit/*"])
}

pub fn rules_with(default: Option<&str>, list: &[&str]) -> ExitImages {
    let default = default.map(|image| image.parse().unwrap());
    ExitImages::new(
        default,
        list.iter()
            .map(|pattern| pattern.parse().unwrap())
            .collect(),
    )
    .said_public(Public::Yes)
}

/// The point in time so many seconds after the start of the process.
pub const fn moment(seconds: u64) -> Moment {
    Moment::after_start(Duration::from_secs(seconds))
}

/// One life of the controller, as far as decisions see it: what it remembers of one pod, and its
/// time.
pub struct Life {
    pub memory: Memory,
    pub rules: ExitImages,
    pub allowed: AllowedMethods,
    pub headroom: Ledger,
    pub image_troubles: ImageTroubles,
    pub node: NodeClass,
    pub openkruise: Neighbour,
    pub facts: NodeFacts,
    pub policies_unseen_until: Option<Moment>,
    pub now: Moment,
    pub started_at: Option<jiff::Timestamp>,
}

/// OpenKruise as it is known; nothing of it by default.
#[derive(Default)]
pub struct Neighbour {
    pub unseen: bool,
    pub coexist: Coexist,
    pub terminator: Terminator,
    pub daemon: Daemon,
    pub request: Option<RecreateRequest>,
}

impl Life {
    pub fn new() -> Self {
        Self::under(rules())
    }

    pub fn under(rules: ExitImages) -> Self {
        Self {
            memory: Memory::default(),
            rules,
            allowed: AllowedMethods::default(),
            headroom: Ledger::default(),
            image_troubles: ImageTroubles::default(),
            node: NodeClass::Kubelet,
            openkruise: Neighbour::default(),
            facts: NodeFacts::default(),
            policies_unseen_until: None,
            now: Moment::START,
            started_at: None,
        }
    }

    pub fn later(&mut self, seconds: u64) -> &mut Self {
        self.now += Duration::from_secs(seconds);
        self
    }

    /// What a decision about the pod depends on besides.
    pub fn around(&self) -> Circumstances<'_> {
        let Neighbour {
            unseen,
            coexist,
            terminator,
            daemon,
            request,
        } = &self.openkruise;
        let openkruise = OpenKruise {
            seen: !unseen,
            coexist: *coexist,
            terminator: *terminator,
            daemon: *daemon,
            request: request.as_ref(),
        };
        Circumstances {
            exit_images: &self.rules,
            allowed: &self.allowed,
            headroom: &self.headroom,
            image_troubles: &self.image_troubles,
            node: self.node,
            facts: self.facts,
            openkruise,
            policies_unseen_until: self.policies_unseen_until,
            now: self.now,
            started_at: self.started_at,
        }
    }

    /// The swaps in a pod that this life has observed.
    pub fn counts(&self, pod: &Pod) -> Swapped {
        let is_new = self.memory.was_found_done(pod, self.now);
        Swapped::of(pod, &self.memory, &self.rules, &self.allowed, is_new)
    }

    /// Looks at a pod, and remembers a report as made.
    pub fn sees(&mut self, pod: &PodBuilder) -> Decision {
        self.sees_pod(&pod.read())
    }

    pub fn sees_pod(&mut self, pod: &Pod) -> Decision {
        self.memory.observe(pod, &self.rules, self.now);
        self.memory
            .observe_request(self.openkruise.request.as_ref(), self.now);
        let swapped = self.counts(pod);
        self.headroom.observe(pod, swapped, 0);
        self.image_troubles.observe(pod, &self.memory, self.now);
        let decision = decide(pod, &self.memory, &self.around());
        for report in &decision.reports {
            assert!(
                self.memory.first_time(report.reason),
                "{:?} is said again",
                report.reason
            );
        }
        decision
    }

    /// Looks at a pod, expects swaps and makes them: the pod afterwards.
    pub fn swaps(&mut self, pod: &PodBuilder) -> PodBuilder {
        self.swaps_as(pod, str::to_owned)
    }

    /// As [`swaps`](Self::swaps), on an API server that stores another image than the one that was
    /// written.
    pub fn swaps_as(&mut self, pod: &PodBuilder, stored: impl Fn(&str) -> String) -> PodBuilder {
        let decision = self.sees(pod);
        assert_eq!(decision.reason, Reason::SidecarSwapped, "{decision:?}");
        let read = pod.read();
        let mut after = pod.clone();
        for swap in decision.swaps() {
            let container = &read.containers[swap.index];
            self.memory
                .swapped(container, swap, &stored(&swap.to), self.now);
            after = after.but(&swap.container, |container| {
                container.image(&stored(&swap.to))
            });
        }
        after
    }

    #[track_caller]
    pub fn assert_silent(&mut self, pod: &PodBuilder, reason: Reason) -> Decision {
        let decision = self.sees(pod);
        assert_eq!(decision.reason, reason, "{decision:?}");
        assert_eq!(
            (&decision.action, &*decision.reports),
            (&None, &[] as &[Report])
        );
        decision
    }

    /// Expects one report and no write; answers the note. The next look is silent.
    #[track_caller]
    pub fn tells(&mut self, pod: &PodBuilder, reason: Reason) -> String {
        let decision = self.sees(pod);
        assert_eq!(decision.action, None, "{decision:?}");
        assert_eq!(decision.reports.len(), 1, "{decision:?}");
        let report = decision.reports[0].clone();
        assert_eq!(report.reason, reason, "{report:?}");
        assert!(
            !report.note.contains("hunter2"),
            "a value of the environment is told: {}",
            report.note
        );
        self.assert_silent(pod, decision.reason);
        report.note
    }
}

/// What a new life decides about a pod.
pub fn ask(pod: &PodBuilder) -> Decision {
    Life::new().sees(pod)
}

/// Exactly these containers get the default exit image, in one patch; then neither this nor the
/// next life writes again.
#[track_caller]
pub fn swaps(pod: &PodBuilder, expected: &[&str]) {
    let expected: Vec<_> = expected.iter().map(|name| (*name, EXIT)).collect();
    swaps_to(pod, &expected);
}

/// As [`swaps`], with the image of each.
#[track_caller]
pub fn swaps_to(pod: &PodBuilder, expected: &[(&str, &str)]) {
    swaps_in(Life::new, pod, expected);
}

/// As [`swaps_to`], in each of these lives.
#[track_caller]
pub fn swaps_in(life: impl Fn() -> Life, pod: &PodBuilder, expected: &[(&str, &str)]) {
    let decision = life().sees(pod);
    let got: Vec<_> = decision
        .swaps()
        .iter()
        .map(|swap| (&*swap.container, &*swap.to))
        .collect();
    assert_eq!(got, expected, "{decision:?}");
    assert_eq!(decision.reason, Reason::SidecarSwapped);
    assert_eq!(
        decision.done.as_ref().map(|report| report.reason),
        Some(Reason::SidecarSwapped)
    );
    assert!(
        decision
            .swaps()
            .iter()
            .all(|swap| *swap.from == *pod.image_of(&swap.container))
    );

    let mut first = life();
    let after = first.swaps(pod);
    first.assert_silent(&after, Reason::SwapPending);
    life().assert_silent(&after, Reason::SwapPending);
}

/// Nothing is written and nothing is said.
#[track_caller]
pub fn assert_silent(pod: &PodBuilder, reason: Reason) {
    assert_waits_for_events(&Life::new().assert_silent(pod, reason));
}

/// The next look follows an event. Only that a main container is not started again is told without
/// one, after ten minutes.
#[track_caller]
pub fn assert_waits_for_events(decision: &Decision) {
    let awaits = |at| decision.reason == Reason::MainsRunning && at == moment(600);
    assert!(decision.again.is_none_or(awaits), "{decision:?}");
}

/// One warning and no write; answers the note.
#[track_caller]
pub fn warns(pod: &PodBuilder, reason: Reason) -> String {
    assert!(reason.is_warning());
    Life::new().tells(pod, reason)
}
