//! The Job of a pod, reduced to what decisions need: its identity, and how many restarts it allows.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};

use super::pod::Owner;
use super::values::lenient::{self, Integer, Lenient, Object, Present, Text};
use super::values::parts::Parts;

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
}

/// The Job that controls a pod, as the pod names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRef {
    /// `uid` of the owner reference.
    pub uid: Box<str>,
    /// `name` of the owner reference.
    pub name: Box<str>,
}

/// A Job of a list or watch. Like pods, any JSON object decodes.
#[derive(Clone, Debug)]
pub struct JobWire {
    metadata: ObjectMeta,
    backoff_limit: Integer,
    failed: Integer,
    /// True if a failed pod may have more effects than counting against `backoffLimit`.
    judges_failures: bool,
}

of_kind!(JobWire, k8s_openapi::api::batch::v1::Job);

type TopWire = Parts<MetaWire, SpecWire, StatusWire>;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MetaWire {
    name: Text,
    namespace: Text,
    uid: Text,
    resource_version: Text,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecWire {
    backoff_limit: Integer,
    backoff_limit_per_index: Lenient<Present>,
    pod_failure_policy: Lenient<Present>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusWire {
    failed: Integer,
}

impl<'de> Deserialize<'de> for JobWire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let TopWire {
            metadata,
            spec,
            status,
        } = TopWire::deserialize(deserializer)?;
        let meta = metadata.value.0;
        let metadata = ObjectMeta {
            uid: meta.uid.value.as_deref().map(str::to_owned),
            ..lenient::watched(&meta.name, &meta.namespace, &meta.resource_version)
        };
        let SpecWire {
            backoff_limit,
            backoff_limit_per_index,
            pod_failure_policy,
        } = spec.value.0;
        let failed = status.value.0.failed;
        Ok(Self {
            metadata,
            backoff_limit: Lenient {
                malformed: spec.malformed || backoff_limit.malformed,
                ..backoff_limit
            },
            failed: Lenient {
                malformed: status.malformed || failed.malformed,
                ..failed
            },
            judges_failures: backoff_limit_per_index.value.0 || pod_failure_policy.value.0,
        })
    }
}

impl JobWire {
    /// Reads the Job into the form that is cached. `None` if it has no uid, or a limit that is not
    /// a number from 0 on: nothing is assumed about such a Job.
    #[must_use]
    pub fn read(&self) -> Option<Job> {
        let backoff_limit = match (self.backoff_limit.malformed, self.backoff_limit.value) {
            (true, _) => return None,
            (false, None) => DEFAULT_BACKOFF_LIMIT,
            (false, Some(limit)) => u32::try_from(limit).ok()?,
        };
        let uid = self
            .metadata
            .uid
            .as_deref()
            .filter(|uid| !uid.is_empty())?
            .into();
        let namespace = self.metadata.namespace.as_deref();
        Some(Job {
            uid,
            namespace: namespace.unwrap_or_default().into(),
            backoff_limit,
        })
    }
}

impl JobWire {
    /// Returns true if one more of its pods may fail under `Never` and at least half of the
    /// failures that it allows are still left then. False for a Job that counts failures by index,
    /// or has rules for them: any failure may end it.
    #[must_use]
    pub fn bears_failure(&self) -> bool {
        let failed = self.failed.value.unwrap_or_default();
        let is_known = !self.failed.malformed && failed >= 0 && !self.judges_failures;
        let failed = u64::try_from(failed).unwrap_or_default();
        is_known
            && self.read().is_some_and(|job| {
                failed.saturating_add(1).saturating_mul(2) <= u64::from(job.backoff_limit)
            })
    }
}

/// One of `metadata.ownerReferences` of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct OwnerWire {
    api_version: Text,
    kind: Text,
    name: Text,
    uid: Text,
    controller: Lenient<Option<bool>>,
}

impl OwnerWire {
    /// Returns the kind and name of the owner that controls a pod.
    pub(crate) fn controller(owners: &[Lenient<Object<Self>>]) -> Option<Box<str>> {
        let owner = Self::controlling(owners)?;
        let text = |field: &Text| field.value.clone().unwrap_or_default();
        Some(format!("{} {}", text(&owner.kind), text(&owner.name)).into())
    }

