//! SidecarPolicies read once, for commands that only explain decisions.

use kube::{Api, Client};
use serde_json::Value;
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::objects::namespace::NamespaceWire;
use swaplet_core::objects::pod::Pod;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::sidecar_policy::{PolicyKind, SidecarPolicy};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::objects::values::bounds::{MESSAGE, cut};
use swaplet_core::policies::set::{Labels, Policies};

use crate::frame::connection::discovery;
use crate::frame::list::list;
use crate::frame::remarks::{Remarks, is_forbidden};
use crate::frame::watch::Event;
use crate::terminate::policies::PolicyStore;

/// The maximum number of problems that are reported of policies.
const MOST_PROBLEMS: usize = 8;

/// The remark where nothing shows whether policies count.
pub const NOT_KNOWN: &str =
    "whether an installation reads SidecarPolicies is not known: they count here";

/// The policies of a cluster, or those of one namespace together with those of the cluster.
#[derive(Debug, Default)]
pub struct Listed {
    /// The policies that were read.
    pub policies: Vec<(PolicyKind, BoundedObject)>,
    /// The labels of namespaces; as a rule read only if a policy has a namespace selector.
    pub namespaces: Vec<(Box<str>, Labels)>,
    /// The kinds that the API server does not serve.
    pub missing: Vec<PolicyKind>,
    /// What could not be read, and the consequence.
    pub remarks: Remarks,
}

impl Listed {
    /// Reads the policies of one namespace and the cluster, or of all namespaces. The labels of
    /// namespaces are read if a policy has a namespace selector, or others of the caller have one.
    pub async fn read(client: &Client, namespace: Option<&str>, others_select: bool) -> Self {
        let mut listed = Self::default();
        for kind in PolicyKind::ALL {
            let resource = kind.resource();
            let api: Api<BoundedObject> = match (kind, namespace) {
                (PolicyKind::Namespaced, Some(namespace)) => {
                    Api::namespaced_with(client.clone(), namespace, &resource)
                }
                _ => Api::all_with(client.clone(), &resource),
            };
            let found = list(&api, "", |object| Some((kind, object))).await;
            // It is forbidden also where the kind is not there.
            let is_hidden = found.as_ref().is_err_and(is_forbidden);
            let is_lacked = is_hidden && is_lacked(client, kind).await;
            match found {
                Ok(found) => listed.policies.extend(found),
                Err(_) if is_lacked => listed.missing.push(kind),
                Err(kube::Error::Api(status)) if status.code == 404 => listed.missing.push(kind),
                Err(error) => listed.remarks.unread(
                    kind.plural(),
                    &error,
                    "a container that only one of them names counts as a main container",
                ),
            }
        }
        if others_select || listed.has_namespace_selector() {
            listed.read_namespaces(client, namespace).await;
        }
        listed
    }

    fn has_namespace_selector(&self) -> bool {
        let asks = |(_, policy): &(PolicyKind, BoundedObject)| {
            policy.data["spec"]["namespaceSelector"] != Value::Null
        };
        self.policies.iter().any(asks)
    }

    /// Reads the labels of the namespaces.
    pub async fn read_namespaces(&mut self, client: &Client, namespace: Option<&str>) {
        let named = namespace.map(|name| format!("metadata.name={name}"));
        let api: Api<NamespaceWire> = Api::all(client.clone());
        let listed = list(&api, &named.unwrap_or_default(), NamespaceWire::read).await;
        let found = match (listed, namespace) {
            // Whoever has rights in one namespace may get it, and list none.
            (Err(_), Some(name)) => api
                .get(name)
                .await
                .map(|one| one.read().into_iter().collect()),
            (listed, _) => listed,
        };
        match found {
            Ok(found) => self.namespaces = found,
            Err(error) => self.remarks.unread(
                "namespaces",
                &error,
                "a policy with a namespaceSelector counts in none",
            ),
        }
    }
}

/// Returns true if the API server is known not to serve this kind.
async fn is_lacked(client: &Client, kind: PolicyKind) -> bool {
    let resources = discovery::ask(client, &kind.resource().api_version).await;
    resources.is_ok_and(|resources| resources.lack(kind.plural()))
}

/// The policies for pods that are read once, resolved as the controller resolves them.
pub struct PodPolicies {
    store: PolicyStore,
    exit_images: ExitImages,
    remarks: Remarks,
    are_unread: bool,
}

