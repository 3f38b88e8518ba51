//! OpenKruise while it is installed: the pods of its daemon, the requests to the daemon, and
//! whether its SidecarTerminator is on.

use std::collections::HashSet;
use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Resource as _};
use swaplet_core::cluster::daemon_pod::{DaemonPodWire, LABEL, NAMESPACE};
use swaplet_core::objects::recreate_request::RecreateRequestWire;
use swaplet_core::terminate::openkruise::Terminator;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

use super::{Followed, LISTED_WITHIN, Manager, News, Next, Scope, request_key};
use crate::frame::connection::discovery::Discovery;
use crate::frame::serve::rights::Right;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::many::watch_all;
use crate::frame::watch::watch;

/// The interval of checks whether its SidecarTerminator is on: switching it is a rollout of its
/// manager, which takes as long.
const LOOKS: Duration = Duration::from_secs(60);
/// The pause after a check that was not answered.
const NOT_ANSWERED: Duration = Duration::from_secs(15);
/// The most troubles that are remembered as reported: errors may name places in what was read.
const MOST_TROUBLES: usize = 256;

/// The watches of OpenKruise, from when it was found.
pub(crate) struct Beside {
    requests: Followed<RecreateRequestWire>,
    daemons: Followed<DaemonPodWire>,
    manager: Manager,
    checks: Interval,
    /// True if the manager matters.
    asks: bool,
    /// True once the manager was checked, could not be for too long, or does not matter.
    settled: bool,
    reported: bool,
    opened: Instant,
    /// The troubles that were reported: a missing right recurs with every try.
    troubles: HashSet<String>,
    discovery: Discovery,
    /// The next check whether OpenKruise has come, after a forbidden watch was given up.
    next_round: Instant,
}

impl Beside {
    pub fn new(discovery: &Discovery, scope: &Scope) -> Self {
        let client = discovery.client();
        let requests = scope.namespaces.apis(client);
        let daemons: Api<DaemonPodWire> = Api::namespaced(client.clone(), NAMESPACE);
        let mut checks = interval(LOOKS);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            requests: Followed::new(
                move || {
                    watch_all(
                        requests.clone(),
                        &ListParams::default(),
                        &WatchAges::default(),
                    )
                },
                Right::FollowRecreateRequests,
                read_request,
                News::RequestGone,
            ),
            daemons: Followed::new(
                move || {
                    watch(
                        daemons.clone(),
                        ListParams::default().labels(LABEL),
                        &WatchAges::default(),
                    )
                },
                Right::WatchDaemons,
                read_daemon,
                News::DaemonGone,
            ),
            manager: Manager::new(discovery),
            checks,
            asks: scope.terminator,
            settled: !scope.terminator,
            reported: false,
            opened: Instant::now(),
            troubles: HashSet::new(),
            next_round: discovery.next_round(),
            discovery: discovery.clone(),
        }
    }

    pub async fn next(&mut self) -> Next {
        let rests = self.requests.rests() || self.daemons.rests();
        tokio::select! {
            next = self.requests.next() => next,
            next = self.daemons.next() => next,
            _ = self.checks.tick(), if self.asks => self.check().await,
            () = sleep_until(self.next_round), if rests => {
                self.next_round = self.discovery.next_round();
                Next::Forbidden
            }
        }
    }

    /// Handles forbidden watches, by whether OpenKruise itself is installed.
    pub fn judge(&mut self, openkruise_is_there: bool) -> Vec<News> {
        self.requests
            .judge(openkruise_is_there)
            .into_iter()
            .chain(self.daemons.judge(openkruise_is_there))
            .collect()
    }

    async fn check(&mut self) -> Next {
        match self.manager.check().await {
            Ok(news) => {
                self.settled = true;
                Next::News(news)
            }
            Err(trouble) => {
                self.checks.reset_after(NOT_ANSWERED);
                // A query that is never answered must not keep all pods.
                if !self.settled && self.opened.elapsed() >= LISTED_WITHIN {
                    self.settled = true;
                    return Next::News(vec![News::Terminator(Terminator::Unknown)]);
                }
                Next::Trouble(trouble)
            }
        }
    }

    /// Returns true once, as soon as all that exists has been reported.
    pub fn settles(&mut self) -> bool {
        let settles =
            !self.reported && self.settled && self.requests.settled && self.daemons.settled;
        self.reported |= settles;
        settles
    }

    /// Returns the event to report a trouble, or `None` if it was reported before.
    pub fn trouble(&mut self, trouble: String) -> Option<News> {
        if self.troubles.len() >= MOST_TROUBLES {
            self.troubles.clear();
        }
        self.troubles
            .insert(trouble.clone())
            .then_some(News::Trouble(trouble))
    }

    /// Returns the events to report that OpenKruise was removed.
    pub fn all_gone(mut self) -> Vec<News> {
        let followed = self
            .requests
            .all_gone()
            .into_iter()
            .chain(self.daemons.all_gone());
        followed.chain(Manager::gone()).collect()
    }
}

pub(super) fn read_request(request: RecreateRequestWire) -> Option<(Box<str>, News)> {
    let namespace = request.meta().namespace.clone().unwrap_or_default();
    let request = request.read()?;
    let key = request_key(&namespace, &request.pod_uid);
    Some((key.clone(), News::Request(key, request)))
}

fn read_daemon(pod: DaemonPodWire) -> Option<(Box<str>, News)> {
    let pod = pod.read()?;
    Some((pod.name.clone(), News::Daemon(pod)))
}
