//! Watches policies, once the API server serves them, and namespace labels, if a policy selects by
//! them.

use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Client};
use swaplet_core::objects::namespace::NamespaceWire;
use swaplet_core::objects::sidecar_policy::{GROUP, PolicyKind, VERSION};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use crate::frame::connection::Namespaces;
use crate::frame::connection::discovery::ask;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::many::{Unlisted, watch_all_kept};
use crate::frame::watch::{Event, watch_noted};

/// The capacity of the channel between these tasks and the loop.
const BUFFER: usize = 256;
/// The interval between two checks whether the kinds are installed.
const ROUND: Duration = Duration::from_secs(30);

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
#[must_use]
pub fn observe(scope: &Scope, wants_namespaces: watch::Receiver<bool>) -> mpsc::Receiver<News> {
    let (news, receiver) = mpsc::channel(BUFFER);
    for kind in PolicyKind::ALL {
        let (scope, news) = (scope.clone(), news.clone());
        tokio::spawn(async move {
            tokio::select! {
                _ = follow_policies(kind, &scope, &news) => drop(news.send(News::Died).await),
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

/// Returns `None` if the receiver is dropped or the watch has ended.
async fn follow_policies(kind: PolicyKind, scope: &Scope, news: &mpsc::Sender<News>) -> Option<()> {
    let report = |event| news.send(News::Policy(kind, event));
    loop {
        if !is_served(kind, scope).await {
            // An empty list: all policies of the kind are gone.
            report(Event::ListStart).await.ok()?;
            report(Event::ListEnd).await.ok()?;
            while !is_served(kind, scope).await {
                sleep(ROUND).await;
            }
        }
        let mut events = watches(kind, scope);
        loop {
            let event = events.recv().await?;
            let is_trouble = matches!(event, Event::Trouble(_));
            report(event).await.ok()?;
            if is_trouble && !is_served(kind, scope).await {
                break;
            }
        }
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
        PolicyKind::Cluster => watch_noted(
            Api::all_with(client.clone(), &resource),
            ListParams::default(),
            &scope.ages,
        ),
    }
}

/// Returns whether the API server serves the kind; true on an error, which the watch reports.
async fn is_served(kind: PolicyKind, scope: &Scope) -> bool {
    match ask(&scope.client, &format!("{GROUP}/{VERSION}")).await {
        Ok(resources) => resources.serve(kind.plural()),
        Err(_) => true,
    }
}

async fn follow_namespaces(
    scope: &Scope,
    news: &mpsc::Sender<News>,
    mut wanted: watch::Receiver<bool>,
) -> Option<()> {
    wanted.wait_for(|wanted| *wanted).await.ok()?;
    let mut events = watch_noted(
        Api::<NamespaceWire>::all(scope.client.clone()),
        ListParams::default(),
        &scope.ages,
    );
    loop {
        let event = events.recv().await?;
        news.send(News::Namespace(event)).await.ok()?;
    }
}
