//! The kinds that can be protected, and what keeps an object of each, by the rules of the policies
//! in `deploy/protection.yaml`.

use serde_json::Value;

use super::decide::lets_go;
use super::object::{Guarded, GuardedKind, HOLDS, Mode};
use crate::objects::values::bounded_object::BoundedObject;

/// The criterion of the mode `Cascading`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cascading {
    /// `spec.replicas`
    Replicas,
    /// The counted contents of the object.
    Contents(GuardedKind),
    /// None: the mode does not protect this kind.
    Never,
}

/// A kind that can be protected.
#[derive(Clone, Copy, Debug)]
pub struct ProtectedKind {
    /// The API group of the kind.
    pub group: &'static str,
    /// Versions in which it may be served, the newest first.
    pub versions: &'static [&'static str],
    /// The name of the kind.
    pub kind: &'static str,
    /// The plural name of the resource.
    pub plural: &'static str,
    /// The criterion of the mode `Cascading` for this kind.
    pub cascading: Cascading,
}

impl ProtectedKind {
    const fn of(
        group: &'static str,
        versions: &'static [&'static str],
        kind: &'static str,
        plural: &'static str,
        cascading: Cascading,
    ) -> Self {
        Self {
            group,
            versions,
            kind,
            plural,
            cascading,
        }
    }

    /// Returns true if its objects are in namespaces.
    pub const fn is_namespaced(&self) -> bool {
        !matches!(self.cascading, Cascading::Contents(_))
    }

    /// Returns what keeps an object with this mode, as the denial words it; `None` if it can be
    /// deleted.
    pub fn held_by(&self, object: &BoundedObject, mode: Mode) -> Option<String> {
        match (mode, self.cascading) {
            (Mode::Always, _) => Some("the label".to_owned()),
            (Mode::Cascading, Cascading::Never) => None,
            (Mode::Cascading, Cascading::Replicas) => replicas(&object.data["spec"]["replicas"]),
            (Mode::Cascading, Cascading::Contents(kind)) => contents(kind, object),
        }
    }
}

const V1: &[&str] = &["v1"];
const OPENKRUISES: &[&str] = &["v1beta1", "v1alpha1"];

/// All kinds that can be protected.
pub const KINDS: [ProtectedKind; 10] = {
    use Cascading::{Contents, Never, Replicas};
    [
        ProtectedKind::of(
            "",
            V1,
            "Namespace",
            "namespaces",
            Contents(GuardedKind::Namespace),
        ),
        ProtectedKind::of(
            "apiextensions.k8s.io",
            V1,
            "CustomResourceDefinition",
            "customresourcedefinitions",
            Contents(GuardedKind::CustomResourceDefinition),
        ),
        ProtectedKind::of("apps", V1, "Deployment", "deployments", Replicas),
        ProtectedKind::of("apps", V1, "StatefulSet", "statefulsets", Replicas),
        ProtectedKind::of("apps", V1, "ReplicaSet", "replicasets", Replicas),
        ProtectedKind::of("", V1, "Service", "services", Never),
        ProtectedKind::of("networking.k8s.io", V1, "Ingress", "ingresses", Never),
        ProtectedKind::of(
            "apps.kruise.io",
            OPENKRUISES,
            "CloneSet",
            "clonesets",
            Replicas,
        ),
        ProtectedKind::of(
            "apps.kruise.io",
            OPENKRUISES,
            "StatefulSet",
            "statefulsets",
            Replicas,
        ),
        ProtectedKind::of(
            "apps.kruise.io",
            OPENKRUISES,
            "UnitedDeployment",
            "uniteddeployments",
            Replicas,
        ),
    ]
};

/// Checks `spec.replicas`: an object whose value is no number is kept.
fn replicas(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Number(number) => {
            let is_some = number.as_f64().is_none_or(|replicas| replicas > 0.0);
            is_some.then(|| format!("replicas {number}>0"))
        }
        _ => Some("replicas that are no number".to_owned()),
    }
}

fn contents(kind: GuardedKind, object: &BoundedObject) -> Option<String> {
    let metadata = &object.metadata;
    let holds = metadata.annotations.as_ref().and_then(|all| all.get(HOLDS));
    let object = Guarded {
        kind,
        name: metadata.name.as_deref().unwrap_or_default().into(),
        uid: metadata.uid.as_deref().unwrap_or_default().into(),
        version: Box::default(),
        mode: Some(Mode::Cascading),
        holds: holds.map(|holds| holds.as_str().into()),
        deleting: false,
        served: None,
    };
    (!lets_go(&object))
        .then(|| counted(&object).unwrap_or_else(|| "contents that nobody counts".to_owned()))
}

/// Returns the counts that keep the object, as the policy words them.
fn counted(object: &Guarded) -> Option<String> {
    let holds = object.holds.as_deref()?;
    let counts = holds.strip_suffix(&format!(",uid={}", object.uid))?;
    let number = |name: &str| {
        let of = |count: &str| count.strip_prefix(name)?.parse::<u32>().ok();
        counts.split(',').find_map(of).filter(|number| *number > 0)
    };
    [
        ("pods=", "active pods"),
        ("pvcs=", "\"Bound\" status pvc"),
        ("objects=", "active CRs"),
    ]
    .into_iter()
    .find_map(|(name, words)| Some(format!("{words} {}>0", number(name)?)))
}
