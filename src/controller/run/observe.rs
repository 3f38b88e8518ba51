//! The watches of the loop.

use kube::Api;
use kube::api::ListParams;
use swaplet_core::objects::job::JobWire;
use swaplet_core::objects::node::NodeWire;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::report::write_error::WriteError;
use tokio::sync::{mpsc, watch as channel};
use tokio::task::JoinSet;

use super::Settings;
use crate::cluster::openkruise::{self, Scope, observe};
use crate::frame::connection::discovery::Discovery;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::many::{Unlisted, watch_all_kept};
use crate::frame::watch::{Event, watch};
use crate::terminate::JOB_PODS;
use crate::terminate::policies::{StatusWrite, observe as policies};

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
    pub news: mpsc::Receiver<policies::News>,
    pub reports: JoinSet<Vec<(StatusWrite, WriteError)>>,
    pub wants_namespaces: channel::Sender<bool>,
    /// Keeps `news` open and silent where policies are not watched.
    _silent: Option<mpsc::Sender<policies::News>>,
}

impl Sidecars {
    pub(super) fn begin(discovery: &Discovery, settings: &Settings, ages: &WatchAges) -> Self {
        let (wants_namespaces, wanted) = channel::channel(false);
        let (silent, nothing) = mpsc::channel(1);
        let scope = policies::Scope {
            client: discovery.client().clone(),
            namespaces: settings.namespaces.clone(),
            ages: ages.clone(),
        };
        let (news, silent) = if settings.sidecar_policies {
            (policies::observe(&scope, wanted), None)
        } else {
            (nothing, Some(silent))
        };
        Self {
            news,
            reports: JoinSet::new(),
            wants_namespaces,
            _silent: silent,
        }
    }
}
