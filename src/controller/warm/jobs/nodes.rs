//! The nodes of the cluster, reduced to what jobs select them by.

use std::collections::BTreeMap;

use swaplet_core::cluster::node_class::Recognised;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::node::{Node, NodeWire};
use swaplet_core::warm::pull_job::{CONTROL_PLANE, TargetNode};
use swaplet_core::warm::startup_taint::StartupTaints;
use swaplet_core::warm::warming::nodes::{has_image_caches, shape};

use crate::frame::isolated::defects::read;
use crate::frame::watch::Event;
use crate::frame::watch::mirror::{Change, Mirror};

/// All nodes, by name.
pub(crate) struct Nodes {
    pub all: BTreeMap<Box<str>, TargetNode>,
    /// The nodes with the startup taint; `None` if swaplet leaves that taint alone.
    pub startup_taints: Option<StartupTaints>,
    /// True if image caches can be created for nodes whose provider has them.
    pub uses_image_caches: bool,
    table: NodeTable,
    mirror: Mirror<Box<str>>,
}

/// The changes that an event of nodes causes.
#[derive(Default)]
pub(crate) struct Changes {
    /// The names of nodes that are new, gone or changed.
    pub nodes: Vec<Box<str>>,
    /// The name of a node that was not Ready and now is.
    pub ready_again: Option<Box<str>>,
    /// True if there may be something to do.
    pub is_news: bool,
}

impl Nodes {
    pub const fn new(
        table: NodeTable,
        startup_taints: Option<StartupTaints>,
        uses_image_caches: bool,
    ) -> Self {
        Self {
            all: BTreeMap::new(),
            startup_taints,
            uses_image_caches,
            table,
            mirror: Mirror::new(),
        }
    }

    /// Returns true once the nodes have been listed.
    pub const fn are_known(&self) -> bool {
        self.mirror.is_complete()
    }

    /// Records an event. Returns what jobs have to know about it.
    pub fn observe(&mut self, event: Event<NodeWire>, now: Moment) -> Changes {
        let waited = self.has_tainted();
        let mut changes = self.take(event, now);
        changes.is_news |= !changes.nodes.is_empty() || waited || self.has_tainted();
        changes
    }

    fn has_tainted(&self) -> bool {
        self.startup_taints
            .as_ref()
            .is_some_and(|taints| !taints.is_empty())
    }

    /// Returns true if the node has the startup taint: then pods wait there for images of jobs.
    pub fn is_tainted(&self, node: &str) -> bool {
        self.startup_taints
            .as_ref()
            .is_some_and(|taints| taints.has(node))
    }

    fn take(&mut self, event: Event<NodeWire>, now: Moment) -> Changes {
        let read = |node: NodeWire| {
            let node = read("node", || node.read())?;
            Some((node.name.clone(), node))
        };
        let known = self.all.keys().cloned();
        match self.mirror.change(event, known, read) {
            Some(Change::Put(node)) => self.apply(node, now),
            Some(Change::Gone(nodes)) => {
                nodes.iter().for_each(|name| self.remove(name));
                Changes {
                    nodes,
                    ready_again: None,
                    is_news: true,
                }
            }
            None => Changes::default(),
        }
    }

    fn remove(&mut self, name: &str) {
        self.all.remove(name);
        self.startup_taints
            .iter_mut()
            .for_each(|taints| taints.leave(name));
    }

    fn apply(&mut self, node: Node, now: Moment) -> Changes {
        self.startup_taints
            .iter_mut()
            .for_each(|taints| taints.observe(&node, now));
        let recognised = Recognised::of(&node, &self.table);
        let shape = shape(&node, &recognised);
        let labels = node
            .labels
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect();
        let is_control_plane = node
            .taints
            .iter()
            .any(|taint| CONTROL_PLANE.contains(&&*taint.key));
        let target = TargetNode {
            uid: node.uid,
            labels,
            ready: node.ready,
            shape,
            has_image_caches: has_image_caches(&recognised),
            is_control_plane,
        };
        // A heartbeat changes nothing that jobs depend on.
        if self.all.get(&node.name) == Some(&target) {
            return Changes::default();
        }
        let before = self.all.insert(node.name.clone(), target);
        let ready_again = before
            .is_some_and(|before| !before.ready && node.ready)
            .then(|| node.name.clone());
        Changes {
            nodes: vec![node.name],
            ready_again,
            is_news: true,
        }
    }
}
