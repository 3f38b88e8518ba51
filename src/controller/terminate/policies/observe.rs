//! Looks for policies, wherever the API server knows them, and for labels of namespaces where a
//! policy asks for them.

use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Client};
use swaplet_core::objects::namespace::NamespaceWire;
use swaplet_core::objects::sidecar_policy::{GROUP, PolicyKind, VERSION};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use crate::frame::connection::discovery::ask;
use crate::frame::connection::namespaces::Namespaces;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::many::{Unlisted, watch_all_kept};
use crate::frame::watch::{Event, watch_noted};

/// News between these tasks and the loop.
const BUFFER: usize = 256;
/// How often is asked whether the kinds are installed.
const ROUND: Duration = Duration::from_secs(30);

/// What is told to the loop.
#[derive(Debug)]
pub enum News {
    /// Of policies of this kind.
    Policy(PolicyKind, Event<BoundedObject>),
    /// Of namespaces.
    Namespace(Event<NamespaceWire>),
    /// A watch has died.
    Died,
}

/// Where policies and namespaces are looked for.
#[derive(Clone)]
pub struct Scope {
    /// The client.
    pub client: Client,
    /// The namespaces that the controller works in.
    pub namespaces: Namespaces,
    /// The ages of the watches.
    pub ages: WatchAges,
}

/// Starts looking; namespaces are looked at from when `wants_namespaces` says so. The stream ends
/// only when the receiver is dropped.
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

/// `None`: nobody listens, or the watch has died.
async fn follow_policies(kind: PolicyKind, scope: &Scope, news: &mpsc::Sender<News>) -> Option<()> {
    let tell = |event| news.send(News::Policy(kind, event));
    loop {
        if !is_served(kind, scope).await {
            // An empty list: all of them are gone.
            tell(Event::ListStart).await.ok()?;
            tell(Event::ListEnd).await.ok()?;
            while !is_served(kind, scope).await {
                sleep(ROUND).await;
            }
        }
        let mut events = watches(kind, scope);
        loop {
            let event = events.recv().await?;
            let is_trouble = matches!(event, Event::Trouble(_));
            tell(event).await.ok()?;
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

/// What was not answered counts as served: the watch tells the trouble.
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