impl PodPolicies {
    /// Returns the state of a controller that does not read policies.
    pub fn none() -> Self {
        Self {
            store: PolicyStore::default(),
            exit_images: ExitImages::new(None, Vec::new()),
            remarks: Remarks::default(),
            are_unread: false,
        }
    }

    /// Reads the policies for the pods of one namespace, or of all. Where it is not known whether
    /// the installation reads them (`are_on` is `None`), it is no problem if there are none.
    pub async fn read(
        client: &Client,
        namespace: Option<&str>,
        exit_images: &ExitImages,
        are_on: Option<bool>,
    ) -> Self {
        if are_on == Some(false) {
            return Self::none();
        }
        let listed = Listed::read(client, namespace, false).await;
        let mut remarks = listed.remarks.clone();
        let are_unread = remarks != Remarks::default();
        if are_on.is_none() && listed.policies.is_empty() {
            return Self {
                remarks,
                are_unread,
                ..Self::none()
            };
        }
        if are_on.is_none() {
            remarks.push(format!(
                "{NOT_KNOWN} (--sidecar-policies=false leaves them out)"
            ));
        }
        for kind in &listed.missing {
            remarks.push(format!(
                "the API server does not know {}: apply deploy/crds/{}.yaml",
                kind.plural(),
                kind.plural()
            ));
        }
        let store = store(listed, exit_images);
        for problem in problems(&store) {
            remarks.push(problem);
        }
        Self {
            store,
            exit_images: exit_images.clone(),
            remarks,
            are_unread,
        }
    }

    /// Returns true if there may be policies that count and could not be read.
    pub const fn are_unread(&self) -> bool {
        self.are_unread
    }

    /// Returns what could not be read or has no effect.
    pub const fn remarks(&self) -> &Remarks {
        &self.remarks
    }

    /// Returns true if there is a policy of this kind, namespace and name.
    pub fn has(&self, kind: PolicyKind, namespace: &str, name: &str) -> bool {
        self.store.all().any(|seen| {
            let policy = &seen.policy;
            policy.kind == kind && *policy.namespace == *namespace && *policy.name == *name
        })
    }

    /// Adds policies that only this command knows.
    pub fn give(&mut self, given: &Given) {
        given.add_to(&mut self.store.set);
    }

    /// Returns true if policies are read at all.
    pub const fn are_on(&self) -> bool {
        self.store.is_on()
    }

    /// Decodes a pod and marks its containers with the rules that apply to them.
    pub fn read_pod(&mut self, pod: PodWire) -> Option<Pod> {
        let (set, images) = (&mut self.store.set, &self.exit_images);
        pod.read_with(|pod, labels| set.mark(pod, labels, |one| images.contains(&one.image)))
    }
}

/// Policies that a command is given, and that are not in the cluster.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The policies.
    pub policies: Vec<SidecarPolicy>,
    /// The labels of namespaces, if a policy selects by them.
    pub namespaces: Vec<(Box<str>, Labels)>,
}

impl Given {
    /// Adds the policies to others.
    pub fn add_to(&self, set: &mut Policies) {
        for (name, labels) in &self.namespaces {
            set.namespace(name, Some(labels.clone()));
        }
        for policy in &self.policies {
            set.apply(policy);
        }
    }
}

/// Returns a store that has handled the listed objects like events of a watch.
pub fn store(mut listed: Listed, exit_images: &ExitImages) -> PolicyStore {
    let mut store = PolicyStore::watched();
    for kind in PolicyKind::ALL {
        let policies = listed.policies.extract_if(.., |(of, _)| *of == kind);
        for event in Event::list_of(policies.map(|(_, policy)| policy)) {
            store.handle(kind, event, exit_images);
        }
    }
    for (name, labels) in listed.namespaces {
        store.namespace(&name, Some(labels));
    }
    store
}

fn problems(store: &PolicyStore) -> Vec<String> {
    let all = store.all().flat_map(|seen| {
        let problems = seen.problems.iter();
        problems.map(move |problem| cut(&format!("{}: {problem}", seen.policy.place()), MESSAGE))
    });
    let mut reported: Vec<_> = all.take(MOST_PROBLEMS + 1).collect();
    if reported.len() > MOST_PROBLEMS {
        reported.truncate(MOST_PROBLEMS);
        reported.push("more policies have problems: swaplet status shows them".to_owned());
    }
    reported
}
