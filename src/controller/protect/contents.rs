//! Watches of what is in protected objects: of pods and of objects of CRDs the metadata alone.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, ListParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::protect::held::Held;
use swaplet_core::protect::object::{ClaimWire, GuardedKind, Served};

use crate::frame::watch::Event;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::named::NamedWatches;

/// Pods that have not ended: the API server sends no others.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// One kind of what is in a protected object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Contents {
    /// The object.
    pub(super) object: (GuardedKind, Box<str>),
    /// Which time it is watched.
    pub(super) epoch: u64,
    /// What is counted.
    pub(super) what: What,
}

/// What is counted in an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// Of a namespace.
    Pods,
    /// Of a namespace: PersistentVolumeClaims.
    Claims,
    /// Of a CRD, in all namespaces.
    Objects(Served),
}

impl Contents {
    /// Where a right is needed to see it; empty: everywhere.
    pub(super) fn namespace(&self) -> &str {
        match self.what {
            What::Pods | What::Claims => &self.object.1,
            What::Objects(_) => "",
        }
    }
}

/// What the right to watch it is for.
pub(super) const fn see_contents(what: &What) -> &'static str {
    match what {
        What::Pods => "protected Namespaces stay, because their pods cannot be watched",
        What::Claims => {
            "protected Namespaces stay, because their PersistentVolumeClaims cannot be watched"
        }
        What::Objects(_) => "protected CRDs stay, because their objects cannot be watched",
    }
}

/// The watches; each tells a uid, and whether the object counts.
pub(super) fn watches(client: Client, ages: WatchAges) -> NamedWatches<Contents, (Box<str>, bool)> {
    NamedWatches::new(ages, move |contents: &Contents, listener| {
        let namespace = contents.namespace();
        match &contents.what {
            What::Pods => {
                let pods: Api<PartialObjectMeta<Pod>> = Api::namespaced(client.clone(), namespace);
                let params = ListParams::default().fields(NOT_ENDED);
                listener.watch_selected(pods, params, of_metadata)
            }
            What::Claims => {
                let claims: Api<ClaimWire> = Api::namespaced(client.clone(), namespace);
                listener.watch_selected(claims, ListParams::default(), ClaimWire::read)
            }
            What::Objects(served) => {
                let objects: Api<PartialObjectMeta<BoundedObject>> =
                    Api::all_with(client.clone(), &resource(served));
                listener.watch_selected(objects, ListParams::default(), of_metadata)
            }
        }
    })
}

fn of_metadata<K>(object: PartialObjectMeta<K>) -> (Box<str>, bool) {
    let metadata = object.metadata;
    let uid = metadata.uid.unwrap_or_default();
    (uid.into(), metadata.deletion_timestamp.is_none())
}

/// The kind does not matter for a list of metadata.
fn resource(served: &Served) -> ApiResource {
    let Served {
        group,
        version,
        plural,
    } = served;
    ApiResource {
        group: group.to_string(),
        version: version.to_string(),
        api_version: format!("{group}/{version}"),
        kind: plural.to_string(),
        plural: plural.to_string(),
    }
}

/// What a watch tells of what is in an object.
pub(super) fn told(held: &mut Held, event: Event<(Box<str>, bool)>) {
    match event {
        Event::ListStart => held.list_begins(),
        Event::Listed((uid, counts)) | Event::Applied((uid, counts)) => held.is_there(uid, counts),
        Event::Deleted((uid, _)) => held.is_gone(&uid),
        Event::ListEnd => held.list_ends(),
        Event::Current(_) => held.comes_in_sight(),
        Event::Trouble(_) | Event::Forbidden(_) | Event::Hidden(_) => held.goes_out_of_sight(),
    }
}
