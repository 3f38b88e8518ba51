//! The `PodDisruptionBudget`s of a namespace that cover pods to be restarted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ListParams;
use kube::core::{Selector, SelectorExt};
use kube::{Api, Client, ResourceExt};
use swaplet_core::objects::pod::brief::PodBriefWire;
use swaplet_core::objects::values::whole_object::WholeObject;
use swaplet_core::restart::rollout::{Budget, Covered};

use crate::frame::list::{list_with, words};

/// The maximum number of budgets that are counted at once. Pods of one owner have few: the eviction
/// API refuses a pod that two of them cover.
const MOST_BUDGETS: usize = 16;

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
    /// The budget of this name cannot be read.
    #[error("PodDisruptionBudget {0} cannot be read: it is too large, or a time in it is too late")]
    Unreadable(String),
    /// This many budgets cover the pods.
    #[error(
        "{0} PodDisruptionBudgets cover the pods to be restarted, and at most {MOST_BUDGETS} are counted: delete some, or narrow their selectors"
    )]
    TooMany(usize),
    /// Not all was read in time.
    #[error("PodDisruptionBudgets and their pods were not listed within {} s", .0.as_secs())]
    Late(Duration),
}

/// A budget that covers pods to be restarted: its name, its selector and the counts of its status.
type Selected = (String, Selector, Covered);

impl Left {
    /// Returns the indexes of the budgets that cover pods with these labels.
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
    /// Returns [`BudgetsUnknown`] if a budget or its pods cannot be read, or too many cover them.
    pub async fn read(
        &self,
        waiting: &[&BTreeMap<String, String>],
        restarting: &BTreeSet<String>,
    ) -> Result<Left, BudgetsUnknown> {
        let mut left = Left::default();
        if waiting.is_empty() {
            return Ok(left);
        }
        let selected = self.select(waiting).await?;
        if selected.len() > MOST_BUDGETS {
            return Err(BudgetsUnknown::TooMany(selected.len()));
        }
        let pods = self.list_pods(&selected, restarting).await?;
        for (index, (name, selector, mut covered)) in selected.into_iter().enumerate() {
            for (_, restarting, healthy) in pods.iter().filter(|pod| pod.0.contains(&index)) {
                covered.restarting += restarting;
                covered.healthy += healthy;
            }
            left.budgets.push(Budget::of(&name, &covered));
            left.selectors.push(selector);
        }
        Ok(left)
    }

    /// Returns the budgets that cover pods with any of these labels.
    async fn select(
        &self,
        waiting: &[&BTreeMap<String, String>],
    ) -> Result<Vec<Selected>, BudgetsUnknown> {
        let api: Api<WholeObject<PodDisruptionBudget>> =
            Api::namespaced(self.client.clone(), &self.namespace);
        let read = |budget: WholeObject<PodDisruptionBudget>| {
            let name = budget.name_any();
            let Some(budget) = budget.read() else {
                return Some(Err(BudgetsUnknown::Unreadable(name)));
            };
            match selector(&budget) {
                Ok(selector) => {
                    let selector = selector?;
                    let covers = waiting.iter().any(|labels| selector.matches(labels));
                    covers.then(|| Ok((name, selector, reported(&budget))))
                }
                Err(error) => Some(Err(error)),
            }
        };
        let selected = list_with(&api, ListParams::default(), read).await;
        let selected = selected.map_err(|error| BudgetsUnknown::Budgets(words(&error)))?;
        selected.into_iter().collect()
    }

    /// Returns the pods that these budgets cover, each with the indexes of the budgets, and whether it
    /// counts as restarting (0 or 1) or as healthy. One list for each budget would take longer the
    /// more of them a tenant makes.
    async fn list_pods(
        &self,
        selected: &[Selected],
        restarting: &BTreeSet<String>,
    ) -> Result<Vec<(Vec<usize>, usize, usize)>, BudgetsUnknown> {
        let parameters = match selected {
            [] => return Ok(Vec::new()),
            [(_, only, _)] => ListParams::default().labels_from(only),
            _ => ListParams::default(),
        };
        let api: Api<PodBriefWire> = Api::namespaced(self.client.clone(), &self.namespace);
        let pods = list_with(&api, parameters, |pod| {
            let pod = pod.read()?;
            let labels = pod.labels.into_iter();
            let labels = labels.map(|(key, value)| (key.into(), value.into()));
            let labels = labels.collect::<BTreeMap<String, String>>();
            let covers = |index: &usize| selected[*index].1.matches(&labels);
            let budgets: Vec<usize> = (0..selected.len()).filter(covers).collect();
            let is_restarting = restarting.contains(&*pod.uid);
            let is_healthy = !is_restarting && pod.ready && !pod.deleting;
            (!budgets.is_empty()).then(|| (budgets, is_restarting.into(), is_healthy.into()))
        });
        pods.await
            .map_err(|error| BudgetsUnknown::Pods(words(&error)))
    }
}

/// Returns true if the condition Ready is True.
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
