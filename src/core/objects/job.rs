//! The Job of a pod, reduced to what decisions need: its identity, and how many restarts it allows.

use serde::Deserialize;

use super::item::{FromView, Item, View};
use super::pod::Owner;
use super::values::fields::{List, Present, Text};

/// The limit if a Job sets none: the API server's own default (Kubernetes:
/// `pkg/apis/batch/v1/defaults.go`).
const DEFAULT_BACKOFF_LIMIT: u32 = 6;

/// A Job as it is cached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// `metadata.uid`
    pub uid: Box<str>,
    /// `metadata.namespace`; empty if it is unknown.
    pub namespace: Box<str>,
    /// `spec.backoffLimit`
    pub backoff_limit: u32,
    /// How many more of its pods may fail before it does: 0 where failures count by index, or a rule
    /// may let one of them end the Job or its index.
    pub failures_borne: u32,
}

/// The Job that controls a pod, as the pod names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRef {
    /// `uid` of the owner reference.
    pub uid: Box<str>,
    /// `name` of the owner reference; empty if it is too long to be that of a Job.
    pub name: Box<str>,
}

/// A Job of a list or watch.
pub type JobWire = Item<Job>;

/// `spec` of a Job.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpecView {
    backoff_limit: Option<i64>,
    backoff_limit_per_index: Present,
    pod_failure_policy: Option<Box<FailurePolicyView>>,
}

/// `podFailurePolicy` of a Job.
#[derive(Default, Deserialize)]
#[serde(default)]
struct FailurePolicyView {
    rules: List<FailureRuleView>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FailureRuleView {
    action: Text,
}

/// `status` of a Job.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatusView {
    failed: Option<i64>,
    uncounted_terminated_pods: Option<UncountedView>,
}

/// `status.uncountedTerminatedPods` of a Job: pods that it is about to count.
#[derive(Default, Deserialize)]
#[serde(default)]
struct UncountedView {
    failed: List<Text>,
}

impl FromView for Job {
    type Kind = k8s_openapi::api::batch::v1::Job;
    type View = View<JobSpecView, JobStatusView>;

    /// `None` if it has no uid, or a limit that is no number from 0 on: nothing is assumed about such
    /// a Job.
    fn of(job: Self::View) -> Option<Self> {
        let backoff_limit = match job.spec.backoff_limit {
            None => DEFAULT_BACKOFF_LIMIT,
            Some(limit) => u32::try_from(limit).ok()?,
        };
        Some(Self {
            failures_borne: failures_borne(&job, backoff_limit),
            uid: job.metadata.uid.filled()?,
            namespace: job.metadata.namespace.value.unwrap_or_default(),
            backoff_limit,
        })
    }
}

fn failures_borne(job: &View<JobSpecView, JobStatusView>, limit: u32) -> u32 {
    let policy = job.spec.pod_failure_policy.as_deref();
    let ends = |rule: &FailureRuleView| !matches!(rule.action.as_deref(), Some("Ignore" | "Count"));
    let may_end_at_once =
        policy.is_some_and(|policy| policy.rules.too_long || policy.rules.iter().any(ends));
    if may_end_at_once || job.spec.backoff_limit_per_index.0 {
        return 0;
    }
    let uncounted = match &job.status.uncounted_terminated_pods {
        Some(pods) if pods.failed.too_long => return 0,
        Some(pods) => pods.failed.items.len(),
        None => 0,
    };
    let failed = u32::try_from(job.status.failed.unwrap_or_default());
    let left = failed.map_or(0, |failed| limit.saturating_sub(failed));
    left.saturating_sub(u32::try_from(uncounted).unwrap_or(u32::MAX))
}

/// One of `metadata.ownerReferences` of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct OwnerView {
    api_version: Text,
    kind: Text,
    name: Text,
    uid: Text,
    controller: Option<bool>,
}

impl OwnerView {
    /// Returns the kind and name of the owner that controls a pod.
    pub(crate) fn controller(owners: &[Self]) -> Option<Box<str>> {
        let owner = Self::controlling(owners)?;
        let text = |field: &Text| field.value.clone().unwrap_or_default();
        Some(format!("{} {}", text(&owner.kind), text(&owner.name)).into())
    }

    /// Returns the uid of the owner that controls a pod.
    pub(crate) fn uid_of_controller(owners: &[Self]) -> Option<Box<str>> {
        Self::controlling(owners)?.uid.clone().filled()
    }

    /// Returns the Job among the owners of a pod. Only the controlling owner counts (Kubernetes:
    /// `controller.FilterPodsByOwner`), and only the Job of group `batch`: others have Jobs of
    /// their own, with other rules.
    pub(crate) fn job(owners: &[Self]) -> Option<Box<JobRef>> {
        let owner = Self::controlling(owners).filter(|owner| owner.is_job())?;
        Some(Box::new(JobRef {
            uid: owner.uid.clone().filled()?,
            name: owner.name.value.clone().unwrap_or_default(),
        }))
    }

    /// Returns the controller of a pod, if it is no Job.
    pub(crate) fn other(owners: &[Self]) -> Option<Box<Owner>> {
        let owner = Self::controlling(owners).filter(|owner| !owner.is_job())?;
        let version = owner.api_version.as_deref().unwrap_or_default();
        let group = version.rsplit_once('/').map_or("", |(group, _)| group);
        Some(Box::new(Owner {
            group: group.into(),
            kind: owner.kind.value.clone().unwrap_or_default(),
        }))
    }

