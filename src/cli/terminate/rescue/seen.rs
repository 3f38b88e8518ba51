//! What is read of the pods: those that wait for sidecars, and those that wait for what nothing
//! marks as one.

use std::collections::BTreeSet;

use anyhow::{anyhow, bail};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod as WholePod;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::frame::clock::time_of_day;
use swaplet_controller::frame::list::{api_in, list_with, words};
use swaplet_controller::frame::remarks::{Remarks, is_forbidden};
use swaplet_controller::terminate::snapshot::policies::PodPolicies;
use swaplet_controller::terminate::snapshot::{Scope, Snapshot, pods};
use swaplet_core::objects::pod::Pod;
use swaplet_core::objects::values::whole_object::WholeObject;
use swaplet_core::policies::suggest::Stuck as UnmarkedPod;
use swaplet_core::report::shell_word::shell_word;
use swaplet_edge::client::place_of;

use super::given::GivenArgs;
use super::rows::Stuck;
use super::typed::Typed;
use crate::cli::program::process::slowly;
use crate::cli::terminate::explain::target::Target;
use crate::cli::terminate::unmarked::{Unmarked, namespace_flag};

/// The pods that the command line means.
pub(super) struct Seen {
    pub(super) snapshot: Snapshot,
    pub(super) stuck: Vec<Stuck>,
    pub(super) unmarked: Unmarked,
}

/// The pods to read, and those of them that the command line means.
pub(super) struct Pods<'a> {
    pub(super) scope: &'a Scope,
    pub(super) targets: &'a [Target],
    pub(super) selector: Option<&'a str>,
    /// What makes containers sidecars beside their marks.
    pub(super) given: &'a GivenArgs,
    /// The flags of the call.
    pub(super) typed: &'a Typed,
}

impl Pods<'_> {
    /// Reads the pods, and what decisions about them depend on.
    ///
    /// # Errors
    /// The pods cannot be listed, or none of those that are named is stuck.
    pub(super) async fn read(
        &self,
        client: &Client,
        rules: &Rules,
        policies: &mut PodPolicies,
        remarks: &mut Remarks,
    ) -> anyhow::Result<Seen> {
        let namespace = self.scope.namespace.as_deref();
        let place = place_of(namespace);
        let names: Vec<_> = self.targets.iter().map(Target::argument).collect();
        let matched = match (self.selector, names.is_empty()) {
            (Some(selector), _) => format!(" that -l {selector} matches"),
            (None, false) => format!(" among {}", names.join(", ")),
            (None, true) => String::new(),
        };
        let reading = self.take(client, rules, policies, &place);
        let (seen, those) = slowly(&format!("reading the pods of {place}"), reading).await?;
        remarks.extend(seen.snapshot.remarks());
        self.given.are_left(&those, &rules.exit_images)?;
        self.check(client, &seen, &those, remarks).await?;
        let unmarked = seen.unmarked.words(&self.as_arguments());
        match (seen.stuck.is_empty(), &unmarked) {
            (true, None) => say!("No pod of {place}{matched} waits for its sidecars."),
            (true, Some(_)) => {
                say!("No pod of {place}{matched} waits for a sidecar that is marked.")
            }
            _ => {}
        }
        if let Some(words) = unmarked {
            remarks.push(words);
        }
        if seen.stuck.iter().any(|stuck| stuck.said) {
            remarks.push("swaplet has written Events about some of these pods: where a controller still runs, swaplet explain says what it waits for");
        }
        Ok(seen)
    }

    /// Returns what names these pods on a command line, with the flags that were typed.
    fn as_arguments(&self) -> String {
        let targets = self.targets.iter().map(Target::argument);
        let mut words: Vec<_> = targets.map(|target| shell_word(&target)).collect();
        words.push(namespace_flag(self.scope.namespace.as_deref()));
        words.extend(self.typed.0.iter().cloned());
        words.join(" ")
    }

    /// Also returns all pods that are meant.
    async fn take(
        &self,
        client: &Client,
        rules: &Rules,
        policies: &mut PodPolicies,
        place: &str,
    ) -> anyhow::Result<(Seen, Vec<Pod>)> {
        let pods = pods(client, self.scope, policies).await;
        let is_wide = self.scope.namespace.is_none();
        let pods = pods.map_err(|error| {
            let hint = match is_wide && is_forbidden(&error) {
                true => "; -n NAMESPACE needs the right for one namespace only",
                false => "",
            };
            anyhow!("cannot list the pods of {place}: {}{hint}", words(&error))
        })?;
        let matched = match self.selector {
            Some(selector) => {
                Some(selected(client, self.scope.namespace.as_deref(), selector).await?)
            }
            None => None,
        };
        let is_meant = |pod: &&Pod| {
            let by_name =
                self.targets.is_empty() || self.targets.iter().any(|target| is(target, pod));
            let matched = matched.as_ref();
            by_name && matched.is_none_or(|matched| matched.contains(&*pod.uid))
        };
        let those: Vec<Pod> = pods.iter().filter(is_meant).cloned().collect();
        let (now, least) = (time_of_day(), SignedDuration::ZERO);
        let unmarked = Unmarked::among(&those, now, least, policies.are_unread());
        let snapshot = Snapshot::of_pods(client, rules.clone(), self.scope, pods).await;
        let mut stuck = Stuck::all(&snapshot);
        stuck.retain(|stuck| is_meant(&&stuck.pod));
        let seen = Seen {
            snapshot,
            stuck,
            unmarked,
        };
        Ok((seen, those))
    }

    /// Reports each target that does not wait for sidecars.
    async fn check(
        &self,
        client: &Client,
        seen: &Seen,
        those: &[Pod],
        remarks: &mut Remarks,
    ) -> anyhow::Result<()> {
        let mut missing = Vec::new();
        for target in self.targets {
            let is_unmarked = |pod: &UnmarkedPod| target.has(&pod.name, pod.job.as_deref());
            if seen.stuck.iter().any(|stuck| is(target, &stuck.pod))
                || seen.unmarked.pods.iter().any(is_unmarked)
            {
                continue;
            }
            missing.push(match those.iter().any(|pod| is(target, pod)) {
                true => format!(
                    "{} does not wait for sidecars: swaplet explain says what it does",
                    target.words()
                ),
                false => {
                    let namespace = self.scope.namespace.as_deref();
                    target.missing(client, namespace.unwrap_or_default()).await
                }
            });
        }
        if !missing.is_empty() && missing.len() == self.targets.len() {
            bail!("{}", missing.join("; "));
        }
        missing.into_iter().for_each(|words| remarks.push(words));
        Ok(())
    }
}

fn is(target: &Target, pod: &Pod) -> bool {
    target.has(&pod.name, pod.job.as_ref().map(|job| &*job.name))
}

/// Returns the uids of the pods that a label selector matches.
async fn selected(
    client: &Client,
    namespace: Option<&str>,
    selector: &str,
) -> anyhow::Result<BTreeSet<String>> {
    let api: Api<WholeObject<PartialObjectMeta<WholePod>>> = api_in(client, namespace);
    let uid = |pod: WholeObject<PartialObjectMeta<WholePod>>| pod.read()?.metadata.uid;
    let matched = list_with(&api, ListParams::default().labels(selector), uid).await;
    let matched = matched.map_err(|error| anyhow!("-l {selector}: {}", words(&error)))?;
    Ok(matched.into_iter().collect())
}
