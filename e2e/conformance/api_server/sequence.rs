//! Sequences of operations, made at random.

use std::fmt::{self, Display};

use serde_json::json;

use super::operation::{Operation, Resource, Watch};
use super::parts::names;
use super::{batch, pods, small, status};
use crate::shared::random::Random;

/// Operations one after the other, and the watches that look back on them.
#[derive(Clone, Debug)]
pub struct Sequence {
    pub operations: Vec<Operation>,
    pub watches: Vec<Watch>,
}

/// Makes an operation.
type Make = fn(&mut Random) -> Operation;

/// What a sequence is mostly about, with how often.
const THEMES: [(usize, Make); 6] = [
    (42, pods::operation),
    (22, status::operation),
    (16, batch::operation),
    (8, small::config_map),
    (5, small::lease),
    (7, small::event),
];

impl Sequence {
    pub fn new(random: &mut Random) -> Self {
        let theme = random.weighted(&THEMES);
        let length = 8 + random.below(8);
        let mut operations = Vec::new();
        while operations.len() < length {
            // Some operations of other kinds in between: they move versions and must not be seen.
            let make = if random.percent(90) {
                theme
            } else {
                random.weighted(&THEMES)
            };
            operations.push(make(random));
            if operations.len() == 1 {
                operations = first(&operations[0], random);
            }
        }
        let watches = watches(&operations, random);
        Self {
            operations,
            watches,
        }
    }

    /// Without one operation each, the last ones first: what follows a difference is not needed.
    pub fn smaller(&self) -> Vec<Self> {
        let without = |index: usize| {
            let mut fewer = self.clone();
            if index < fewer.operations.len() {
                drop(fewer.operations.remove(index))
            } else {
                fewer.watches.clear()
            }
            fewer
        };
        let all = if self.watches.is_empty() {
            self.operations.len()
        } else {
            self.operations.len() + 1
        };
        (0..all).rev().map(without).collect()
    }

    /// What each step is called in the list of known differences.
    pub fn names(&self) -> Vec<String> {
        let operations = self.operations.iter().map(Operation::label);
        operations
            .chain(
                self.watches
                    .iter()
                    .map(|watch| format!("watch {}", watch.resource.name())),
            )
            .collect()
    }
}

impl Display for Sequence {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = self
            .operations
            .iter()
            .map(ToString::to_string)
            .chain(self.watches.iter().map(ToString::to_string));
        steps
            .enumerate()
            .try_for_each(|(index, step)| writeln!(out, "  {index} {step}"))
    }
}

/// Sequences start with the objects that most of their operations need.
fn first(operation: &Operation, random: &mut Random) -> Vec<Operation> {
    let resource = operation.resource;
    let create = |name: &str, random: &mut Random| {
        let body = match resource {
            Resource::Pods => pods::legal(random, name),
            Resource::Jobs => batch::legal(random, name),
            _ => small::legal(resource, random, name),
        };
        Operation::create(resource, body)
    };
    let names = names(resource);
    let second = random.percent(40).then(|| create(names[1], random));
    std::iter::once(create(names[0], random))
        .chain(second)
        .collect()
}

/// Watches of the resources that were used.
fn watches(operations: &[Operation], random: &mut Random) -> Vec<Watch> {
    let mut resources: Vec<_> = operations
        .iter()
        .map(|operation| operation.resource)
        .collect();
    resources.sort_unstable();
    resources.dedup();
    let mut watches = Vec::new();
    for resource in resources {
        let query = random.pick(&[
            "",
            "",
            "labelSelector=app%3Dx",
            "labelSelector=run%3D§run",
            "labelSelector=app%20in%20%28x,y%29",
        ]);
        watches.push(Watch { resource, query });
        if resource == Resource::Pods && random.percent(50) {
            let query = random.pick(&[
                "fieldSelector=spec.nodeName%3D",
                "fieldSelector=status.phase%3DPending",
                "fieldSelector=metadata.name%21%3D§p0",
            ]);
            watches.push(Watch { resource, query });
        }
    }
    watches
}

/// An object that every watch of a sequence sees.
pub fn marker(resource: Resource) -> Operation {
    let mut body = match resource {
        Resource::Pods => {
            json!({"spec": {"containers": [{"name": "a", "image": "b:1"}], "schedulerName": "nobody",
            "automountServiceAccountToken": false}})
        }
        Resource::Jobs => json!({"spec": {"managedBy": "example.com/nobody",
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b:1"}]}}}}),
        Resource::CoreEvents => json!({"involvedObject": {"namespace": "{namespace}"}}),
        Resource::Events => {
            json!({"eventTime": "2001-01-01T00:00:00.000000Z", "reportingController": "a", "reportingInstance": "b",
            "action": "c", "reason": "d", "type": "Normal", "regarding": {"namespace": "{namespace}"}})
        }
        _ => json!({}),
    };
    body["metadata"] = json!({"generateName": "§marker-", "labels": {"app": "x", "run": "§run"}});
    Operation::create(resource, body)
}
