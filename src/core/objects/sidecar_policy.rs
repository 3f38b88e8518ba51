//! `SidecarPolicy` and `NamespacedSidecarPolicy`: which containers are sidecars although they are
//! not marked, and how and when they are ended.
//!
//! Reading never fails as a whole: a rule that cannot be used is a problem, which the status of its
//! policy reports, and the others count. Selectors are not guessed: if one cannot be read, the
//! policy matches no pod.

mod wire;

use kube_core::{ApiResource, GroupVersionKind, Selector};

use super::pod::SidecarRule;

/// The API group of the policies.
pub const GROUP: &str = "swaplet.io";
/// The API version of the policies.
pub const VERSION: &str = "v1alpha1";

/// The kind of owner that stands for pods without a controller.
pub const NO_OWNER: &str = "None";
/// The kind of owner that stands for every pod, with or without a controller.
pub const ANY_OWNER: &str = "*";

/// Namespaces in which no policy counts, and to whose pods nothing is written, as in the admission
/// policies (`deploy/leash.yaml`).
pub const CLOSED: [&str; 1] = ["kube-system"];

/// The most rules of a policy.
pub const MOST_RULES: usize = 32;
/// The most kinds of owners.
pub const MOST_OWNER_KINDS: usize = 16;

/// The two kinds of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyKind {
    /// `NamespacedSidecarPolicy`, for pods of its own namespace; it outranks the other kind.
    Namespaced,
    /// `SidecarPolicy`, for pods of any namespace.
    Cluster,
}

impl PolicyKind {
    /// Both kinds, the one that outranks the other first.
    pub const ALL: [Self; 2] = [Self::Namespaced, Self::Cluster];

    /// Returns the name of the kind.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Namespaced => "NamespacedSidecarPolicy",
            Self::Cluster => "SidecarPolicy",
        }
    }

    /// Returns the name of the resource, in the plural.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Namespaced => "namespacedsidecarpolicies",
            Self::Cluster => "sidecarpolicies",
        }
    }

    /// Returns the resource as a client needs it.
    pub fn resource(self) -> ApiResource {
        let kind = GroupVersionKind::gvk(GROUP, VERSION, self.kind());
        ApiResource::from_gvk_with_plural(&kind, self.plural())
    }
}

/// A policy as it is cached.
#[derive(Clone, Debug)]
pub struct SidecarPolicy {
    /// Its kind.
    pub kind: PolicyKind,
    /// `metadata.namespace`; empty for a `SidecarPolicy`.
    pub namespace: Box<str>,
    /// `metadata.name`
    pub name: Box<str>,
    /// `metadata.uid`
    pub uid: Box<str>,
    /// `metadata.generation`
    pub generation: i64,
    /// `spec.namespaceSelector`; `None`: all namespaces.
    pub namespaces: Option<Selector>,
    /// `spec.podSelector`
    pub pods: Selector,
    /// `spec.ownerKinds`
    pub owner_kinds: Vec<Box<str>>,
    /// `spec.sidecars`, as far as it can be used; empty if the policy matches no pod.
    pub rules: Vec<PolicyRule>,
    /// The problems with its fields, and their fixes; at most
    /// [`MOST_PROBLEMS`](crate::objects::values::problems::MOST_PROBLEMS).
    pub problems: Vec<String>,
    /// `status.ended`, on which later values build.
    pub ended: u64,
}

impl SidecarPolicy {
    /// Returns the kind and name: `SidecarPolicy mesh`, `NamespacedSidecarPolicy team-a/mesh`.
    pub fn place(&self) -> String {
        let (kind, name) = (self.kind.kind(), &self.name);
        match self.kind {
            PolicyKind::Namespaced => format!("{kind} {}/{name}", self.namespace),
            PolicyKind::Cluster => format!("{kind} {name}"),
        }
    }
}

/// One of `spec.sidecars`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRule {
    /// Its position in the list, from 0 on.
    pub nth: usize,
    /// The containers that the rule matches.
    pub subject: Subject,
    /// How these are ended, and when.
    pub ending: SidecarRule,
}

/// The containers that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The containers of the preset with this name.
    Preset(Box<str>),
    /// The containers with this name and this image, in both of which `*` stands for any
    /// characters; at least one of the two is set.
    Named {
        /// `name`
        name: Option<Box<str>>,
        /// `image`
        image: Option<Box<str>>,
    },
}
