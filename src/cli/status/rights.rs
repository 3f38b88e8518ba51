//! The rights that an installation needs for its flags: those of the manifests in `deploy/`, which
//! docs/rights.md explains.

use k8s_openapi::api::authorization::v1::ResourceAttributes;
use serde_json::Value;

use super::installation::Flags;
use crate::cli::run::warm_namespace;

const RBAC: &str = include_str!("../../../deploy/rbac.yaml");
const POLICIES: &str = include_str!("../../../deploy/sidecar-policies.yaml");
const RESTART: &str = include_str!("../../../deploy/restart.yaml");
const WARM: &str = include_str!("../../../deploy/warm.yaml");
const PULL_JOBS: &str = include_str!("../../../deploy/pull-jobs.yaml");
const PROTECT: &str = include_str!("../../../deploy/protect.yaml");
const HOT_UPGRADE: &str = include_str!("../../../deploy/hot-upgrade.yaml");
const PREDOWNLOAD: &str = include_str!("../../../deploy/predownload.yaml");

/// The maximum number of namespaces whose rights are checked one by one.
const MOST_NAMESPACES: usize = 5;
/// The name of the admission policies in the manifests.
const LEASH: &str = "swaplet-leash";

/// The scope in which a role is bound.
#[derive(Clone, Copy)]
enum Where<'a> {
    Pods,
    Cluster,
    Namespace(&'a str),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Right {
    pub(super) role: &'static str,
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) verb: String,
    /// The name of the object; empty for all.
    pub(super) name: String,
    /// The namespace; empty for all.
    pub(super) namespace: String,
}

impl Right {
    /// Returns true if swaplet works without it, see docs/rights.md.
    pub(super) fn is_optional(&self) -> bool {
        self.resource == "nodes" && self.role == "swaplet-nodes" || self.resource == "events"
    }

    /// Returns the attributes of an access review.
    pub(super) fn attributes(&self) -> ResourceAttributes {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let (resource, subresource) = self
            .resource
            .split_once('/')
            .unwrap_or((&self.resource, ""));
        ResourceAttributes {
            group: some(&self.group),
            resource: some(resource),
            subresource: some(subresource),
            verb: some(&self.verb),
            name: some(&self.name),
            namespace: some(&self.namespace),
            ..ResourceAttributes::default()
        }
    }

    /// Returns the right in words, as arguments of `kubectl auth can-i`.
    pub(super) fn words(&self) -> String {
        let mut words = format!("{} {}", self.verb, self.resource);
        if !self.group.is_empty() {
            words = format!("{words}.{}", self.group);
        }
        for (what, word) in [(" ", &self.name), (" in ", &self.namespace)] {
            if !word.is_empty() {
                words = format!("{words}{what}{word}");
            }
        }
        words
    }
}

pub(super) fn needed(flags: &Flags) -> Vec<Right> {
    let on = |flag| flags.is_on(flag);
    let mut all = Vec::new();
    let mut role = |text: &str, name, place| all.extend(rights(text, name, place, flags));
    role(RBAC, "swaplet", Where::Pods);
    role(RBAC, "swaplet-nodes", Where::Cluster);
    if let Some(namespace) = flags.one("state-namespace") {
        role(RBAC, "swaplet-state", Where::Namespace(namespace));
    }
    if flags.reads_policies() {
        role(POLICIES, "swaplet-sidecar-policies", Where::Cluster);
        role(POLICIES, "swaplet-namespaced-sidecar-policies", Where::Pods);
    }
    if on("restart") {
        role(RESTART, "swaplet-restart", Where::Pods);
        if !on("restart-without-leash") {
            role(RESTART, "swaplet-restart-leash", Where::Cluster);
        }
        if on("restart-on-config") {
            role(RESTART, "swaplet-restart-on", Where::Pods);
        }
    }
    if on("warm") {
        role(PULL_JOBS, "swaplet-pull-jobs", Where::Pods);
        role(WARM, "swaplet-warm-nodes", Where::Cluster);
        let namespace = warm_namespace(flags.one("warm-namespace"), flags.namespaces());
        role(WARM, "swaplet-warm", Where::Namespace(namespace));
        for (flag, name) in [
            ("warm-startup-taint", "swaplet-warm-startup-taint"),
            ("warm-image-caches", "swaplet-warm-image-caches"),
        ] {
            if on(flag) {
                role(WARM, name, Where::Cluster);
            }
        }
    }
    if on("predownload") {
        role(PREDOWNLOAD, "swaplet-predownload", Where::Pods);
    }
    if on("hot-upgrade") {
        role(HOT_UPGRADE, "swaplet-hot-upgrade", Where::Cluster);
    }
    if on("protect") {
        role(PROTECT, "swaplet-protect", Where::Cluster);
    }
    let mut kept: Vec<Right> = Vec::new();
    for right in all.into_iter().filter(|right| is_used(right, flags)) {
        if !kept
            .iter()
            .any(|other| other.attributes() == right.attributes())
        {
            kept.push(right);
        }
    }
    kept
}

/// Returns some rights of an installation whose flags cannot be read: one without any of them is
/// none.
pub(super) fn least(namespace: &str) -> Vec<Right> {
    let flags = Flags::default();
    let mut least = rights(RBAC, "swaplet", Where::Pods, &flags);
    let state = Where::Namespace(namespace);
    least.extend(rights(RBAC, "swaplet-state", state, &flags));
    least
}

