//! The table of kinds, which drives routing, discovery and tables.

use std::sync::Arc;

use serde_json::Value;

use crate::apiserver::objects::json::{list, text};
use crate::apiserver::objects::status::group_resource;

/// A served resource of one group and version.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version in the group.
    pub version: String,
    /// The plural name, as in URLs.
    pub resource: String,
    /// The singular name.
    pub singular: String,
    /// The kind, as in manifests.
    pub kind: String,
    /// The short names for `kubectl`.
    pub short: Vec<String>,
    /// True if objects are namespaced.
    pub namespaced: bool,
    /// True if `/status` is a subresource.
    pub status: bool,
    /// True if `metadata.generation` counts changes of the spec.
    pub generation: bool,
    /// The columns of tables besides the name.
    pub columns: Columns,
}

/// The columns of the rows of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Columns {
    /// Name and age.
    Plain,
    /// The columns of the real server for pods.
    Pod,
    /// The columns of the real server for jobs.
    Job,
    /// The columns of the real server for nodes.
    Node,
    /// The columns of the real server for events.
    Event,
    /// The columns of the real server for namespaces.
    Namespace,
    /// The printer columns of a CRD: heading and path.
    Custom(Vec<(String, String)>),
}

impl Kind {
    /// Returns `group/version`, or the version alone in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns the name of the storage of this kind; the two APIs of events share one.
    pub fn storage(&self) -> String {
        if self.is_new_event() {
            "events".to_owned()
        } else {
            group_resource(&self.group, &self.resource)
        }
    }

    /// Returns the group that the storage uses in its errors.
    pub fn storage_group(&self) -> &str {
        if self.is_new_event() { "" } else { &self.group }
    }

    /// Returns true for `events.k8s.io`, which is stored as core events.
    pub fn is_new_event(&self) -> bool {
        self.group == "events.k8s.io"
    }

    /// Returns true for the core resource of this name.
    pub fn is_core(&self, resource: &str) -> bool {
        self.group.is_empty() && self.resource == resource
    }

    /// Returns true for `batch/v1` jobs.
    pub fn is_job(&self) -> bool {
        self.group == "batch" && self.resource == "jobs"
    }

    /// Returns true if a PUT creates a missing object.
    pub fn created_by_update(&self) -> bool {
        self.storage() == "events" || self.resource == "leases"
    }

    /// Returns true if objects of the kind are reviews: answered, and not stored.
    pub fn is_review(&self) -> bool {
        self.group == "authorization.k8s.io"
    }

    /// Returns true for the resource of CRDs.
    pub fn is_crd(&self) -> bool {
        self.resource == "customresourcedefinitions"
    }
}

/// One row of the table: group, version, resource, kind, short names (with commas), and flags.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    u8,
);

/// Flag of namespaced kinds.
const NAMESPACED: u8 = 1;
/// Flag of kinds with a `/status` subresource.
const STATUS: u8 = 2;
/// Flag of kinds whose `metadata.generation` counts changes of the spec.
const GENERATION: u8 = 4;
const WITH_SPEC: u8 = STATUS | GENERATION;
const ALL: u8 = NAMESPACED | WITH_SPEC;
const ADMISSION: &str = "admissionregistration.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const COORDINATION: &str = "coordination.k8s.io";
const EXTENSIONS: &str = "apiextensions.k8s.io";
const KRUISE: &str = "apps.kruise.io";
const EVENTS: &str = "events.k8s.io";