    /// Returns the uid of the owner that controls a pod.
    pub(crate) fn uid_of_controller(owners: &[Lenient<Object<Self>>]) -> Option<Box<str>> {
        let uid = Self::controlling(owners)?.uid.value.clone();
        uid.filter(|uid| !uid.is_empty())
    }

    /// Returns the Job among the owners of a pod. Only the controlling owner counts (Kubernetes:
    /// `controller.FilterPodsByOwner`), and only the Job of group `batch`: others have Jobs of
    /// their own, with other rules.
    pub(crate) fn job(owners: &[Lenient<Object<Self>>]) -> Option<Box<JobRef>> {
        let owner = Self::controlling(owners).filter(|owner| owner.is_job())?;
        let text = |field: &Text| field.value.clone().filter(|text| !text.is_empty());
        Some(Box::new(JobRef {
            uid: text(&owner.uid)?,
            name: text(&owner.name)?,
        }))
    }

    /// Returns the controller of a pod, if it is no Job.
    pub(crate) fn other(owners: &[Lenient<Object<Self>>]) -> Option<Box<Owner>> {
        let owner = Self::controlling(owners).filter(|owner| !owner.is_job())?;
        let version = owner.api_version.value.as_deref().unwrap_or_default();
        let group = version.rsplit_once('/').map_or("", |(group, _)| group);
        Some(Box::new(Owner {
            group: group.into(),
            kind: owner.kind.value.clone().unwrap_or_default(),
        }))
    }

    fn controlling(owners: &[Lenient<Object<Self>>]) -> Option<&Self> {
        owners
            .iter()
            .map(|owner| &owner.value.0)
            .find(|owner| owner.controller.value == Some(true))
    }

    fn is_job(&self) -> bool {
        self.kind.value.as_deref() == Some("Job")
            && self
                .api_version
                .value
                .as_deref()
                .is_some_and(|version| version.starts_with("batch/"))
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
                    backoff_limit: limit
                }),
                "{spec}"
            );
        }
    }

    #[test]
    fn a_limit_that_is_none_is_not_guessed() {
        for spec in [
            json!({"backoffLimit": "6"}),
            json!({"backoffLimit": -1}),
            json!({"backoffLimit": 1.5}),
            json!("text"),
        ] {
            assert_eq!(read(&spec), None, "{spec}");
        }
        let nameless: JobWire =
            serde_json::from_value(json!({"metadata": {}, "spec": {"backoffLimit": 1}})).unwrap();
        assert_eq!(nameless.read(), None);
    }

    #[test]
    fn t1_a_job_bears_a_failure_that_leaves_it_half_of_its_limit() {
        let bears = |spec: Value, status: Value| {
            let job = json!({"metadata": {"uid": "u1"}, "spec": spec, "status": status});
            serde_json::from_value::<JobWire>(job)
                .unwrap()
                .bears_failure()
        };
        let limits = [
            (0, 0, false),
            (1, 0, false),
            (2, 0, true),
            (3, 1, false),
            (4, 1, true),
            (6, 2, true),
            (6, 3, false),
        ];
        for (limit, failed, expected) in limits {
            assert_eq!(
                bears(json!({"backoffLimit": limit}), json!({"failed": failed})),
                expected,
                "{limit} {failed}"
            );
        }
        assert!(bears(json!({}), json!({})), "the default is 6");
        for spec in [
            json!({"backoffLimitPerIndex": 6}),
            json!({"podFailurePolicy": {"rules": []}}),
            json!({"backoffLimit": "6"}),
        ] {
            assert!(!bears(spec.clone(), json!({})), "{spec}");
        }
        for status in [
            json!({"failed": -1}),
            json!({"failed": i64::MAX}),
            json!({"failed": "none"}),
            json!("text"),
        ] {
            assert!(!bears(json!({}), status.clone()), "{status}");
        }
    }

    #[test]
    fn the_watch_gets_what_it_goes_on_with() {
        let job: JobWire =
            serde_json::from_value(json!({"metadata": {"resourceVersion": "7", "labels": 5}}))
                .unwrap();
        assert_eq!(job.meta().resource_version.as_deref(), Some("7"));
        assert_eq!(
            JobWire::url_path(&(), Some("ns")),
            "/apis/batch/v1/namespaces/ns/jobs"
        );
    }
}