/// Returns false for rights of a role that the flags do not need, which the chart leaves out too.
fn is_used(right: &Right, flags: &Flags) -> bool {
    let on = |flag| flags.is_on(flag);
    match (right.role, &*right.resource, &*right.name, &*right.verb) {
        ("swaplet", "pods/status", ..) => on("terminate") && flags.one("finish") != Some("never"),
        ("swaplet", "pods", _, "patch") => on("terminate") || on("restart") || on("hot-upgrade"),
        (_, "configmaps", "swaplet-restart-on", _) => on("restart-on-config"),
        ("swaplet-state", "leases", ..) => on("leader-elect"),
        _ => true,
    }
}

fn rights(text: &str, name: &'static str, place: Where, flags: &Flags) -> Vec<Right> {
    // A manifest of this program: a test parses them all.
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap_or_default();
    let roles = documents.iter().filter(|object| {
        let kind = object["kind"].as_str().unwrap_or_default();
        kind.ends_with("Role") && object["metadata"]["name"] == name
    });
    let rules = roles.flat_map(|role| role["rules"].as_array().into_iter().flatten());
    let mut all = Vec::new();
    for rule in rules {
        let mut names = strings(&rule["resourceNames"]);
        if names.is_empty() {
            names.push(String::new());
        }
        for group in strings(&rule["apiGroups"]) {
            for resource in strings(&rule["resources"]) {
                for verb in strings(&rule["verbs"]) {
                    for object in &names {
                        for namespace in namespaces(place, flags) {
                            all.push(Right {
                                role: name,
                                group: group.clone(),
                                resource: resource.clone(),
                                verb: verb.clone(),
                                name: of_leash(object, flags),
                                namespace,
                            });
                        }
                    }
                }
            }
        }
    }
    all
}

fn of_leash(name: &str, flags: &Flags) -> String {
    match (name.strip_prefix(LEASH), flags.one("leash")) {
        (Some(rest), Some(leash)) => format!("{leash}{rest}"),
        _ => name.to_owned(),
    }
}

/// Returns for how many namespaces of the installation the rights are not asked.
pub(super) fn namespaces_left_out(flags: &Flags) -> usize {
    flags.namespaces().len().saturating_sub(MOST_NAMESPACES)
}

fn namespaces(place: Where, flags: &Flags) -> Vec<String> {
    match place {
        Where::Pods if !flags.namespaces().is_empty() => {
            let some = flags.namespaces().iter().take(MOST_NAMESPACES);
            some.cloned().collect()
        }
        Where::Pods | Where::Cluster => vec![String::new()],
        Where::Namespace(namespace) => vec![namespace.to_owned()],
    }
}

fn strings(list: &Value) -> Vec<String> {
    let words = list.as_array().into_iter().flatten();
    words
        .filter_map(|word| word.as_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(flags: &[(&str, &str)]) -> Vec<String> {
        let needed = needed(&Flags::of(flags));
        needed.iter().map(Right::words).collect()
    }

    #[test]
    fn rights_follow_the_flags() {
        let least = words(&[("terminate", "true"), ("finish", "never")]);
        assert!(least.contains(&"patch pods".to_owned()), "{least:?}");
        assert!(!least.iter().any(|right| right.contains("pods/status")));
        let flags = [
            ("terminate", "true"),
            ("namespace", "batch"),
            ("state-namespace", "system"),
            ("leader-elect", "true"),
            ("restart", "true"),
            ("leash", "my-leash"),
            ("warm", "true"),
            ("predownload", "true"),
            ("sidecar-policies", "true"),
        ];
        let all = words(&flags);
        for right in [
            "patch pods/status in batch",
            "patch leases.coordination.k8s.io swaplet in system",
            "get validatingadmissionpolicybindings.admissionregistration.k8s.io my-leash-pods",
            "patch containerrecreaterequests.apps.kruise.io in batch",
            "create pods in batch",
            "list nodes",
            "watch sidecarpolicies.swaplet.io",
            "patch namespacedsidecarpolicies/status.swaplet.io in batch",
        ] {
            assert!(all.contains(&right.to_owned()), "{right}: {all:#?}");
        }
        assert!(all.iter().any(|right| right.contains("imagepulljobs")));
        assert!(
            !all.iter().any(|right| right.contains("secrets")),
            "{all:#?}"
        );
    }

    #[test]
    fn u185_the_rights_are_those_that_the_controller_uses_with_these_flags() {
        let warm = |more: &[(&str, &str)]| {
            let all = words(&[&[("warm", "true")], more].concat());
            let mut places = all.into_iter().filter_map(|right| {
                let place = right.strip_prefix("create pods in ")?;
                Some(place.to_owned())
            });
            places.next().unwrap()
        };
        assert_eq!(warm(&[]), "swaplet-warm");
        assert_eq!(warm(&[("namespace", "batch")]), "batch");
        let both = [("namespace", "batch"), ("warm-namespace", "other")];
        assert_eq!(warm(&both), "other");
        for flag in ["terminate", "restart", "hot-upgrade"] {
            let all = words(&[(flag, "true")]);
            assert!(all.contains(&"patch pods".to_owned()), "{flag}: {all:?}");
        }
        let none = words(&[("terminate", "false"), ("predownload", "true")]);
        assert!(!none.contains(&"patch pods".to_owned()), "{none:?}");
    }
}
