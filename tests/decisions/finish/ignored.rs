//! Exit codes that are to be ignored: every combination of restart policy, exit code, mark and time,
//! on a kubelet in miniature, compared with OpenKruise's rule and with the result of the Job.

use serde_json::{Value, json};
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::pod::Phase;
use swaplet_core::objects::pod::annotations::{ORDER, WAIT_FOR_EXIT};
use swaplet_core::objects::values::env::IGNORE_EXIT_CODE;
use swaplet_core::report::decision::{Action, Method};
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::methods::AllowedMethods;

use super::{FIRST, QUIET_SECONDS, finish_of, on};
use crate::builder::{ContainerBuilder, PodBuilder, main_container, pod, sidecar};
use crate::expect::EXIT;

/// When the main container ends, in seconds.
const MAIN_ENDS: u64 = 20;
/// How long a sidecar takes to stop.
const STOPS: u64 = 3;
/// What a sidecar exits with when it is stopped.
const STOPPED: i64 = 143;
/// How long a kubelet waits before it starts a container again that has failed.
const BACK_OFF: u64 = 5;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    policy: &'static str,
    code: i64,
    /// Whether the sidecar that ends by itself, and the other one, are to be ignored.
    ignored: [bool; 2],
    /// When it ends by itself, in seconds after the main container; `None`: never.
    ends: Option<i64>,
    /// How long it may end by itself.
    waits: i64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Runs,
    /// It is being stopped for an exit image until then.
    Stops(u64),
    /// It has ended at this time.
    Ended(i64, u64),
}

/// A sidecar on the kubelet.
#[derive(Clone, Copy, Debug)]
struct Sidecar {
    state: State,
    swapped: bool,
    /// The exit image has been started.
    replaced: bool,
    restarts: u32,
}

struct Kubelet {
    row: Row,
    second: u64,
    metrics: Sidecar,
    proxy: Sidecar,
}

impl Kubelet {
    fn new(row: Row) -> Self {
        let runs = Sidecar {
            state: State::Runs,
            swapped: false,
            replaced: false,
            restarts: 0,
        };
        Self {
            row,
            second: 0,
            metrics: runs,
            proxy: runs,
        }
    }

    /// The kubelet acts for one second.
    fn tick(&mut self) {
        self.second += 1;
        let (now, code, policy) = (self.second, self.row.code, self.row.policy);
        for sidecar in [&mut self.metrics, &mut self.proxy] {
            match sidecar.state {
                State::Runs if sidecar.swapped && !sidecar.replaced => {
                    sidecar.state = State::Stops(now + STOPS);
                }
                State::Stops(until) if now >= until => {
                    sidecar.state = State::Ended(0, now);
                    (sidecar.replaced, sidecar.restarts) = (true, sidecar.restarts + 1);
                }
                State::Ended(code, at)
                    if policy == "OnFailure" && code != 0 && now >= at + BACK_OFF =>
                {
                    (sidecar.state, sidecar.restarts) = (State::Runs, sidecar.restarts + 1);
                }
                _ => {}
            }
        }
        let (metrics, ends) = (&mut self.metrics, self.row.ends);
        let ends = ends.map(|after| MAIN_ENDS.saturating_add_signed(after));
        if ends == Some(now) && metrics.state == State::Runs {
            metrics.state = State::Ended(code, now);
        }
    }

    /// The phase by which the kubelet judges the pod; `None` while anything runs or will.
    fn judges(&self) -> Option<&'static str> {
        if self.second < MAIN_ENDS {
            return None;
        }
        let mut codes = Vec::new();
        for sidecar in [self.metrics, self.proxy] {
            match sidecar.state {
                State::Ended(code, _) if code == 0 || self.row.policy == "Never" => {
                    codes.push(code);
                }
                _ => return None,
            }
        }
        Some(if codes.iter().all(|code| *code == 0) {
            "Succeeded"
        } else {
            "Failed"
        })
    }

    fn shown(&self) -> PodBuilder {
        let main = main_container("main");
        let main = if self.second < MAIN_ENDS {
            main.running()
        } else {
            main.ended(0)
        };
        let [ignores_metrics, ignores_proxy] = self.row.ignored;
        let mut pod = pod(self.row.policy);
        if self.row.waits > 0 {
            pod = pod.annotation(WAIT_FOR_EXIT, format!("metrics={}s", self.row.waits));
        }
        pod.with(main)
            .with(shown("metrics", ignores_metrics, self.metrics))
            .with(shown("proxy", ignores_proxy, self.proxy))
    }
}

