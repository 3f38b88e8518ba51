//! The SidecarPolicies of the cluster, as an installation reads them.

use std::collections::BTreeMap;

use kube::Client;
use serde::Serialize;
use swaplet_controller::terminate::policies::Known;
use swaplet_controller::terminate::snapshot::policies::{Listed, store};
use swaplet_core::image::pattern::matches_any_run;
use swaplet_core::objects::sidecar_policy::{PolicyKind, SidecarPolicy, Subject};
use swaplet_core::objects::values::bounds::cut;
use swaplet_core::policies::presets;

use super::installation::Flags;

/// The maximum number of policies that are shown one by one.
const MOST: usize = 200;
/// The maximum number of reasons per policy, and their maximum length.
const MOST_REASONS: usize = 16;
const LONGEST_REASON: usize = 64;

/// The policies that were read.
#[derive(Debug, Default)]
pub(super) struct Policies {
    /// True if the installation ends the sidecars that they name.
    pub(super) are_on: bool,
    pub(super) all: Vec<Policy>,
    pub(super) count: usize,
    /// The kinds that the API server does not serve.
    pub(super) missing: Vec<&'static str>,
    /// What could not be read.
    pub(super) unread: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Policy {
    #[serde(rename = "policy")]
    pub(super) place: String,
    /// True if its status is about the current generation.
    #[serde(rename = "seen")]
    pub(super) is_seen: bool,
    /// The installation that writes its status, by its state namespace, where that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) installation: Option<String>,
    /// True if it applies to no pod at all.
    #[serde(skip)]
    pub(super) is_invalid: bool,
    pub(super) matched: u64,
    pub(super) ended: u64,
    pub(super) refused: BTreeMap<String, u64>,
    /// Its parts without effect, each with the fix.
    pub(super) problems: Vec<String>,
    /// The containers that it names, each with its index in `spec.sidecars`.
    #[serde(skip)]
    pub(super) names: Vec<(usize, String)>,
}

pub(super) async fn read(client: &Client, flags: &Flags) -> Policies {
    let namespace = match flags.namespaces() {
        [one] => Some(one.as_str()),
        _ => None,
    };
    let listed = Listed::read(client, namespace, false).await;
    let missing = listed.missing.iter().map(|kind| kind.plural()).collect();
    let unread = listed.remarks.lines();
    let store = store(listed, &flags.exit_images());
    let own = flags.one("state-namespace").unwrap_or_default();
    let policy = |known| Policy::of(known, own);
    // Of several namespaces those of all are listed.
    let is_read = |known: &&Known| {
        let namespace = &known.policy.namespace;
        namespace.is_empty() || flags.works_in(namespace)
    };
    let all: Vec<_> = store.all().filter(is_read).collect();
    Policies {
        are_on: flags.reads_policies(),
        count: all.len(),
        all: all.into_iter().take(MOST).map(policy).collect(),
        missing,
        unread,
    }
}

impl Policies {
    /// Returns the kinds that are needed, and whether each is served.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let needed = PolicyKind::ALL.into_iter().filter(move |_| self.are_on);
        needed.map(move |kind| (kind.plural(), !self.missing.contains(&kind.plural())))
    }

    /// Returns the names of containers that the admission policies open only if the pod or its
    /// namespace is annotated, each with the policy; `opened` are names and patterns.
    pub(super) fn not_opened(&self, opened: &[String]) -> Vec<String> {
        let is_open = |name: &str| {
            let mut patterns = opened.iter();
            patterns.any(|pattern| matches_any_run(pattern, name))
        };
        let of_policy = |policy: &Policy| {
            let closed = policy.names.iter().filter(|(_, name)| !is_open(name));
            let words = |(nth, name): &(usize, String)| {
                format!("{name} ({}, sidecars[{nth}])", policy.place)
            };
            closed.map(words).collect::<Vec<_>>()
        };
        self.all.iter().flat_map(of_policy).collect()
    }
}

impl Policy {
    fn of(known: &Known, own: &str) -> Self {
        let (policy, status) = (&known.policy, &known.status);
        let number = |field: &str| status[field].as_u64().unwrap_or_default();
        let refused = status["refused"].as_array().into_iter().flatten();
        let refused = refused.take(MOST_REASONS).filter_map(|refused| {
            let reason = cut(refused["reason"].as_str()?, LONGEST_REASON);
            Some((reason, refused["count"].as_u64()?))
        });
        let installation = status["installation"].as_str();
        let other = installation.filter(|name| !name.is_empty() && *name != own);
        Self {
            place: policy.place(),
            installation: other.map(|name| cut(name, LONGEST_REASON)),
            is_seen: status["observedGeneration"].as_i64() == Some(policy.generation),
            is_invalid: policy.rules.is_empty(),
            matched: number("matched"),
            ended: number("ended"),
            refused: refused.collect(),
            problems: known.problems.clone(),
            names: names(policy),
        }
    }
}

/// Returns the container names of its rules; a rule that matches by image alone has every name.
fn names(policy: &SidecarPolicy) -> Vec<(usize, String)> {
    let of_rule = |subject: &Subject| match subject {
        Subject::Preset(preset) => presets::named(preset)
            .map(|preset| preset.containers.clone())
            .unwrap_or_default(),
        Subject::Named { name, .. } => {
            vec![name.as_deref().unwrap_or("*").to_owned()]
        }
    };
    let rules = policy.rules.iter();
    rules
        .flat_map(|rule| {
            of_rule(&rule.subject)
                .into_iter()
                .map(|name| (rule.nth, name))
        })
        .collect()
}
