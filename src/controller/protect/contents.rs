//! Watches of what protected objects contain. Of pods and of objects of CRDs only metadata is read.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, ListParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::protect::held::Held;
use swaplet_core::protect::object::{ClaimWire, Content, GuardedKind, MetadataWire, Served};

use crate::frame::isolated::read;
use crate::frame::serve::rights::Right;
use crate::frame::watch::Event;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::named::NamedWatches;

/// The field selector of pods that have not ended, so that the API server sends no others.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// A watch of one kind of contents of a protected object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Contents {
    /// The kind and the name of the protected object.
    pub(super) object: (GuardedKind, Box<str>),
    /// The epoch of the object's entry for which the watch was started.
    pub(super) epoch: u64,
    /// The kind of contents that is counted.
    pub(super) what: What,
}

/// The contents that are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// The pods of a namespace.
    Pods,
    /// The PersistentVolumeClaims of a namespace.
    Claims,
    /// The objects of a CRD, in all namespaces.
    Objects(Served),
}

impl Contents {
    /// Returns the namespace in which the right to watch is needed; empty for all namespaces.
    pub(super) fn namespace(&self) -> &str {
        match self.what {
            What::Pods | What::Claims => &self.object.1,
            What::Objects(_) => "",
        }
    }
}

impl What {
    /// Returns the right to watch these contents.
    pub(super) const fn right(&self) -> Right {
        match self {
            Self::Pods => Right::WatchPodsOfNamespaces,
            Self::Claims => Right::WatchClaims,
            Self::Objects(_) => Right::WatchObjectsOfCrds,
        }
    }
}

/// Creates the watches; each returns the uid of an object, and true if the object counts.
pub(super) fn watches(client: Client, ages: WatchAges) -> NamedWatches<Contents, Content> {
    NamedWatches::new(ages, move |contents: &Contents, listener| {
        let namespace = contents.namespace();
        match &contents.what {
            What::Pods => {
                let pods: Api<MetadataWire<Pod>> = Api::namespaced(client.clone(), namespace);
                let params = ListParams::default().fields(NOT_ENDED);
                listener.watch_selected(pods, params, |pod| content(|| Some(pod.read()?.0)))
            }
            What::Claims => {
                let claims: Api<ClaimWire> = Api::namespaced(client.clone(), namespace);
                listener.watch_selected(claims, ListParams::default(), |claim| {
                    content(|| Some(claim.read()?.0))
                })
            }
            What::Objects(served) => {
                let objects: Api<MetadataWire<BoundedObject>> =
                    Api::all_with(client.clone(), &resource(served));
                listener.watch_selected(objects, ListParams::default(), |object| {
                    content(|| Some(object.read()?.0))
                })
            }
        }
    })
}

/// Returns what was read; nothing that counts where that fails.
fn content(read_one: impl FnOnce() -> Option<Content>) -> Content {
    read("content of a protected object", read_one).unwrap_or_default()
}

/// Returns the API resource. A list of metadata does not need the kind.
fn resource(served: &Served) -> ApiResource {
    let kind = GroupVersionKind::gvk(&served.group, &served.version, &served.plural);
    ApiResource::from_gvk_with_plural(&kind, &served.plural)
}

/// Records an event of a watch in the count.
pub(super) fn reported(held: &mut Held, event: Event<(Box<str>, bool)>) {
    match event {
        Event::ListStart => held.list_begins(),
        Event::Listed((uid, counts)) | Event::Applied((uid, counts)) => held.is_there(uid, counts),
        Event::Deleted((uid, _)) => held.is_gone(&uid),
        Event::ListEnd => held.list_ends(),
        Event::Current(_) => held.comes_in_sight(),
        Event::Relists(_) => {}
        Event::Trouble(_) | Event::Forbidden(_) | Event::Hidden(_) => held.goes_out_of_sight(),
    }
}
