//! When what will happen, as the fake's pure machine tells: good enough to place operations, and
//! quick.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use swaplet_testbed::virtual_node::action::Action;
use swaplet_testbed::virtual_node::times::later;
use swaplet_testbed::virtual_node::{ImageOptions, Images, ProviderOptions, Seen, VirtualKubelet};

use super::profile::PROFILES;
use super::sequence::{Operation, Sequence};

/// When something is seen to change, counted from when all run.
#[derive(Clone, Debug)]
pub struct Change {
    pub at: Duration,
    pub containers: BTreeSet<String>,
    /// Whether it is a status that the API server has refused.
    pub is_refused: bool,
}

struct Plan {
    node: VirtualKubelet,
    images: Images,
    pod: Value,
    now: Timestamp,
    start: Option<Timestamp>,
    seen: Option<Seen>,
    changes: Vec<Change>,
}

/// What changes until so long after the start.
pub fn changes(sequence: &Sequence, until: Duration) -> Vec<Change> {
    let options = (PROFILES[sequence.profile].options)(ProviderOptions::default());
    let (pod, now) = (sequence.body("pod", "node"), Timestamp::UNIX_EPOCH);
    let node = VirtualKubelet::new(options, &pod, now);
    let mut plan = Plan {
        node,
        images: Images::new(ImageOptions::default()),
        pod,
        now,
        start: None,
        seen: None,
        changes: Vec::new(),
    };
    while plan.start.is_none() && plan.step() {}
    let start = plan.start.expect("a pod that runs");
    for (at, operation) in &sequence.operations {
        plan.until(later(start, *at));
        plan.act(operation);
    }
    plan.until(later(start, until));
    plan.changes
}

impl Plan {
    fn until(&mut self, at: Timestamp) {
        while self.node.wake().is_some_and(|wake| wake < at) {
            self.step();
        }
        self.now = at;
    }

    fn step(&mut self) -> bool {
        let Some(wake) = self.node.wake() else {
            return false;
        };
        self.now = wake.max(self.now);
        for action in self.node.advance(&mut self.images, self.now) {
            match action {
                Action::PutStatus(whole) if self.is_refused(&whole) => {
                    self.node.not_written(self.now);
                    self.change(BTreeSet::new());
                    if let Some(change) = self.changes.last_mut() {
                        change.is_refused = true;
                    }
                }
                Action::PutStatus(whole) => {
                    if whole["status"]["reason"] == "ProviderFailed" {
                        // Each try writes the whole pod as it was when it began: who changes it
                        // meanwhile may lose the change.
                        self.change(BTreeSet::new());
                    }
                    self.pod["status"] = whole["status"].clone();
                    self.pod["metadata"]["labels"] = whole["metadata"]["labels"].clone();
                    self.shown();
                }
                Action::Delete => self.change(BTreeSet::new()),
                _ => (),
            }
        }
        true
    }

    /// Whether the API server refuses the status, as that of a container that has ended for good and
    /// runs again (Kubernetes: `ValidateContainerStateTransition`).
    fn is_refused(&self, whole: &Value) -> bool {
        let statuses = |pod: &Value| pod["status"]["containerStatuses"].as_array().cloned();
        let after = statuses(whole).unwrap_or_default();
        let runs_again = |before: &Value| {
            let code = &before["state"]["terminated"]["exitCode"];
            let is_final = match self.pod["spec"]["restartPolicy"].as_str() {
                Some("Never") => code.is_number(),
                Some("OnFailure") => *code == 0,
                _ => false,
            };
            let same = |status: &&Value| status["name"] == before["name"];
            let after = after.iter().find(same);
            is_final && after.is_some_and(|after| after["state"]["terminated"].is_null())
        };
        let before = statuses(&self.pod).unwrap_or_default();
        before.iter().any(runs_again)
    }

    fn act(&mut self, operation: &Operation) {
        match operation {
            Operation::Image(index, image) => {
                self.pod["spec"]["containers"][index]["image"] = (*image).into()
            }
            Operation::Label(value) => {
                self.pod["metadata"]["labels"]["a"] = value.to_string().into()
            }
            Operation::Phase(phase) => self.pod["status"]["phase"] = (*phase).into(),
            Operation::Delete(grace) => {
                self.pod["metadata"]["deletionTimestamp"] = self.now.to_string().into();
                self.pod["metadata"]["deletionGracePeriodSeconds"] = (*grace).into();
            }
        }
        self.shown();
    }

    fn shown(&mut self) {
        self.node.see(&self.pod, self.now);
        let now = Seen::of(&self.pod);
        if self.start.is_none() && now.phase == "Running" {
            self.start = Some(self.now);
        }
        let before = self.seen.replace(now.clone());
        if before.as_ref() != Some(&now) {
            let old = |name: &str| before.as_ref().and_then(|seen| seen.container(name));
            let changed = now
                .containers
                .iter()
                .filter(|one| old(&one.name) != Some(*one));
            self.change(changed.map(|one| one.name.clone()).collect());
        }
    }

    fn change(&mut self, containers: BTreeSet<String>) {
        let since = self.start.map_or(Duration::ZERO, |start| {
            Duration::try_from(self.now.duration_since(start)).unwrap()
        });
        self.changes.push(Change {
            at: since,
            containers,
            is_refused: false,
        });
    }
}
