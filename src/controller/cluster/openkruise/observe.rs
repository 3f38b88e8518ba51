//! Looks for OpenKruise on the cluster.
//!
//! Without OpenKruise this costs one request in five minutes; beside it two watches, and four
//! requests a minute where it matters who ends sidecars. Where only swaplet's CRDs are applied,
//! what may not be seen is tried once, and a manager looked for once; after that it costs the
//! question whether OpenKruise has come, which others ask too, and watches of what may be seen.

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

/// How often is asked for OpenKruise where it is not installed: installing it is a day's event.
const NOT_INSTALLED: Duration = Duration::from_secs(300);
/// How long after a question that was not answered it is asked again.
const NOT_ANSWERED: Duration = Duration::from_secs(15);
/// News between this task and the loop.
const BUFFER: usize = 256;

/// What is looked for.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Where requests are looked for.
    pub namespaces: Namespaces,
    /// Whether it matters that its SidecarTerminator is on.
    pub terminator: bool,
    /// Whether anything of it matters.
    pub wanted: bool,
}

impl Scope {
    /// What a controller looks for that has these rules.
    #[must_use]
    pub fn of(namespaces: Namespaces, rules: &Rules, restarts: bool) -> Self {
        Self {
            namespaces,
            terminator: rules.coexist != Coexist::Own,
            wanted: matters(rules) || restarts,
        }
    }
}

/// Starts looking. The stream ends only when the receiver is dropped, or a watch has died.
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

/// Nobody listens any more, or a watch has died.
struct Closed;

impl Observer {
    async fn run(self) {
        if !self.scope.wanted {
            self.news.closed().await;
        }
        while self.look().await.is_ok() {}
    }

    async fn look(&self) -> Result<(), Closed> {
        let pause = match self.discovery.resources().await {
            Ok(resources) if resources.serve(PLURAL) => return self.beside().await,
            Ok(_) => {
                self.tell(vec![News::Terminator(Terminator::Absent), News::Seen])
                    .await?;
                NOT_INSTALLED
            }
            Err(error) => {
                self.tell(vec![News::Trouble(format!(
                    "cannot ask whether it is installed: {error}"
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

    /// Tells what happens until OpenKruise is gone.
    async fn beside(&self) -> Result<(), Closed> {
        let mut beside = Beside::new(&self.discovery, &self.scope);
        loop {
            let news = match beside.next().await {
                Next::News(news) => news,
                Next::Died => return Err(Closed),
                Next::Trouble(trouble) => match self.discovery.resources_now().await {
                    Ok(resources) if !resources.serve(PLURAL) => {
                        return self.tell(beside.all_gone()).await;
                    }
                    _ => beside.trouble(trouble).into_iter().collect(),
                },
                Next::Forbidden => match self.discovery.resources().await {
                    Ok(resources) if !resources.serve(PLURAL) => {
                        return self.tell(beside.all_gone()).await;
                    }
                    Ok(resources) => beside.judge(resources.are_openkruises()),
                    Err(error) => beside
                        .trouble(format!("cannot ask whether it is installed: {error}"))
                        .into_iter()
                        .collect(),
                },
            };
            self.tell(news).await?;
            if beside.settles() {
                self.tell(vec![News::Seen]).await?;
            }
        }
    }

    async fn tell(&self, news: Vec<News>) -> Result<(), Closed> {
        for one in news {
            self.news.send(one).await.map_err(|_| Closed)?;
        }
        Ok(())
    }
}
