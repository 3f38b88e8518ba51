//! One way, tried on one pod.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use swaplet_core::cluster::exit_images::{ExitImages, Public};
use swaplet_core::cluster::node_class::{NodeClass, OVERRIDE};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::cluster::node_verdicts::Proved;
use swaplet_core::objects::node::NodeWire;
use swaplet_core::report::decision::{Action, Method, Report};
use swaplet_core::report::reason::Reason;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::Coexist;
use tokio::time::{sleep, timeout};

use super::{ANSWER, Answer, Interrupt, Probe, Stopped, Tried, Way, differences, marked};
use crate::cluster::rules::Rules;
use crate::frame::clock::Clock;
use crate::frame::list::words;
use crate::frame::watch::Event;
use crate::frame::writer::{Outcome, Writer};
use crate::terminate::index::{Effect, Index};

/// The interval between two reads of the pod.
const LOOK: Duration = Duration::from_millis(200);

/// A way and the pod on which it is tried.
pub(crate) struct Trial<'a> {
    pub(crate) probe: &'a Probe,
    pub(crate) way: Way,
    pub(crate) interrupt: &'a mut Interrupt,
    pub(crate) report: &'a (dyn Fn(String) + Send + Sync),
}

/// The results so far.
#[derive(Default)]
struct Heard {
    answer: Option<(Answer, String)>,
    proved: Option<Proved>,
    last: Option<Reason>,
    /// Why the last write was not applied.
    trouble: Option<String>,
}