fn shown(name: &str, is_ignored: bool, is: Sidecar) -> ContainerBuilder {
    let mut container = sidecar(name);
    if is_ignored {
        container = container.env(IGNORE_EXIT_CODE, "true");
    }
    if is.swapped {
        container = container.image(EXIT);
    }
    if is.restarts > 0 {
        let image = if is.replaced {
            EXIT.to_owned()
        } else {
            format!("registry.example/app/{name}:v1")
        };
        container = container.restarted_as(&image, is.restarts);
    }
    match is.state {
        State::Runs | State::Stops(_) => container.running(),
        State::Ended(code, _) => container.ended(code),
    }
}

/// Runs the pod to its end: its phase, and the last method that was written.
fn ends(row: Row) -> (&'static str, Option<Method>) {
    let mut kubelet = Kubelet::new(row);
    let allowed = AllowedMethods {
        prefer: None,
        ..FIRST
    };
    let mut life = on(NodeClass::Kubelet, allowed);
    let (mut last, mut version, mut shown) = (None, 0, Value::Null);
    for _ in 0..300 {
        if let Some(phase) = kubelet.judges() {
            return (phase, last);
        }
        let before = kubelet.shown();
        if before.json() != shown {
            (shown, version) = (before.json(), version + 1);
        }
        let before = before.set("/metadata/resourceVersion", version.to_string());
        let decision = life.sees(&before);
        match &decision.action {
            Some(Action::Swap(swaps)) => {
                let read = before.read();
                for swap in swaps {
                    let container = &read.containers[swap.index];
                    life.memory.swapped(container, swap, &swap.to, life.now);
                    let sidecar = if &*swap.container == "metrics" {
                        &mut kubelet.metrics
                    } else {
                        &mut kubelet.proxy
                    };
                    sidecar.swapped = true;
                }
                last = Some(Method::Swap);
            }
            Some(Action::Finish(finish)) => return (finish.phase.as_str(), Some(Method::Finish)),
            other => assert_eq!(*other, None, "{row:?}"),
        }
        assert!(
            decision
                .reports
                .iter()
                .all(|told| told.reason != Reason::NoRung),
            "{row:?}: {decision:?}"
        );
        kubelet.tick();
        life.later(1);
    }
    panic!("the pod stays: {row:?}");
}

/// OpenKruise ends the pod by its phase where an ignoring sidecar has not ended when the main
/// containers have, and stops the others, whose exit codes count. swaplet knows one more case: the
/// ignoring one has failed, and another one runs.
#[test]
fn an_ignored_exit_code_never_fails_the_pod_and_any_other_one_does_as_ever() {
    let mut rows = 0;
    for policy in ["Never", "OnFailure"] {
        for code in [0, 1, 137, STOPPED] {
            for ignored in [[false, false], [true, false], [false, true], [true, true]] {
                for ends in [
                    None,
                    Some(-15),
                    Some(-1),
                    Some(0),
                    Some(1),
                    Some(4),
                    Some(9),
                ] {
                    for waits in [0, 12] {
                        let row = Row {
                            policy,
                            code,
                            ignored,
                            ends,
                            waits,
                        };
                        is_right(row);
                        rows += 1;
                    }
                }
            }
        }
    }
    assert_eq!(rows, 448);
}

fn is_right(row: Row) {
    let (phase, method) = ends(row);
    let by_itself = row.ends.is_some_and(|at| at <= row.waits);
    // It stands for good, and nothing says that it is to be ignored: the Job fails in OpenKruise
    // too.
    let counts = row.policy == "Never" && row.code != 0 && !row.ignored[0];
    let expected = if counts && by_itself && !row.ignored[1] {
        "Failed"
    } else {
        "Succeeded"
    };
    assert_eq!(phase, expected, "{row:?} by {method:?}");
    let may_fail = row.ignored[0] && (row.ends.is_none() || row.code != 0);
    if row.policy == "Never" && (row.ignored[1] || may_fail) {
        assert_eq!(method, Some(Method::Finish), "{row:?}");
    }
    if row.ignored == [false, false] {
        assert_eq!(method, Some(Method::Swap), "{row:?}");
    }
}

