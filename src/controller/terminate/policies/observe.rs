//! Watches policies, once the API server serves them, and namespace labels, if a policy selects by
//! them.

use kube::api::ListParams;
use kube::{Api, Client};
use swaplet_core::objects::namespace::NamespaceWire;
use swaplet_core::objects::sidecar_policy::{GROUP, PolicyKind, VERSION};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use tokio::sync::{mpsc, watch};

use crate::frame::connection::Namespaces;
use crate::frame::connection::discovery::Discovery;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::many::{Unlisted, watch_all_kept};
use crate::frame::watch::served::{Served, watch_served};
use crate::frame::watch::{BUFFER, Event, watch};

/// An event for the loop.
#[derive(Debug)]
pub enum News {
    /// An event about a policy of this kind.
    Policy(PolicyKind, Event<BoundedObject>),
    /// An event about a namespace.
    Namespace(Event<NamespaceWire>),
    /// A watch task has ended.
    Died,
}

/// The scope of the watches.
#[derive(Clone)]
pub struct Scope {
    /// The client.
    pub client: Client,
    /// The namespaces in which the controller works.
    pub namespaces: Namespaces,
    /// The ages of the watches.
    pub ages: WatchAges,
}

/// Starts the watches; that of namespaces once `wants_namespaces` is true. The stream ends only
/// when the receiver is dropped.
pub fn observe(scope: &Scope, wants_namespaces: watch::Receiver<bool>) -> mpsc::Receiver<News> {
    let (news, receiver) = mpsc::channel(BUFFER);
    let discovery = Discovery::of(scope.client.clone(), &format!("{GROUP}/{VERSION}"));
    for kind in PolicyKind::ALL {
        let served = Served {
            plural: kind.plural(),
            is_ours_alone: false,
            reports_absence: true,
        };
        let scope = scope.clone();
        let policies = watch_served(discovery.clone(), served, move |_| watches(kind, &scope));
        let news = news.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = report(policies, &news, |event| News::Policy(kind, event)) => drop(news.send(News::Died).await),
                () = news.closed() => {}
            }
        });
    }
    let scope = scope.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = follow_namespaces(&scope, &news, wants_namespaces) => drop(news.send(News::Died).await),
            () = news.closed() => {}
        }
    });
    receiver
}

/// Reports the events of a watch. Returns `None` if the receiver is dropped or the watch has ended.
async fn report<K>(
    mut events: mpsc::Receiver<Event<K>>,
    news: &mpsc::Sender<News>,
    of: impl Fn(Event<K>) -> News,
) -> Option<()> {
    loop {
        news.send(of(events.recv().await?)).await.ok()?;
    }
}

fn watches(kind: PolicyKind, scope: &Scope) -> mpsc::Receiver<Event<BoundedObject>> {
    let (client, resource) = (&scope.client, kind.resource());
    match kind {
        PolicyKind::Namespaced => watch_all_kept(
            scope.namespaces.dynamic_apis(client, &resource),
            &ListParams::default(),
            &scope.ages,
            Unlisted::AreHidden,
            BoundedObject::clone,
        ),
        PolicyKind::Cluster => watch(
            Api::all_with(client.clone(), &resource),
            ListParams::default(),
            &scope.ages,
        ),
    }
}

async fn follow_namespaces(
    scope: &Scope,
    news: &mpsc::Sender<News>,
    mut wanted: watch::Receiver<bool>,
) -> Option<()> {
    wanted.wait_for(|wanted| *wanted).await.ok()?;
    let events = watch(
        Api::<NamespaceWire>::all(scope.client.clone()),
        ListParams::default(),
        &scope.ages,
    );
    report(events, news, News::Namespace).await
}
