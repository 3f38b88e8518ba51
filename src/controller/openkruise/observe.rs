//! Looks for OpenKruise on the cluster.
//!
//! Without OpenKruise this costs one request in five minutes; beside it two watches, and four requests a minute where it matters
//! who ends sidecars.

use std::time::Duration;

use kube::Client;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::beside::Beside;
use super::followed::Next;
use super::{News, matters};
use crate::controller::index::Rules;
use crate::controller::namespaces::Namespaces;
use crate::decide::openkruise::{Coexist, Terminator};
use crate::objects::recreate_request::{GROUP, PLURAL, VERSION};

/// How often is asked for OpenKruise where it is not installed: installing it is a day's event.
const NOT_INSTALLED: Duration = Duration::from_secs(300);
/// How long after a question that was not answered it is asked again.
const NOT_ANSWERED: Duration = Duration::from_secs(15);
/// For the answer.
const ANSWER: Duration = Duration::from_secs(30);
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
        Self { namespaces, terminator: rules.coexist != Coexist::Own, wanted: matters(rules) || restarts }
    }
}

/// Starts looking. The stream ends only when the receiver is dropped, or a watch has died.
#[must_use]
pub fn observe(client: Client, scope: Scope) -> mpsc::Receiver<News> {
    let (news, receiver) = mpsc::channel(BUFFER);
    tokio::spawn(Observer { client, scope, news }.run());
    receiver
}

/// Whether the API server knows requests to the daemon. Whoever may not ask this may not make requests either.
///
/// # Errors
/// It has not answered; in words.
pub async fn serves_requests(client: &Client) -> Result<bool, String> {
    serves(client, PLURAL).await
}

/// Whether the API server knows this resource of OpenKruise's group.
///
/// # Errors
/// It has not answered; in words.
pub async fn serves(client: &Client, plural: &str) -> Result<bool, String> {
    let group = format!("{GROUP}/{VERSION}");
    match timeout(ANSWER, client.list_api_group_resources(&group)).await {
        Ok(Ok(list)) => Ok(list.resources.iter().any(|resource| resource.name == plural)),
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 403 | 404) => Ok(false),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

struct Observer {
    client: Client,
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
        let pause = match serves_requests(&self.client).await {
            Ok(true) => return self.beside().await,
            Ok(false) => {
                self.tell(vec![News::Terminator(Terminator::Absent), News::Seen]).await?;
                NOT_INSTALLED
            }
            Err(error) => {
                self.tell(vec![News::Trouble(format!("cannot ask whether it is installed: {error}"))]).await?;
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
        let mut beside = Beside::new(&self.client, &self.scope);
        loop {
            match beside.next().await {
                Next::News(news) => self.tell(news).await?,
                Next::Died => return Err(Closed),
                Next::Trouble(_) if serves_requests(&self.client).await == Ok(false) => return self.tell(beside.all_gone()).await,
                Next::Trouble(trouble) => self.tell(beside.trouble(trouble).into_iter().collect()).await?,
            }
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