impl Trial<'_> {
    pub(crate) async fn run(mut self) -> Result<Tried, Stopped> {
        let ready = self.start().await?;
        self.end_sidecar(ready).await
    }

    /// Ends the sidecar by the controller's own rules.
    async fn end_sidecar(&mut self, ready: Value) -> Result<Tried, Stopped> {
        let clock = Clock::start();
        let writer = Writer::new(self.probe.client.clone(), ANSWER);
        let mut index = Index::new(self.rules());
        index.nodes.observe(Event::Applied(self.node()));
        let (mut heard, mut pod) = (Heard::default(), ready.clone());
        loop {
            self.step(&mut index, &writer, &clock, &pod, &mut heard)
                .await;
            let over = || (Answer::TimedOut, heard.time_is_over(self.probe.timeout));
            let answer = heard
                .answer
                .clone()
                .or_else(|| (clock.now().since_start() >= self.probe.timeout).then(over));
            if let Some((answer, note)) = answer {
                // Its end by somebody else, as by eviction, says nothing of the way.
                if answer == Answer::Works && pod["status"]["phase"] != "Succeeded" {
                    return Err(Stopped::NotStarted(note));
                }
                let evidence = differences(&ready, &pod);
                return Ok(Tried {
                    way: self.way,
                    answer,
                    took: Some(clock.now().since_start()),
                    evidence,
                    note,
                    proved: heard.proved,
                });
            }
            self.pause().await?;
            match self.read_pod().await? {
                Ok(seen) => pod = seen,
                Err(trouble) => heard.trouble = Some(trouble),
            }
        }
    }

    /// Reconciles the pod once like the controller, and makes the write that follows.
    async fn step(
        &self,
        index: &mut Index,
        writer: &Writer,
        clock: &Clock,
        pod: &Value,
        heard: &mut Heard,
    ) {
        let now = clock.now();
        if let Some(pod) = marked(pod.clone()) {
            index.apply(pod, now);
        }
        index.wake(now);
        if let Some(write) = index.next_write(now) {
            if matches!((self.way, &write.action), (Way::Finish, Action::Swap(_))) {
                // The controller has given this way up and goes to the next method.
                heard.answer = Some((
                    Answer::Fails(Reason::FinishUndone),
                    "the phase was reverted each time".to_owned(),
                ));
                return;
            }
            let outcome = writer.write(&write.target, &write.action).await;
            heard.wrote(&outcome);
            index.written(write, &outcome, clock.now());
        }
        for effect in index.take_effects() {
            match effect {
                Effect::Notice(notice) => self.handle(notice.report, heard),
                Effect::Learned(learned) => heard.proved = Some(learned.proved),
                Effect::Decided(reason) => heard.last = Some(reason),
                Effect::Written(_) | Effect::Ended(..) | Effect::Derive(..) => {}
            }
        }
    }

    fn handle(&self, report: Report, heard: &mut Heard) {
        let Report { reason, note } = report;
        match reason {
            Reason::SidecarSwapped
            | Reason::SwapPending
            | Reason::PhaseWritten
            | Reason::SidecarKilled
            | Reason::FinishNotQuiet => (self.report)(format!("{}: {note}", self.way)),
            Reason::SidecarEnded => heard.answer = Some((Answer::Works, note)),
            reason => heard.answer = Some((Answer::Fails(reason), note)),
        }
    }

    /// Returns rules that allow only the way that is tried.
    fn rules(&self) -> Rules {
        let finish = self.way == Way::Finish;
        Rules {
            // Whether its pods can pull it is part of the trial.
            exit_images: ExitImages::new(Some(self.probe.images.exit.clone()), Vec::new())
                .said_public(Public::Yes),
            allowed: AllowedMethods {
                prefer: finish.then_some(Method::Finish),
                finish,
                recreate: false,
                swap_under_never: true,
            },
            node_table: NodeTable::default(),
            coexist: Coexist::Own,
        }
    }

    /// Returns the node with a class that allows the way, whatever class it really has.
    fn node(&self) -> NodeWire {
        let class = match self.way {
            _ if self.probe.recognised.may_be_kubelet() => NodeClass::Kubelet,
            Way::SwapOnFailure | Way::SwapNever => NodeClass::VirtualUpdates,
            Way::Finish => NodeClass::VirtualInert,
        };
        let mut node = self.probe.node.clone();
        node.labels.insert(OVERRIDE.into(), class.as_str().into());
        let metadata = ObjectMeta {
            name: Some(node.name.to_string()),
            uid: Some(node.uid.to_string()),
            ..ObjectMeta::default()
        };
        NodeWire::of(metadata, node)
    }

    /// Reads the pod; returns why, if it cannot be read.
    pub(crate) async fn read_pod(&self) -> Result<Result<Value, String>, Stopped> {
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}",
            self.probe.namespace,
            self.name()
        );
        let request = http::Request::get(path)
            .body(Vec::new())
            .map_err(|error| Stopped::Refused(error.to_string()))?;
        match timeout(ANSWER, self.probe.client.request::<Value>(request)).await {
            Ok(Ok(pod)) => Ok(Ok(pod)),
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => {
                Err(Stopped::Gone(self.name()))
            }
            Ok(Err(error)) => Ok(Err(words(&error))),
            Err(_) => Ok(Err(format!(
                "the API server has not answered in {} s",
                ANSWER.as_secs()
            ))),
        }
    }

    pub(crate) async fn pause(&mut self) -> Result<(), Stopped> {
        tokio::select! {
            () = sleep(LOOK) => Ok(()),
            _ = self.interrupt.wait_for(|interrupted| *interrupted) => Err(Stopped::Interrupted),
        }
    }

    pub(crate) fn name(&self) -> String {
        self.probe.pod_name(self.way)
    }
}

impl Heard {
    fn wrote(&mut self, outcome: &Outcome) {
        self.trouble = match outcome {
            Err(WriteError::Failed { error, .. }) => Some(error.clone()),
            _ => None,
        };
    }

    fn time_is_over(&self, time: Duration) -> String {
        let last = self
            .last
            .map(|reason| format!("; last: {reason}"))
            .unwrap_or_default();
        let trouble = self
            .trouble
            .as_ref()
            .map(|trouble| format!("; {trouble}"))
            .unwrap_or_default();
        format!(
            "no result after {} s{last}{trouble}; allow more time with --timeout",
            time.as_secs()
        )
    }
}
