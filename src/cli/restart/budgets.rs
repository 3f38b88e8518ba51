//! The `PodDisruptionBudget`s of a namespace, as far as they cover pods that are to be restarted.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ListParams;
use kube::core::{Selector, SelectorExt};
use kube::{Api, Client, ResourceExt};

use super::answer::plain;
use super::group::is_ready;
use crate::controller::list::list_with;
use crate::decide::rollout::{Budget, Covered};

/// Where budgets are looked for.
pub(super) struct Budgets {
    pub(super) client: Client,
    pub(super) namespace: String,
    /// Whether they count at all.
    pub(super) respected: bool,
}

/// What is left of each budget, and how it is told which pods it covers.
#[derive(Default)]
pub(super) struct Left {
    pub(super) budgets: Vec<Budget>,
    selectors: Vec<Selector>,
}

impl Left {
    /// The positions of the budgets that cover pods with these labels.
    pub(super) fn covering(&self, labels: &BTreeMap<String, String>) -> Vec<usize> {
        (0..self.selectors.len()).filter(|index| self.selectors[*index].matches(labels)).collect()
    }
}

impl Budgets {
    /// Looks at those that cover any of these pods.
    pub(super) async fn look(&self, waiting: &[Pod], restarting: &BTreeSet<String>) -> anyhow::Result<Left> {
        let mut left = Left::default();
        if !self.respected || waiting.is_empty() {
            return Ok(left);
        }
        for budget in self.list().await? {
            let Some(selector) = selector(&budget)? else { continue };
            if waiting.iter().any(|pod| selector.matches(pod.labels())) {
                left.budgets.push(self.count(&budget, &selector, restarting).await?);
                left.selectors.push(selector);
            }
        }
        Ok(left)
    }

    async fn list(&self) -> anyhow::Result<Vec<PodDisruptionBudget>> {
        let api: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), &self.namespace);
        list_with(&api, ListParams::default(), Some)
            .await
            .map_err(plain)
            .context("cannot list PodDisruptionBudgets (--ignore-disruption-budgets goes on without them)")
    }

    async fn count(&self, budget: &PodDisruptionBudget, selector: &Selector, restarting: &BTreeSet<String>) -> anyhow::Result<Budget> {
        let mut covered = told(budget);
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let is_restarting = |pod: &Pod| pod.metadata.uid.as_ref().is_some_and(|uid| restarting.contains(uid));
        let is_healthy = |pod: &Pod| is_ready(pod) && pod.metadata.deletion_timestamp.is_none();
        let parameters = ListParams::default().labels_from(selector);
        let pods = list_with(&api, parameters, |pod| Some((is_restarting(&pod), is_healthy(&pod)))).await;
        let pods = pods.map_err(plain).context("cannot list the pods of a PodDisruptionBudget")?;
        covered.restarting = pods.iter().filter(|(restarting, _)| *restarting).count();
        covered.healthy = pods.iter().filter(|pod| **pod == (false, true)).count();
        Ok(Budget::of(&budget.name_any(), &covered))
    }
}

/// No selector covers nothing, an empty one everything (`policy/v1`).
fn selector(budget: &PodDisruptionBudget) -> anyhow::Result<Option<Selector>> {
    let selector: Option<&LabelSelector> = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let selector = selector.map(|selector| Selector::try_from(selector.clone()));
    selector.transpose().with_context(|| format!("PodDisruptionBudget {}: spec.selector", budget.name_any()))
}

/// What the budget itself says.
fn told(budget: &PodDisruptionBudget) -> Covered {
    let Some(status) = &budget.status else { return Covered { is_outdated: true, ..Covered::default() } };
    let number = |count: i32| usize::try_from(count).unwrap_or_default();
    let conditions = status.conditions.iter().flatten();
    Covered {
        is_outdated: status.observed_generation.unwrap_or_default() < budget.metadata.generation.unwrap_or_default(),
        sync_failed: conditions.into_iter().any(|condition| condition.type_ == "DisruptionAllowed" && condition.reason == "SyncFailed"),
        always_allows_unready: budget.spec.as_ref().and_then(|spec| spec.unhealthy_pod_eviction_policy.as_deref()) == Some("AlwaysAllow"),
        disruptions_allowed: number(status.disruptions_allowed),
        desired_healthy: number(status.desired_healthy),
        disrupted: status.disrupted_pods.as_ref().map_or(0, std::collections::BTreeMap::len),
        ..Covered::default()
    }
}
