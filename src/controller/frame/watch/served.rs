//! Watches of kinds that a CRD defines, for as long as the API server serves them.

use std::fmt::Debug;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::{BUFFER, Event, Watched};
use crate::frame::connection::discovery::{Discovery, Resources};

/// The condition under which a kind is watched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    /// The resource of the kind, in the plural.
    pub plural: &'static str,
    /// True if the kind is watched only where OpenKruise, whose kind it is, is not installed.
    pub is_ours_alone: bool,
    /// True if an empty list is reported where the kind is known not to be watched from the start,
    /// too.
    pub reports_absence: bool,
}

/// Whether a kind is watched.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verdict {
    Watched,
    /// It is known that there is nothing to watch; a reason is logged.
    Absent(Option<&'static str>),
    Unknown,
}

/// Judges by what the API server serves.
pub(crate) type Judge =
    Box<dyn Fn(Resources) -> BoxFuture<'static, Result<Verdict, String>> + Send + Sync>;

impl Served {
    /// Judges a kind that is watched also where the query is forbidden, for the watch may be
    /// allowed, but not what may be OpenKruise's.
    fn judge(self, resources: &Resources) -> Verdict {
        let is_openkruises = self.is_ours_alone && resources.are_openkruises();
        if resources.lack(self.plural) || is_openkruises && resources.serve(self.plural) {
            return Verdict::Absent(None);
        }
        if is_openkruises {
            Verdict::Unknown
        } else {
            Verdict::Watched
        }
    }
}

/// Starts the watches of `open` whenever the kind is served, and reports an empty list when it is
/// known not to be served any more. The stream ends only if the receiver is dropped, or a watch has
/// died.
pub(crate) fn watch_served<K: Watched>(
    discovery: Discovery,
    served: Served,
    open: impl Fn(&Discovery) -> mpsc::Receiver<Event<K>> + Send + 'static,
) -> mpsc::Receiver<Event<K>> {
    let judge = move |resources| async move { Ok(served.judge(&resources)) }.boxed();
    watch_judged(discovery, served, Box::new(judge), open)
}

/// Like [`watch_served`], with another judge.
pub(crate) fn watch_judged<K: Watched>(
    discovery: Discovery,
    served: Served,
    judge: Judge,
    open: impl Fn(&Discovery) -> mpsc::Receiver<Event<K>> + Send + 'static,
) -> mpsc::Receiver<Event<K>> {
    let (events, receiver) = mpsc::channel(BUFFER);
    tokio::spawn(async move {
        let mut listener = served.reports_absence.then_some(&events);
        let kind = (&discovery, served, &judge);
        loop {
            let found = tokio::select! {
                found = installed(kind, listener.take()) => found,
                () = events.closed() => return,
            };
            if found.is_none() {
                return;
            }
            let watches = open(&discovery);
            if follow(kind, watches, &events).await.is_none() {
                return;
            }
        }
    });
    receiver
}

/// The kind, and how it is judged whether it is watched.
type Kind<'a> = (&'a Discovery, Served, &'a Judge);

async fn judged(resources: Result<Resources, String>, judge: &Judge) -> Result<Verdict, String> {
    judge(resources?).await
}

/// Returns when the API server serves the kind. Until then `listener`, if any, gets an empty list,
/// once it is known that there is nothing to watch. Returns `None` if the receiver was dropped.
async fn installed<K>(
    (discovery, served, judge): Kind<'_>,
    mut listener: Option<&mpsc::Sender<Event<K>>>,
) -> Option<()> {
    let plural = served.plural;
    loop {
        match judged(discovery.resources().await, judge).await {
            Ok(Verdict::Watched) => return Some(()),
            Ok(Verdict::Absent(why)) => {
                if let Some(listener) = listener.take() {
                    report_none(listener, plural, why).await?;
                }
            }
            Ok(Verdict::Unknown) => {}
            Err(error) => {
                tracing::warn!(
                    error,
                    "cannot check whether {plural} are installed; trying again"
                );
                // The watch may work where the query does not.
                if !served.is_ours_alone {
                    return Some(());
                }
            }
        }
        sleep_until(discovery.next_round()).await;
    }
}

