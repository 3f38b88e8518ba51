//! The `PodDisruptionBudget`s of a namespace that cover pods to be restarted.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ListParams;
use kube::core::{Selector, SelectorExt};
use kube::{Api, Client, ResourceExt};
use swaplet_core::objects::pod::wire::brief::PodBriefWire;
use swaplet_core::restart::rollout::{Budget, Covered};

use crate::frame::list::{list_with, words};

/// A reader of disruption budgets.
pub struct DisruptionBudgets {
    /// The client for the API server.
    pub client: Client,
    /// The namespace.
    pub namespace: String,
}

/// What remains of each budget, with the selectors of the pods that it covers.
#[derive(Default)]
pub struct Left {
    /// The budgets.
    pub budgets: Vec<Budget>,
    selectors: Vec<Selector>,
}

/// The reason why it is unknown what remains of the budgets.
#[derive(Debug, thiserror::Error)]
pub enum BudgetsUnknown {
    /// The budgets cannot be listed; the error of the API server.
    #[error("cannot list PodDisruptionBudgets: {0}")]
    Budgets(String),
    /// The pods of a budget cannot be listed; the error of the API server.
    #[error("cannot list the pods of a PodDisruptionBudget: {0}")]
    Pods(String),
    /// The budget of this name has an invalid selector.
    #[error("PodDisruptionBudget {0}: spec.selector: {1}")]
    Selector(String, String),
}

impl Left {
    /// Returns the indexes of the budgets that cover pods with these labels.
    #[must_use]
    pub fn covering(&self, labels: &BTreeMap<String, String>) -> Vec<usize> {
        (0..self.selectors.len())
            .filter(|index| self.selectors[*index].matches(labels))
            .collect()
    }
}

impl DisruptionBudgets {
    /// Reads the budgets that cover pods with any of these labels; `restarting` are the uids of
    /// pods that are being restarted.
    ///
    /// # Errors
    /// Returns [`BudgetsUnknown`] if a budget or its pods cannot be read.
    pub async fn read(
        &self,
        waiting: &[&BTreeMap<String, String>],
        restarting: &BTreeSet<String>,
    ) -> Result<Left, BudgetsUnknown> {
        let mut left = Left::default();
        if waiting.is_empty() {
            return Ok(left);
        }
        let api: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), &self.namespace);
        let budgets = list_with(&api, ListParams::default(), Some)
            .await
            .map_err(|error| BudgetsUnknown::Budgets(words(&error)))?;
        for budget in budgets {
            let Some(selector) = selector(&budget)? else {
                continue;
            };
            if waiting.iter().any(|labels| selector.matches(labels)) {
                left.budgets
                    .push(self.count(&budget, &selector, restarting).await?);
                left.selectors.push(selector);
            }
        }
        Ok(left)
    }

    async fn count(
        &self,
        budget: &PodDisruptionBudget,
        selector: &Selector,
        restarting: &BTreeSet<String>,
    ) -> Result<Budget, BudgetsUnknown> {
        let mut covered = reported(budget);
        let api: Api<PodBriefWire> = Api::namespaced(self.client.clone(), &self.namespace);
        let parameters = ListParams::default().labels_from(selector);
        let pods = list_with(&api, parameters, |pod| {
            let pod = pod.read();
            Some((restarting.contains(&*pod.uid), pod.ready && !pod.deleting))
        })
        .await;
        let pods = pods.map_err(|error| BudgetsUnknown::Pods(words(&error)))?;
        covered.restarting = pods.iter().filter(|(restarting, _)| *restarting).count();
        covered.healthy = pods.iter().filter(|pod| **pod == (false, true)).count();
        Ok(Budget::of(&budget.name_any(), &covered))
    }
}

/// Returns true if the condition Ready is True.
#[must_use]
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Returns the selector of a budget: none covers no pod, an empty one covers all (`policy/v1`).
fn selector(budget: &PodDisruptionBudget) -> Result<Option<Selector>, BudgetsUnknown> {
    let selector: Option<&LabelSelector> =
        budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let selector = selector.map(|selector| Selector::try_from(selector.clone()));
    selector
        .transpose()
        .map_err(|error| BudgetsUnknown::Selector(budget.name_any(), error.to_string()))
}

/// Reads the counts from the status of a budget.
fn reported(budget: &PodDisruptionBudget) -> Covered {
    let Some(status) = &budget.status else {
        return Covered {
            is_outdated: true,
            ..Covered::default()
        };
    };
    let number = |count: i32| usize::try_from(count).unwrap_or_default();
    let conditions = status.conditions.iter().flatten();
    Covered {
        is_outdated: status.observed_generation.unwrap_or_default()
            < budget.metadata.generation.unwrap_or_default(),
        sync_failed: conditions.into_iter().any(|condition| {
            condition.type_ == "DisruptionAllowed" && condition.reason == "SyncFailed"
        }),
        always_allows_unready: budget
            .spec
            .as_ref()
            .and_then(|spec| spec.unhealthy_pod_eviction_policy.as_deref())
            == Some("AlwaysAllow"),
        disruptions_allowed: number(status.disruptions_allowed),
        desired_healthy: number(status.desired_healthy),
        disrupted: status
            .disrupted_pods
            .as_ref()
            .map_or(0, std::collections::BTreeMap::len),
        ..Covered::default()
    }
}
