//! The watches of the loop.

use kube::Api;
use kube::api::ListParams;
use swaplet_core::objects::job::JobWire;
use swaplet_core::objects::node::NodeWire;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::report::write_error::WriteError;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Settings;
use crate::cluster::openkruise::{self, Scope, observe};
use crate::frame::connection::discovery::Discovery;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::many::{Unlisted, watch_all_kept};
use crate::frame::watch::{Event, watch};
use crate::terminate::JOB_PODS;
use crate::terminate::policies::StatusWrite;
use crate::terminate::policies::observe::{self as policies, PolicyWatches};

/// The watches of the loop.
pub(super) struct Watches {
    pub pods: mpsc::Receiver<Event<PodWire>>,
    pub jobs: mpsc::Receiver<Event<JobWire>>,
    pub nodes: mpsc::Receiver<Event<NodeWire>>,
    pub openkruise: mpsc::Receiver<openkruise::News>,
}

impl Watches {
    pub(super) fn begin(discovery: &Discovery, settings: &Settings, ages: &WatchAges) -> Self {
        let (client, namespaces) = (discovery.client(), &settings.namespaces);
        let scope = Scope::of(
            namespaces.clone(),
            &settings.rules,
            settings.restart.is_some(),
        );
        Self {
            pods: pods(discovery, settings, ages),
            jobs: watch_all_kept(
                namespaces.apis(client),
                &ListParams::default(),
                ages,
                Unlisted::AreHidden,
                JobWire::clone,
            ),
            nodes: watch(Api::all(client.clone()), ListParams::default(), ages),
            openkruise: observe(discovery.clone(), scope),
        }
    }

    /// Lists all pods again, and watches them from then on.
    pub(super) fn list_pods_again(
        &mut self,
        discovery: &Discovery,
        settings: &Settings,
        ages: &WatchAges,
    ) {
        self.pods = pods(discovery, settings, ages);
    }
}

fn pods(
    discovery: &Discovery,
    settings: &Settings,
    ages: &WatchAges,
) -> mpsc::Receiver<Event<PodWire>> {
    watch_all_kept(
        settings.namespaces.apis(discovery.client()),
        &ListParams::default().fields(JOB_PODS),
        ages,
        Unlisted::AreHiddenFor(settings.write_deadline),
        PodWire::without_containers,
    )
}

/// The watches of policies, and the writes of their statuses.
pub(super) struct Sidecars {
    pub news: PolicyWatches,
    pub reports: JoinSet<Vec<(StatusWrite, WriteError)>>,
}

impl Sidecars {
    pub(super) fn begin(discovery: &Discovery, settings: &Settings, ages: &WatchAges) -> Self {
        let scope = policies::Scope {
            client: discovery.client().clone(),
            namespaces: settings.namespaces.clone(),
            ages: ages.clone(),
        };
        Self {
            news: PolicyWatches::begin(scope, settings.sidecar_policies),
            reports: JoinSet::new(),
        }
    }
}
