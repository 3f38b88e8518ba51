//! While OpenKruise is installed: its daemon's pods, the requests to the daemon, and whether its
//! SidecarTerminator is on.

use std::collections::HashSet;
use std::time::Duration;

use kube::Api;
use kube::api::ListParams;
use swaplet_core::cluster::daemon_pod::{DaemonPodWire, LABEL, NAMESPACE};
use swaplet_core::objects::recreate_request::RecreateRequestWire;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

use super::News;
use super::followed::{Followed, Next, Tell};
use super::manager::Manager;
use super::observe::Scope;
use crate::frame::connection::discovery::Discovery;
use crate::frame::watch::many::watch_all;
use crate::frame::watch::watch_selected;

/// How often is asked whether its SidecarTerminator is on: switching it is a rollout of its
/// manager, which takes as long.
const LOOKS: Duration = Duration::from_secs(60);
/// How long after a question that was not answered it is asked again.
const NOT_ANSWERED: Duration = Duration::from_secs(15);
/// What the right to see the requests is for.
const FOLLOW_REQUESTS: &str = "requests to OpenKruise's daemon cannot be followed";
/// What the right to see the pods of the daemon is for.
const SEE_DAEMONS: &str =
    "OpenKruise's daemon is not asked to end sidecars, because its pods cannot be seen";

/// OpenKruise, from when it was found.
pub(crate) struct Beside {
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
    discovery: Discovery,
    /// When is asked again whether OpenKruise has come, where what is forbidden was given up.
    next_round: Instant,
}

impl Beside {
    pub fn new(discovery: &Discovery, scope: &Scope) -> Self {
        let client = discovery.client();
        let requests = scope.namespaces.apis(client);
        let daemons: Api<DaemonPodWire> = Api::namespaced(client.clone(), NAMESPACE);
        let mut looks = interval(LOOKS);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            requests: Followed::new(
                move || watch_all(requests.clone(), ""),
                FOLLOW_REQUESTS,
                Tell {
                    read: read_request,
                    gone: News::RequestGone,
                },
            ),
            daemons: Followed::new(
                move || watch_selected(daemons.clone(), ListParams::default().labels(LABEL)),
                SEE_DAEMONS,
                Tell {
                    read: read_daemon,
                    gone: News::DaemonGone,
                },
            ),
            manager: Manager::new(discovery),
            looks,
            asks: scope.terminator,
            settled: !scope.terminator,
            told: false,
            troubles: HashSet::new(),
            next_round: discovery.next_round(),
            discovery: discovery.clone(),
        }
    }

    /// What happens next.
    pub async fn next(&mut self) -> Next {
        let rests = self.requests.rests() || self.daemons.rests();
        tokio::select! {
            next = self.requests.next() => next,
            next = self.daemons.next() => next,
            _ = self.looks.tick(), if self.asks => self.look().await,
            () = sleep_until(self.next_round), if rests => {
                self.next_round = self.discovery.next_round();
                Next::Forbidden
            }
        }
    }

    /// Whether OpenKruise is really there: what that means for what is forbidden.
    pub fn judge(&mut self, openkruise_is_there: bool) -> Vec<News> {
        self.requests
            .judge(openkruise_is_there)
            .into_iter()
            .chain(self.daemons.judge(openkruise_is_there))
            .collect()
    }

    async fn look(&mut self) -> Next {
        match self.manager.look().await {
            Ok(news) => {
                self.settled = true;
                Next::News(news)
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
        self.troubles
            .insert(trouble.clone())
            .then_some(News::Trouble(trouble))
    }

    /// OpenKruise was removed.
    pub fn all_gone(mut self) -> Vec<News> {
        let followed = self
            .requests
            .all_gone()
            .into_iter()
            .chain(self.daemons.all_gone());
        followed.chain(Manager::gone()).collect()
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
