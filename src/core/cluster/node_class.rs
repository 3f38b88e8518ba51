//! The class of a node, which is how it treats a changed image, and the reason for it.
//!
//! The class is set on the node itself ([`OVERRIDE`]), or is that of the first row of the table
//! that matches ([`NodeTable`]). A node that no row matches is an ordinary one. What has been
//! proved on a node outranks both (`node_verdicts`).

use std::fmt;
use std::sync::Arc;

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use super::node_table::{NodeTable, Row};
use crate::objects::node::Node;

/// The label or annotation of a node that sets its class, whatever the table has. The label
/// outranks the annotation.
pub const OVERRIDE: &str = "swaplet.io/node-class";
/// The row of pods that Alibaba ACS runs, on the nodes of ECI.
pub const ACS_ROW: &str = "alibaba-acs";

/// The class of a node: how it reacts to an image change.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray,
)]
pub enum NodeClass {
    /// A kubelet: restarts exactly the changed container (`docs/measured.md`, rows 1 to 6).
    Kubelet,
    /// A virtual node whose provider carries image changes out.
    VirtualUpdates,
    /// A virtual node whose provider ignores image changes, and may report that they succeeded
    /// (`docs/measured.md`, "The virtual-kubelet library").
    VirtualInert,
    /// A virtual node whose provider answers image changes with an error, which fails a pod under
    /// `Never` (the same).
    VirtualRejects,
    /// A kubelet beside which OpenKruise's daemon runs.
    Daemon,
    /// A virtual node of unknown behaviour, or a node that cannot be read.
    Unknown,
}

/// The recognised class of a node, before anything was proved on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Recognised {
    /// The class of the node.
    pub class: NodeClass,
    /// The row of the table that matched, if any. It is set even if the node sets its own class,
    /// for its budget still holds.
    pub row: Option<Arc<Row>>,
    /// The reason for the class.
    pub why: Why,
    /// The problem with the node's own [`OVERRIDE`], and the fix.
    pub problem: Option<Box<str>>,
}

/// The reason for the class of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The node's own mark; holds `label` or `annotation`.
    Own(&'static str),
    /// A row of the table, which matches by this condition.
    Row(Box<str>),
    /// No row matches: the node is an ordinary one.
    Ordinary,
    /// The node cannot be read.
    NotSeen,
}

impl NodeClass {
    /// Every class, in the order of the enum.
    pub const ALL: &[Self] = Self::VARIANTS;
    /// The classes that a node can set for itself. The daemon is recognised by its pod, and
    /// `Unknown` needs no mark.
    const OWN: [Self; 4] = [
        Self::Kubelet,
        Self::VirtualUpdates,
        Self::VirtualInert,
        Self::VirtualRejects,
    ];

    /// Returns the word for the class.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns true if a kubelet runs the pods of the node.
    pub const fn is_kubelet(self) -> bool {
        matches!(self, Self::Kubelet | Self::Daemon)
    }

    /// Returns true if a node of this class restarts a container whose image changes.
    pub const fn updates(self) -> bool {
        matches!(self, Self::Kubelet | Self::VirtualUpdates | Self::Daemon)
    }
}

impl Recognised {
    /// Recognises a node that was read.
    pub fn of(node: &Node, table: &NodeTable) -> Self {
        let (row, why) = match table.find(node) {
            Some((row, condition)) => (Some(row), Why::Row(condition)),
            None => (None, Why::Ordinary),
        };
        let class = row.as_ref().map_or(NodeClass::Kubelet, |row| row.class);
        let (class, why, problem) = match own_class(node) {
            None => (class, why, None),
            Some((place, Ok(class))) => (class, Why::Own(place), None),
            Some((place, Err(written))) => (class, why, Some(problem(place, written))),
        };
        Self {
            class,
            row,
            why,
            problem,
        }
    }

    /// Recognises a node that cannot be read: only rows that match by the name alone apply.
    pub fn by_name(name: &str, table: &NodeTable) -> Self {
        let node = Node {
            name: name.into(),
            ..Node::default()
        };
        let mut read = Self::of(&node, table);
        if read.row.is_none() {
            (read.class, read.why) = (NodeClass::Unknown, Why::NotSeen);
        }
        read
    }

    /// Returns the provider's name for tables and Events; `None` if no row matched.
    pub fn provider(&self) -> Option<&str> {
        self.row.as_ref().map(|row| &*row.provider)
    }

    /// Returns true if a kubelet may run the pods of the node: its row or its own mark states so,
    /// or the node cannot be read.
    pub fn may_be_kubelet(&self) -> bool {
        self.class.is_kubelet() || self.why == Why::NotSeen
    }

    /// Returns how a pod that asks for ACS is recognised on this node: by the row of ACS, where
    /// pods that do not ask run on ECI and the node sets no class of its own.
    pub fn on_acs(&self, table: &NodeTable) -> Option<Self> {
        let is_asked = self.ends_eci_sidecars() && !matches!(self.why, Why::Own(_));
        let mut rows = table.rows().iter().filter(|_| is_asked);
        let row = rows.find(|row| &*row.name == ACS_ROW)?;
        Some(Self {
            class: row.class,
            row: Some(Arc::clone(row)),
            why: Why::Row(format!("row {ACS_ROW}: labels of the pod").into()),
            problem: None,
        })
    }

    /// Returns true if the platform itself ends containers with `ECI_CONTAINER_TYPE=sidecar`.
    pub fn ends_eci_sidecars(&self) -> bool {
        self.has(|row| row.ends_eci_sidecars)
    }

    /// Returns true if a row matched of which this holds.
    pub(crate) fn has(&self, holds: impl Fn(&Row) -> bool) -> bool {
        self.row.as_deref().is_some_and(holds)
    }

    /// Returns true if the vendor of the node carries out requests with OpenKruise's label for
    /// virtual nodes, which is assumed unless a row states otherwise.
    pub fn vendor_restarts(&self) -> bool {
        self.row.as_ref().is_none_or(|row| row.vendor_restarts)
    }
}

/// Returns the class that the node sets itself, or the unknown word, and where it is set.
fn own_class(node: &Node) -> Option<(&'static str, Result<NodeClass, &str>)> {
    let places = [("label", &node.labels), ("annotation", &node.annotations)];
    places.into_iter().find_map(|(place, marks)| {
        let written = &**marks.get(OVERRIDE)?;
        Some((
            place,
            written
                .parse()
                .ok()
                .filter(|class| NodeClass::OWN.contains(class))
                .ok_or(written),
        ))
    })
}

fn problem(place: &str, written: &str) -> Box<str> {
    let known = NodeClass::OWN.map(NodeClass::as_str).join(", ");
    let written: String = written.chars().take(80).collect();
    format!("{place} {OVERRIDE} is {written:?}, which is none of {known}; until it is, the table sets the class").into()
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(place) => write!(out, "{place} {OVERRIDE}"),
            Self::Row(condition) => out.write_str(condition),
            Self::Ordinary => out.write_str("an ordinary node: no row of the table matches"),
            Self::NotSeen => out.write_str("the node cannot be read"),
        }
    }
}
