//! The search for OpenKruise on the cluster.
//!
//! Without OpenKruise it costs one request in five minutes; with it two watches, and four requests
//! a minute where it matters who ends sidecars. Where only swaplet's CRDs are applied, forbidden
//! watches are tried once, and a manager is searched for once. After that it costs the check for
//! OpenKruise, which other loops need too, and the watches that are allowed.

use std::time::Duration;

use swaplet_core::objects::recreate_request::PLURAL;
use swaplet_core::terminate::openkruise::{Coexist, Terminator};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::beside::Beside;
use super::followed::Next;
use super::{News, matters};
use crate::cluster::rules::Rules;
use crate::frame::connection::discovery::Discovery;
use crate::frame::connection::namespaces::Namespaces;

/// The interval of checks for OpenKruise where it is not installed, which changes rarely.
const NOT_INSTALLED: Duration = Duration::from_secs(300);
/// The pause after a check that was not answered.
const NOT_ANSWERED: Duration = Duration::from_secs(15);
/// The most events that wait between this task and the loop.
const BUFFER: usize = 256;

/// The scope of the search.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The namespaces in which requests are watched.
    pub namespaces: Namespaces,
    /// True if it matters whether its SidecarTerminator is on.
    pub terminator: bool,
    /// True if anything of OpenKruise matters.
    pub wanted: bool,
}

impl Scope {
    /// Returns the scope of a controller with these rules; `restarts` alone makes it search.
    #[must_use]
    pub fn of(namespaces: Namespaces, rules: &Rules, restarts: bool) -> Self {
        Self {
            namespaces,
            terminator: rules.coexist != Coexist::Own,
            wanted: matters(rules) || restarts,
        }
    }
}

/// Starts the search. The stream ends only if the receiver is dropped, or a watch has died.
#[must_use]
pub fn observe(discovery: Discovery, scope: Scope) -> mpsc::Receiver<News> {
    let (news, receiver) = mpsc::channel(BUFFER);
    tokio::spawn(
        Observer {
            discovery,
            scope,
            news,
        }
        .run(),
    );
    receiver
}

struct Observer {
    discovery: Discovery,
    scope: Scope,
    news: mpsc::Sender<News>,
}

/// The receiver was dropped, or a watch has died.
struct Closed;

impl Observer {
    async fn run(self) {
        if !self.scope.wanted {
            self.news.closed().await;
        }
        while self.observe().await.is_ok() {}
    }

    async fn observe(&self) -> Result<(), Closed> {
        let pause = match self.discovery.resources().await {
            Ok(resources) if resources.serve(PLURAL) => return self.beside().await,
            Ok(_) => {
                self.report(vec![News::Terminator(Terminator::Absent), News::Seen])
                    .await?;
                NOT_INSTALLED
            }
            Err(error) => {
                self.report(vec![News::Trouble(format!(
                    "cannot check whether it is installed: {error}"
                ))])
                .await?;
                NOT_ANSWERED
            }
        };
        tokio::select! {
            () = sleep(pause) => Ok(()),
            () = self.news.closed() => Err(Closed),
        }
    }

    /// Sends events until OpenKruise is gone.
    async fn beside(&self) -> Result<(), Closed> {
        let mut beside = Beside::new(&self.discovery, &self.scope);
        loop {
            let news = match beside.next().await {
                Next::News(news) => news,
                Next::Died => return Err(Closed),
                Next::Trouble(trouble) => match self.discovery.resources_now().await {
                    Ok(resources) if !resources.serve(PLURAL) => {
                        return self.report(beside.all_gone()).await;
                    }
                    _ => beside.trouble(trouble).into_iter().collect(),
                },
                Next::Forbidden => match self.discovery.resources().await {
                    Ok(resources) if !resources.serve(PLURAL) => {
                        return self.report(beside.all_gone()).await;
                    }
                    Ok(resources) => beside.judge(resources.are_openkruises()),
                    Err(error) => beside
                        .trouble(format!("cannot check whether it is installed: {error}"))
                        .into_iter()
                        .collect(),
                },
            };
            self.report(news).await?;
            if beside.settles() {
                self.report(vec![News::Seen]).await?;
            }
        }
    }

    async fn report(&self, news: Vec<News>) -> Result<(), Closed> {
        for one in news {
            self.news.send(one).await.map_err(|_| Closed)?;
        }
        Ok(())
    }
}