/// The one of the second step may end by itself while the first one stops: then nothing runs, and the
/// pod is judged by the code that is to be ignored.
#[test]
fn u157_where_one_that_is_to_be_ignored_has_failed_no_step_is_ended_before_the_phase() {
    let shown = |policy: &str, uploader: ContainerBuilder| {
        let metrics = sidecar("metrics").env(IGNORE_EXIT_CODE, "true").ended(1);
        pod(policy)
            .annotation(ORDER, "proxy=0,uploader=1")
            .with(main_container("main").ended(0))
            .with(metrics)
            .with(sidecar("proxy").running())
            .with(uploader)
    };
    let allowed = AllowedMethods {
        prefer: None,
        ..FIRST
    };
    for uploader in [sidecar("uploader").running(), sidecar("uploader").ended(0)] {
        let pod = shown("Never", uploader);
        let mut life = on(NodeClass::Kubelet, allowed);
        life.assert_silent(&pod, Reason::FinishWaits);
        let decision = life.later(QUIET_SECONDS).sees(&pod);
        assert_eq!(finish_of(&decision).phase, Phase::Succeeded);
    }
    // It is started again, so nothing is judged by it.
    let pod = shown("OnFailure", sidecar("uploader").running());
    let decision = on(NodeClass::Kubelet, allowed).sees(&pod);
    assert_eq!(decision.reason, Reason::SidecarSwapped, "{decision:?}");
}

/// A swap of the other one would end the pod as Failed, and its Job would do its work again.
#[test]
fn where_the_phase_may_not_be_written_nothing_ends_a_pod_that_would_then_be_failed() {
    let shown = |policy, code, is_ignored| {
        let mut metrics = sidecar("metrics").ended(code);
        if is_ignored {
            metrics = metrics.env(IGNORE_EXIT_CODE, "true");
        }
        pod(policy)
            .with(main_container("main").ended(0))
            .with(metrics)
            .with(sidecar("proxy").running())
    };
    let decides = |pod: &PodBuilder, finish| {
        let allowed = AllowedMethods { finish, ..FIRST };
        on(NodeClass::Kubelet, allowed).sees(pod)
    };
    let decision = decides(&shown("Never", 1, true), false);
    assert_eq!((decision.reason, decision.action), (Reason::NoRung, None));
    let note = &decision.reports[0].note;
    assert!(
        note.contains("because metrics has failed") && note.contains("--finish=never"),
        "{note}"
    );
    // Nobody else's exit code is in the way, or it counts whatever is done.
    for (policy, code, is_ignored) in [
        ("Never", 0, true),
        ("Never", 1, false),
        ("OnFailure", 1, true),
        ("OnFailure", 0, true),
    ] {
        let decision = decides(&shown(policy, code, is_ignored), false);
        assert_eq!(
            decision.reason,
            Reason::SidecarSwapped,
            "{policy} {code} {is_ignored}: {decision:?}"
        );
    }
}

/// A kubelet before 1.35 knows neither its policy nor its rules, and judges the pod by it.
#[test]
fn u230_an_ignored_exit_code_is_not_left_to_the_own_policy_of_a_sidecar_under_never() {
    let codes = json!({"operator": "NotIn", "values": [0]});
    let rules = json!([{"action": "Restart", "exitCodes": codes}]);
    let allowed = AllowedMethods {
        prefer: None,
        ..FIRST
    };
    for metrics in [
        sidecar("metrics").spec("restartPolicy", "OnFailure"),
        sidecar("metrics")
            .spec("restartPolicy", "Never")
            .spec("restartPolicyRules", rules),
    ] {
        let pod = pod("Never")
            .with(main_container("main").ended(0))
            .with(metrics.env(IGNORE_EXIT_CODE, "true").ended(1))
            .with(sidecar("proxy").running());
        on(NodeClass::Kubelet, allowed).assert_silent(&pod, Reason::FinishWaits);
    }
}