/// Passes events on until the kind is not served any more. Returns `None` if the receiver was
/// dropped, or the watch has died.
async fn follow<K>(
    (discovery, served, judge): Kind<'_>,
    mut watches: mpsc::Receiver<Event<K>>,
    listener: &mpsc::Sender<Event<K>>,
) -> Option<()> {
    loop {
        let event = tokio::select! {
            event = watches.recv() => Some(event?),
            () = sleep_until(discovery.next_round()), if served.is_ours_alone => None,
            () = listener.closed() => return None,
        };
        let resources = match &event {
            None => discovery.resources().await,
            Some(Event::Trouble(_)) => discovery.resources_now().await,
            Some(_) => Err(String::new()),
        };
        if let Ok(Verdict::Absent(why)) = judged(resources, judge).await {
            return report_none(listener, served.plural, why).await;
        }
        if let Some(event) = event {
            listener.send(event).await.ok()?;
        }
    }
}

/// Reports an empty list: there are no objects of the kind. Returns `None` if the receiver was
/// dropped.
async fn report_none<K>(
    listener: &mpsc::Sender<Event<K>>,
    plural: &str,
    why: Option<&str>,
) -> Option<()> {
    if let Some(why) = why {
        tracing::warn!(why, "OpenKruise is installed; {plural} are left to it");
    }
    let now = Instant::now();
    for event in [Event::ListStart, Event::ListEnd, Event::Current(now)] {
        listener.send(event).await.ok()?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube::Api;
    use kube::api::ListParams;
    use swaplet_core::objects::recreate_request::PLURAL;
    use swaplet_core::restart::request::RestartRequestWire;
    use swaplet_testbed::apiserver::{Effect, Rule};
    use swaplet_testbed::{ApiServer, Clock};
    use tokio::time::timeout_at;

    use super::*;
    use crate::frame::watch::age::WatchAges;
    use crate::frame::watch::watch;

    /// Returns true if a list ends within five minutes.
    async fn lists(events: &mut mpsc::Receiver<Event<RestartRequestWire>>) -> bool {
        let end = Instant::now() + Duration::from_secs(300);
        while let Ok(event) = timeout_at(end, events.recv()).await {
            if matches!(event.unwrap(), Event::ListEnd) {
                return true;
            }
        }
        false
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_cannot_be_asked_for_is_not_known_to_be_absent() {
        for reports_absence in [false, true] {
            let server = ApiServer::new(Clock::default());
            let begin = |code| {
                let served = Served {
                    plural: PLURAL,
                    is_ours_alone: false,
                    reports_absence,
                };
                let discovery = Discovery::new(server.client_as("test"));
                let rule = Rule::new(Effect::reply(code)).outside("/apis/");
                let rule = (code > 0).then(|| server.faults().add(rule));
                let events = watch_served(discovery, served, |discovery| {
                    watch(
                        Api::<RestartRequestWire>::all(discovery.client().clone()),
                        ListParams::default(),
                        &WatchAges::default(),
                    )
                });
                (events, rule)
            };
            let gone = Rule::new(Effect::reply(404)).resource(PLURAL);
            let absent = server.faults().add(gone.clone());
            let (mut events, rule) = begin(403);
            assert!(!lists(&mut events).await, "it may be there");
            server.faults().remove(absent);
            assert!(lists(&mut events).await, "it is, and is watched");
            server.faults().remove(rule.unwrap());
            let (mut events, rule) = begin(503);
            assert!(lists(&mut events).await, "its list works");
            server.faults().remove(rule.unwrap());
            let (mut events, rule) = begin(404);
            assert_eq!(lists(&mut events).await, reports_absence);
            server.faults().remove(rule.unwrap());
            assert!(lists(&mut events).await, "it is served now");
            let (mut events, _) = begin(0);
            assert!(lists(&mut events).await);
            server.faults().add(gone);
            let hidden = Rule::new(Effect::reply(403)).outside("/apis/");
            let hidden = server.faults().add(hidden);
            assert!(!lists(&mut events).await, "it may still be served");
            server.faults().remove(hidden);
            server
                .faults()
                .add(Rule::new(Effect::reply(404)).outside("/apis/"));
            assert!(lists(&mut events).await, "it is gone");
        }
    }
}