const TABLE: &[Row] = &[
    ("", "v1", "pods", "Pod", "po", ALL),
    ("", "v1", "nodes", "Node", "no", STATUS),
    ("", "v1", "namespaces", "Namespace", "ns", STATUS),
    ("", "v1", "events", "Event", "ev", NAMESPACED),
    ("", "v1", "configmaps", "ConfigMap", "cm", NAMESPACED),
    ("", "v1", "secrets", "Secret", "", NAMESPACED),
    ("", "v1", "services", "Service", "svc", NAMESPACED | STATUS),
    (
        "",
        "v1",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        "pvc",
        NAMESPACED | STATUS,
    ),
    (
        "",
        "v1",
        "serviceaccounts",
        "ServiceAccount",
        "sa",
        NAMESPACED,
    ),
    ("batch", "v1", "jobs", "Job", "", ALL),
    ("batch", "v1", "cronjobs", "CronJob", "cj", ALL),
    (EVENTS, "v1", "events", "Event", "ev", NAMESPACED),
    (COORDINATION, "v1", "leases", "Lease", "", NAMESPACED),
    ("apps", "v1", "deployments", "Deployment", "deploy", ALL),
    ("apps", "v1", "replicasets", "ReplicaSet", "rs", ALL),
    ("apps", "v1", "statefulsets", "StatefulSet", "sts", ALL),
    ("apps", "v1", "daemonsets", "DaemonSet", "ds", ALL),
    (
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        "pdb",
        ALL,
    ),
    (
        KRUISE,
        "v1alpha1",
        "containerrecreaterequests",
        "ContainerRecreateRequest",
        "crr",
        ALL,
    ),
    (KRUISE, "v1alpha1", "imagepulljobs", "ImagePullJob", "", ALL),
    (
        KRUISE,
        "v1alpha1",
        "imagelistpulljobs",
        "ImageListPullJob",
        "",
        ALL,
    ),
    (
        KRUISE,
        "v1alpha1",
        "sidecarsets",
        "SidecarSet",
        "",
        WITH_SPEC,
    ),
    (
        ADMISSION,
        "v1",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        "",
        GENERATION,
    ),
    (
        ADMISSION,
        "v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        "",
        WITH_SPEC,
    ),
    (
        AUTHORIZATION,
        "v1",
        "subjectaccessreviews",
        "SubjectAccessReview",
        "",
        0,
    ),
    (
        AUTHORIZATION,
        "v1",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
        "",
        0,
    ),
    (
        EXTENSIONS,
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "crd,crds",
        WITH_SPEC,
    ),
];

/// Returns the kinds of a new server.
pub fn builtin() -> Vec<Arc<Kind>> {
    TABLE.iter().map(from_row).map(Arc::new).collect()
}

fn from_row(row: &Row) -> Kind {
    let &(group, version, resource, kind, short, is) = row;
    let short = short.split(',').filter(|name| !name.is_empty());
    Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        resource: resource.to_owned(),
        singular: kind.to_lowercase(),
        kind: kind.to_owned(),
        short: short.map(str::to_owned).collect(),
        namespaced: is & NAMESPACED != 0,
        status: is & STATUS != 0,
        generation: is & GENERATION != 0,
        columns: columns(group, resource),
    }
}

fn columns(group: &str, resource: &str) -> Columns {
    match (group, resource) {
        ("", "pods") => Columns::Pod,
        ("batch", "jobs") => Columns::Job,
        ("", "nodes") => Columns::Node,
        ("" | "events.k8s.io", "events") => Columns::Event,
        ("", "namespaces") => Columns::Namespace,
        _ => Columns::Plain,
    }
}

/// Returns the kinds of a CRD, one per served version.
pub fn from_crd(crd: &Value) -> Vec<Arc<Kind>> {
    let served = |version: &&Value| version["served"].as_bool().unwrap_or(true);
    list(crd, "/spec/versions")
        .iter()
        .filter(served)
        .map(|version| Arc::new(custom(crd, version)))
        .collect()
}

fn custom(crd: &Value, version: &Value) -> Kind {
    let kind = text(crd, "/spec/names/kind");
    let singular = text(crd, "/spec/names/singular");
    Kind {
        group: text(crd, "/spec/group").to_owned(),
        version: text(version, "/name").to_owned(),
        resource: text(crd, "/spec/names/plural").to_owned(),
        singular: if singular.is_empty() {
            kind.to_lowercase()
        } else {
            singular.to_owned()
        },
        kind: kind.to_owned(),
        short: list(crd, "/spec/names/shortNames")
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        namespaced: text(crd, "/spec/scope") == "Namespaced",
        status: version.pointer("/subresources/status").is_some(),
        generation: true,
        columns: printer_columns(version),
    }
}

fn printer_columns(version: &Value) -> Columns {
    let columns = list(version, "/additionalPrinterColumns");
    if columns.is_empty() {
        return Columns::Plain;
    }
    let column = |column: &Value| {
        (
            text(column, "/name").to_owned(),
            text(column, "/jsonPath").to_owned(),
        )
    };
    Columns::Custom(columns.iter().map(column).collect())
}
