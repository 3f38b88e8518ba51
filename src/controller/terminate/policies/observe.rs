//! Watches policies, once the API server serves them, and namespace labels, if a policy selects by
//! them.

use kube::api::ListParams;
use kube::{Api, Client};
use swaplet_core::objects::namespace::NamespaceWire;
use swaplet_core::objects::sidecar_policy::{GROUP, PolicyKind, VERSION};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use tokio::sync::mpsc;

use crate::frame::connection::Namespaces;
use crate::frame::connection::discovery::Discovery;
use crate::frame::isolated::TaskDied;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::many::{Unlisted, watch_all_kept};
use crate::frame::watch::served::{Served, watch_served};
use crate::frame::watch::{Event, heard_if, watch};

/// What is watched, for the error that a watch has died.
const WHAT: &str = "SidecarPolicies";

/// An event for the loop.
#[derive(Debug)]
pub enum News {
    /// An event about a policy of this kind.
    Policy(PolicyKind, Event<BoundedObject>),
    /// An event about a namespace.
    Namespace(Event<NamespaceWire>),
}

type Watch<K> = Option<mpsc::Receiver<Event<K>>>;

/// The watches.
pub struct PolicyWatches {
    client: Client,
    ages: WatchAges,
    namespaced: Watch<BoundedObject>,
    of_cluster: Watch<BoundedObject>,
    namespaces: Watch<NamespaceWire>,
}

impl PolicyWatches {
    /// Starts the watches of policies; none if they are not `on`.
    pub fn begin(client: Client, namespaces: &Namespaces, ages: &WatchAges, on: bool) -> Self {
        let discovery = Discovery::of(client.clone(), &format!("{GROUP}/{VERSION}"));
        let policies = |kind: PolicyKind| {
            let served = Served {
                plural: kind.plural(),
                is_ours_alone: false,
                reports_absence: true,
            };
            let (namespaces, ages) = (namespaces.clone(), ages.clone());
            watch_served(discovery.clone(), served, move |discovery| {
                watches(kind, discovery.client(), &namespaces, &ages)
            })
        };
        Self {
            namespaced: on.then(|| policies(PolicyKind::Namespaced)),
            of_cluster: on.then(|| policies(PolicyKind::Cluster)),
            namespaces: None,
            client,
            ages: ages.clone(),
        }
    }

    /// Starts the watch of namespaces, unless it was.
    pub fn ask_for_namespaces(&mut self) {
        self.namespaces.get_or_insert_with(|| {
            let namespaces = Api::all(self.client.clone());
            watch(namespaces, ListParams::default(), &self.ages)
        });
    }

    /// Returns the next event. Without watches it waits forever.
    ///
    /// # Errors
    /// Returns [`TaskDied`] if a watch has died.
    pub async fn next(&mut self) -> Result<News, TaskDied> {
        tokio::select! {
            event = heard_if(&mut self.namespaced, WHAT) => event.map(|event| News::Policy(PolicyKind::Namespaced, event)),
            event = heard_if(&mut self.of_cluster, WHAT) => event.map(|event| News::Policy(PolicyKind::Cluster, event)),
            event = heard_if(&mut self.namespaces, WHAT) => event.map(News::Namespace),
        }
    }
}

fn watches(
    kind: PolicyKind,
    client: &Client,
    namespaces: &Namespaces,
    ages: &WatchAges,
) -> mpsc::Receiver<Event<BoundedObject>> {
    let resource = kind.resource();
    match kind {
        PolicyKind::Namespaced => watch_all_kept(
            namespaces.dynamic_apis(client, &resource),
            &ListParams::default(),
            ages,
            Unlisted::AreHidden,
            BoundedObject::clone,
        ),
        PolicyKind::Cluster => watch(
            Api::all_with(client.clone(), &resource),
            ListParams::default(),
            ages,
        ),
    }
}
