//! The nodes, as jobs ask for them.

use std::collections::{BTreeMap, BTreeSet};

use crate::controller::watch::Event;
use crate::decide::node_class::Recognised;
use crate::decide::node_table::NodeTable;
use crate::decide::pull_job::TargetNode;
use crate::decide::warm::nodes::why_not;
use crate::objects::node::{Node, NodeWire};

/// All nodes.
pub(super) struct Nodes {
    pub all: BTreeMap<Box<str>, TargetNode>,
    /// Whether they have been listed.
    pub seen: bool,
    table: NodeTable,
    unlisted: BTreeSet<Box<str>>,
}

impl Nodes {
    pub const fn new(table: NodeTable) -> Self {
        Self { all: BTreeMap::new(), seen: false, table, unlisted: BTreeSet::new() }
    }

    /// Takes notice of it; the node, if it was not Ready and is so now.
    pub fn see(&mut self, event: Event<NodeWire>) -> Option<Box<str>> {
        match event {
            Event::ListStart => self.unlisted = self.all.keys().cloned().collect(),
            Event::Listed(node) | Event::Applied(node) => return self.apply(node.read()?),
            Event::ListEnd => {
                self.seen = true;
                std::mem::take(&mut self.unlisted).iter().for_each(|name| drop(self.all.remove(name)));
            }
            Event::Current(_) => {}
            Event::Deleted(node) => drop(self.all.remove(&node.read()?.name)),
            Event::Trouble(error) | Event::Forbidden(error) | Event::Hidden(error) => {
                tracing::warn!(error, "cannot watch nodes, on which images are to be; trying again")
            }
        }
        None
    }

    fn apply(&mut self, node: Node) -> Option<Box<str>> {
        self.unlisted.remove(&node.name);
        let why_not = why_not(&node, &Recognised::of(&node, &self.table));
        let labels = node.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let before = self.all.insert(node.name.clone(), TargetNode { uid: node.uid, labels, ready: node.ready, why_not });
        before.is_some_and(|before| !before.ready && node.ready).then_some(node.name)
    }
}
