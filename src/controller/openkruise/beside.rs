//! While OpenKruise is installed: its daemon's pods, the requests to the daemon, and whether its SidecarTerminator is on.

use std::collections::HashSet;
use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Client};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::News;
use super::followed::{Followed, Next};
use super::manager::Manager;
use super::observe::Scope;
use crate::controller::watch::watch_selected;
use crate::controller::watch_many::watch_all;
use crate::objects::daemon_pod::{DaemonPodWire, LABEL, NAMESPACE};
use crate::objects::recreate_request::RecreateRequestWire;

/// How often is asked whether its SidecarTerminator is on: switching it is a rollout of its manager, which takes as long.
const LOOKS: Duration = Duration::from_secs(60);
/// How long after a question that was not answered it is asked again.
const NOT_ANSWERED: Duration = Duration::from_secs(15);

/// OpenKruise, from when it was found.
pub(super) struct Beside {
    requests: Followed<RecreateRequestWire>,
    daemons: Followed<DaemonPodWire>,
    manager: Manager,
    looks: Interval,
    /// Whether the manager matters.
    asks: bool,
    /// Whether the manager has been seen, or does not matter.
    settled: bool,
    told: bool,
    /// Those that were told: a missing right is met again and again.
    troubles: HashSet<String>,
}

impl Beside {
    pub fn new(client: &Client, scope: &Scope) -> Self {
        let daemons: Api<DaemonPodWire> = Api::namespaced(client.clone(), NAMESPACE);
        let daemons = watch_selected(daemons, ListParams::default().labels(LABEL));
        let mut looks = interval(LOOKS);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            requests: Followed::new(watch_all(scope.namespaces.apis(client), ""), read_request, News::RequestGone),
            daemons: Followed::new(daemons, read_daemon, News::DaemonGone),
            manager: Manager::new(client),
            looks,
            asks: scope.terminator,
            settled: !scope.terminator,
            told: false,
            troubles: HashSet::new(),
        }
    }

    /// What happens next.
    pub async fn next(&mut self) -> Next {
        tokio::select! {
            next = self.requests.next() => next,
            next = self.daemons.next() => next,
            _ = self.looks.tick(), if self.asks => self.look().await,
        }
    }

    async fn look(&mut self) -> Next {
        match self.manager.terminator().await {
            Ok(terminator) => {
                self.settled = true;
                Next::News(vec![News::Terminator(terminator)])
            }
            Err(trouble) => {
                self.looks.reset_after(NOT_ANSWERED);
                Next::Trouble(trouble)
            }
        }
    }

    /// Whether all there is has been told; says so once.
    pub fn settles(&mut self) -> bool {
        let settles = !self.told && self.settled && self.requests.settled && self.daemons.settled;
        self.told |= settles;
        settles
    }

    /// What goes wrong, where that is new.
    pub fn trouble(&mut self, trouble: String) -> Option<News> {
        self.troubles.insert(trouble.clone()).then_some(News::Trouble(trouble))
    }

    /// OpenKruise was removed.
    pub fn all_gone(self) -> Vec<News> {
        self.requests.all_gone().into_iter().chain(self.daemons.all_gone()).collect()
    }
}

fn read_request(request: RecreateRequestWire) -> Option<(Box<str>, News)> {
    let request = request.read()?;
    Some((request.pod_uid.clone(), News::Request(request)))
}

fn read_daemon(pod: DaemonPodWire) -> Option<(Box<str>, News)> {
    let pod = pod.read()?;
    Some((pod.name.clone(), News::Daemon(pod)))
}
