//! How a node treats a changed image: its class, and why it has it.
//!
//! A node says so itself ([`OVERRIDE`]), or the first row of the table that matches says it
//! ([`NodeTable`]); a node that none matches is an ordinary one. What has been proved on a node
//! outranks both (`node_verdicts`).

use std::fmt;
use std::sync::Arc;

use super::node_table::{NodeTable, Row};
use crate::objects::node::Node;

/// The label or annotation of a node that says its class, whatever the table says. The label
/// outranks the annotation.
pub const OVERRIDE: &str = "swaplet.io/node-class";

/// The class of a node: how it reacts to an image change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeClass {
    /// A kubelet: restarts exactly the changed container (`docs/measured.md`, rows 1 to 6).
    Kubelet,
    /// A virtual node whose provider carries image changes out.
    VirtualUpdates,
    /// A virtual node whose provider ignores image changes, and may say that they succeeded
    /// (`docs/measured.md`, "The virtual-kubelet library").
    VirtualInert,
    /// A virtual node whose provider answers image changes with an error, which fails a pod under
    /// `Never` (the same).
    VirtualRejects,
    /// A kubelet beside which OpenKruise's daemon runs.
    Daemon,
    /// A virtual node of which nothing is known, or a node that cannot be looked at.
    Unknown,
}

/// What a node is taken for before anything was proved on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Recognised {
    /// Its class.
    pub class: NodeClass,
    /// The row of the table that matched, also where the node says its class itself: budgets hold
    /// all the same.
    pub row: Option<Arc<Row>>,
    /// What told the class.
    pub why: Why,
    /// What is wrong with the node's own [`OVERRIDE`], and how to mend it.
    pub problem: Option<Box<str>>,
}

/// What told the class of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The node itself, by its label or annotation.
    Own(&'static str),
    /// A row of the table, by this condition.
    Row(Box<str>),
    /// No row matches.
    Ordinary,
    /// The node cannot be looked at.
    NotSeen,
}

impl NodeClass {
    /// Every class, in the order of the enum.
    pub const ALL: [Self; 6] = [
        Self::Kubelet,
        Self::VirtualUpdates,
        Self::VirtualInert,
        Self::VirtualRejects,
        Self::Daemon,
        Self::Unknown,
    ];
    /// Those that a node can say of itself: the daemon shows itself by its pod, and nobody needs to
    /// say that he does not know.
    const OWN: [Self; 4] = [
        Self::Kubelet,
        Self::VirtualUpdates,
        Self::VirtualInert,
        Self::VirtualRejects,
    ];

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kubelet => "Kubelet",
            Self::VirtualUpdates => "VirtualUpdates",
            Self::VirtualInert => "VirtualInert",
            Self::VirtualRejects => "VirtualRejects",
            Self::Daemon => "Daemon",
            Self::Unknown => "Unknown",
        }
    }

    /// Whether a kubelet runs the pods of the node.
    #[must_use]
    pub const fn is_kubelet(self) -> bool {
        matches!(self, Self::Kubelet | Self::Daemon)
    }

    /// Whether the node is said to restart the container whose image changes.
    #[must_use]
    pub const fn updates(self) -> bool {
        matches!(self, Self::Kubelet | Self::VirtualUpdates | Self::Daemon)
    }
}

impl fmt::Display for NodeClass {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl Recognised {
    /// Recognises a node that was seen.
    #[must_use]
    pub fn of(node: &Node, table: &NodeTable) -> Self {
        let found = table.find(node);
        let (row, why) = match found {
            Some((row, condition)) => (Some(row), Why::Row(condition)),
            None => (None, Why::Ordinary),
        };
        let class = row.as_ref().map_or(NodeClass::Kubelet, |row| row.class);
        match own_class(node) {
            None => Self {
                class,
                row,
                why,
                problem: None,
            },
            Some((place, Ok(class))) => Self {
                class,
                row,
                why: Why::Own(place),
                problem: None,
            },
            Some((place, Err(written))) => Self {
                class,
                row,
                why,
                problem: Some(problem(place, written)),
            },
        }
    }

    /// Recognises a node that cannot be looked at: only rows that go by the name alone can tell.
    #[must_use]
    pub fn by_name(name: &str, table: &NodeTable) -> Self {
        let (row, why) = match table.find_by_name(name) {
            Some((row, condition)) => (Some(row), Why::Row(condition)),
            None => (None, Why::NotSeen),
        };
        Self {
            class: row.as_ref().map_or(NodeClass::Unknown, |row| row.class),
            row,
            why,
            problem: None,
        }
    }

    /// The provider, as it is called in tables and Events; `None` for an ordinary node.
    #[must_use]
    pub fn provider(&self) -> Option<&str> {
        self.row.as_ref().map(|row| &*row.provider)
    }

    /// Whether pods of the node may be run by a kubelet: its row or its own mark says so, or nobody
    /// can look.
    #[must_use]
    pub fn may_be_kubelet(&self) -> bool {
        self.class.is_kubelet() || self.why == Why::NotSeen
    }

    /// Whether the platform itself ends containers with `ECI_CONTAINER_TYPE=sidecar`.
    #[must_use]
    pub fn ends_eci_sidecars(&self) -> bool {
        self.row.as_ref().is_some_and(|row| row.ends_eci_sidecars)
    }

    /// Whether the vendor of the node carries out requests with OpenKruise's label for virtual
    /// nodes; taken for granted where no row says otherwise.
    #[must_use]
    pub fn vendor_restarts(&self) -> bool {
        self.row.as_ref().is_none_or(|row| row.vendor_restarts)
    }
}

/// What the node says of itself, and where.
fn own_class(node: &Node) -> Option<(&'static str, Result<NodeClass, &str>)> {
    let places = [("label", &node.labels), ("annotation", &node.annotations)];
    places.into_iter().find_map(|(place, marks)| {
        let written = &**marks.get(OVERRIDE)?;
        Some((
            place,
            NodeClass::OWN
                .into_iter()
                .find(|class| class.as_str() == written)
                .ok_or(written),
        ))
    })
}

fn problem(place: &str, written: &str) -> Box<str> {
    let known = NodeClass::OWN.map(NodeClass::as_str).join(", ");
    let written: String = written.chars().take(80).collect();
    format!("{place} {OVERRIDE} is {written:?}, which is none of {known}; until it is, the table tells the class").into()
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(place) => write!(out, "{place} {OVERRIDE}"),
            Self::Row(condition) => out.write_str(condition),
            Self::Ordinary => out.write_str("an ordinary node: no row of the table matches"),
            Self::NotSeen => out.write_str("the node cannot be looked at"),
        }
    }
}