    fn controlling(owners: &[Self]) -> Option<&Self> {
        owners.iter().find(|owner| owner.controller == Some(true))
    }

    fn is_job(&self) -> bool {
        let version = self.api_version.as_deref().unwrap_or_default();
        self.kind.as_deref() == Some("Job") && version.starts_with("batch/")
    }
}

#[cfg(test)]
mod tests {
    use kube_core::Resource as _;
    use serde_json::{Value, json};

    use super::*;

    fn read(spec: &Value) -> Option<Job> {
        let job = json!({"metadata": {"uid": "u1", "name": "j", "namespace": "ns", "resourceVersion": "7"}, "spec": spec});
        serde_json::from_value::<JobWire>(job).unwrap().read()
    }

    #[test]
    fn the_limit_is_read() {
        for (spec, limit) in [
            (json!({"backoffLimit": 0}), 0),
            (json!({"backoffLimit": 2_147_483_647}), 2_147_483_647),
            (json!({}), 6),
        ] {
            assert_eq!(
                read(&spec),
                Some(Job {
                    uid: "u1".into(),
                    namespace: "ns".into(),
                    backoff_limit: limit,
                    failures_borne: limit,
                }),
                "{spec}"
            );
        }
    }

    #[test]
    fn a_limit_that_is_none_is_not_guessed() {
        assert_eq!(read(&json!({"backoffLimit": -1})), None);
        let nameless: JobWire =
            serde_json::from_value(json!({"metadata": {}, "spec": {"backoffLimit": 1}})).unwrap();
        assert_eq!(nameless.read(), None);
    }

    #[test]
    fn u228_a_job_bears_the_failures_that_its_limit_leaves_and_none_where_a_rule_may_end_it() {
        let borne = |spec: Value, status: Value| {
            let job = json!({"metadata": {"uid": "u1"}, "spec": spec, "status": status});
            let job = serde_json::from_value::<JobWire>(job).unwrap().read();
            job.map(|job| job.failures_borne)
        };
        for (limit, failed, expected) in [(0, 0, 0), (1, 0, 1), (6, 2, 4), (6, 6, 0), (6, 9, 0)] {
            let status = json!({"failed": failed});
            assert_eq!(
                borne(json!({"backoffLimit": limit}), status),
                Some(expected),
                "{limit} {failed}"
            );
        }
        assert_eq!(borne(json!({}), json!({})), Some(6), "the default");
        let rules = |actions: &[&str]| {
            let rules: Vec<_> = actions
                .iter()
                .map(|action| json!({"action": action}))
                .collect();
            json!({"podFailurePolicy": {"rules": rules}})
        };
        for (spec, expected) in [
            (json!({"backoffLimitPerIndex": 6}), 0),
            (rules(&[]), 6),
            (rules(&["Ignore", "Count"]), 6),
            (rules(&["Ignore", "FailJob"]), 0),
            (rules(&["FailIndex"]), 0),
            (rules(&["Later"]), 0),
            (json!({"podFailurePolicy": {"rules": [{}]}}), 0),
            (json!({"podFailurePolicy": {"rules": null}}), 6),
            (json!({"podFailurePolicy": null}), 6),
        ] {
            assert_eq!(borne(spec.clone(), json!({})), Some(expected), "{spec}");
        }
        let uncounted = |failed: u32, pods: usize| {
            let pods = vec!["u"; pods];
            json!({"failed": failed, "uncountedTerminatedPods": {"failed": pods, "succeeded": ["u"]}})
        };
        for (status, expected) in [
            (uncounted(0, 1), 5),
            (uncounted(2, 3), 1),
            (uncounted(2, 500), 0),
            (json!({"uncountedTerminatedPods": null}), 6),
        ] {
            assert_eq!(borne(json!({}), status.clone()), Some(expected), "{status}");
        }
        for status in [json!({"failed": -1}), json!({"failed": i64::MAX})] {
            assert_eq!(borne(json!({}), status.clone()), Some(0), "{status}");
        }
    }

    /// A Job is found by its uid. One that is taken for none would let its pods be ended as if no
    /// restart counted.
    #[test]
    fn the_uid_alone_makes_a_job_of_an_owner() {
        let owner = |name: &str| {
            let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "uid": "u", "name": name, "controller": true}]);
            let owners: Vec<OwnerView> = serde_json::from_value(owner).unwrap();
            OwnerView::job(&owners).map(|job| (job.uid, job.name))
        };
        assert_eq!(owner("j"), Some(("u".into(), "j".into())));
        assert_eq!(owner(&"j".repeat(2_000)), Some(("u".into(), "".into())));
    }

    #[test]
    fn the_watch_gets_what_it_goes_on_with() {
        let job: JobWire =
            serde_json::from_value(json!({"metadata": {"resourceVersion": "7", "labels": null}}))
                .unwrap();
        assert_eq!(job.meta().resource_version.as_deref(), Some("7"));
        assert_eq!(
            JobWire::url_path(&(), Some("ns")),
            "/apis/batch/v1/namespaces/ns/jobs"
        );
    }
}
