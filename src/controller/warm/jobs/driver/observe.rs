//! A watch of jobs of one kind, while the API server serves them and OpenKruise does not process
//! them.
//!
//! OpenKruise's manager processes every `ImagePullJob`, even for nodes without its daemon, and
//! writes the status. Two controllers would overwrite each other, so while it processes jobs they
//! are left to it. Its CRDs are recognised by `NodeImage`s, which swaplet never installs. They may
//! exist without the manager, or with one that does not process such jobs.

use std::sync::Arc;

use futures::FutureExt as _;
use kube::api::ListParams;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::terminate::openkruise::{Coexist, Signals, leaves_pull_jobs};
use swaplet_core::warm::pull_job::object::JobKind;
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

use crate::cluster::openkruise::Manager;
use crate::frame::connection::Namespaces;
use crate::frame::connection::discovery::{Discovery, Resources};
use crate::frame::watch::Event;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::many::watch_all;
use crate::frame::watch::served::{Served, Verdict, watch_judged};

/// The plural of the resource by which OpenKruise is recognised.
const NODE_IMAGES: &str = "nodeimages";

/// Starts the watch, in some namespaces or in all, and records the ages of its watches. While the
/// jobs are not ours, the list is empty. The stream ends only when the receiver is dropped, or a
/// watch has died.
pub fn observe(
    discovery: Discovery,
    (kind, coexist, manager): (JobKind, Coexist, SharedManager),
    namespaces: Namespaces,
    ages: WatchAges,
) -> mpsc::Receiver<Event<BoundedObject>> {
    let served = Served {
        plural: kind.plural(),
        is_ours_alone: true,
        reports_absence: true,
    };
    let rounds = discovery.clone();
    let judge = move |resources| {
        let round = rounds.next_round();
        ours(resources, kind, coexist, manager.clone(), round).boxed()
    };
    watch_judged(discovery, served, Box::new(judge), move |discovery| {
        let apis = namespaces.dynamic_apis(discovery.client(), &kind.resource());
        watch_all(apis, &ListParams::default(), &ages)
    })
}

/// Returns whether the jobs are ours.
async fn ours(
    resources: Resources,
    kind: JobKind,
    coexist: Coexist,
    manager: SharedManager,
    round: Instant,
) -> Result<Verdict, String> {
    if coexist == Coexist::Own && !resources.lack(kind.plural()) {
        return Ok(Verdict::Watched);
    }
    if !resources.serve_if_known(kind.plural())? {
        return Ok(Verdict::Absent(None));
    }
    // If swaplet processes every job, OpenKruise's manager does not matter.
    if !resources.serve(NODE_IMAGES) || coexist == Coexist::Own {
        return Ok(Verdict::Watched);
    }
    let why = match manager.signals(round).await? {
        Some(signals) => leaves_pull_jobs(coexist, &signals),
        None => Some("it is being checked whether its manager runs"),
    };
    Ok(why.map_or(Verdict::Watched, |why| Verdict::Absent(Some(why))))
}

/// The signals of OpenKruise's manager, read once in each round for both kinds.
#[derive(Clone)]
pub struct SharedManager(Arc<Mutex<Shown>>);

struct Shown {
    manager: Manager,
    /// The end of the round in which the signals were read, and the signals.
    last: Option<(Instant, Option<Signals>)>,
}

impl SharedManager {
    pub fn new(discovery: &Discovery) -> Self {
        Self(Arc::new(Mutex::new(Shown {
            manager: Manager::new(discovery),
            last: None,
        })))
    }

    /// Returns the signals; `None` if only another read can tell whether the manager is alive.
    async fn signals(&self, round: Instant) -> Result<Option<Signals>, String> {
        let mut shown = self.0.lock().await;
        if let Some((_, signals)) = shown.last.as_ref().filter(|(of, _)| *of == round) {
            return Ok(signals.clone());
        }
        let signals = shown.manager.signals_of_its_crds().await?;
        shown.last = Some((round, signals.clone()));
        Ok(signals)
    }
}
