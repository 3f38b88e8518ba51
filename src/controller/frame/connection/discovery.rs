//! Which resources OpenKruise's API group has, asked once for all tasks that have to know it.

use std::sync::Arc;
use std::time::Duration;

use http::header::DATE;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;
use kube::client::Body;
use swaplet_core::objects::recreate_request::{GROUP, VERSION};
use swaplet_core::objects::values::bounds::{MESSAGE, cut};
use swaplet_core::terminate::openkruise::Seen;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::frame::clock::server::ServerClock;
use crate::frame::list::words;

/// An answer counts for the rest of its round: whoever has just installed a CRD does not want to
/// wait for long.
const ROUND: Duration = Duration::from_secs(30);
/// For the answer.
const ANSWER: Duration = Duration::from_secs(30);
/// The longest answer that is read: a group has some dozens of resources.
const LONGEST_ANSWER: usize = 1 << 20;
/// What the group has where only swaplet's CRDs (`deploy/crds`) are applied.
const OUR_RESOURCES: [&str; 4] = [
    "containerrecreaterequests",
    "imagepulljobs",
    "imagelistpulljobs",
    "sidecarsets",
];

/// The resources of the group, subresources among them (`name/status`).
#[derive(Clone, Debug)]
pub struct Resources(Seen<Arc<[String]>>);

impl Resources {
    /// Whether the API server knows the resource of this plural name. Whoever may not ask this may
    /// not use it either.
    #[must_use]
    pub fn serve(&self, plural: &str) -> bool {
        matches!(&self.0, Seen::Found(names) if names.iter().any(|name| name == plural))
    }

    /// Whether the group has kinds that swaplet's CRDs do not define: OpenKruise never comes
    /// without. Everybody may ask this, as a rule; whom it is not told has to take them for there.
    #[must_use]
    pub fn are_openkruises(&self) -> bool {
        let is_ours =
            |name: &String| OUR_RESOURCES.contains(&name.split('/').next().unwrap_or_default());
        match &self.0 {
            Seen::Found(names) => !names.iter().all(is_ours),
            Seen::Missing => false,
            Seen::Hidden => true,
        }
    }
}

/// Asks for them; clones share the answer. Time goes in rounds that are the same for all, so that
/// one question in a round is enough.
#[derive(Clone)]
pub struct Discovery {
    client: Client,
    start: Instant,
    /// The last answer, and when it was asked for. The lock is held while somebody asks: the others
    /// want the same answer.
    last: Arc<Mutex<Option<(Instant, Resources)>>>,
    clock: ServerClock,
}

impl Discovery {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            client,
            start: Instant::now(),
            last: Arc::default(),
            clock: ServerClock::default(),
        }
    }

    /// The client with which it asks.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// The clock of the API server, as the answers to these questions show it.
    #[must_use]
    pub const fn clock(&self) -> &ServerClock {
        &self.clock
    }

    /// The resources, as they were told in this round.
    ///
    /// # Errors
    /// The API server has not answered; in words. The next one who wants to know asks again.
    pub async fn resources(&self) -> Result<Resources, String> {
        self.resources_since(self.round(0)).await
    }

    /// The resources, as they are told now.
    ///
    /// # Errors
    /// As [`resources`](Self::resources).
    pub async fn resources_now(&self) -> Result<Resources, String> {
        self.resources_since(Instant::now()).await
    }

    /// When the next round begins: a good time to ask again.
    #[must_use]
    pub fn next_round(&self) -> Instant {
        self.round(1)
    }

    /// When the round begins that is so many after this one.
    fn round(&self, later: u64) -> Instant {
        let round = self.start.elapsed().as_secs() / ROUND.as_secs() + later;
        self.start + Duration::from_secs(round * ROUND.as_secs())
    }

    async fn resources_since(&self, since: Instant) -> Result<Resources, String> {
        let mut last = self.last.lock().await;
        if let Some((_, resources)) = last.as_ref().filter(|(asked, _)| *asked >= since) {
            return Ok(resources.clone());
        }
        let asked = Instant::now();
        let (resources, date) = answer(&self.client, &format!("{GROUP}/{VERSION}")).await?;
        if let Some(date) = date {
            self.clock.shows(date);
        }
        *last = Some((asked, resources.clone()));
        Ok(resources)
    }
}

/// The resources of a group, which comes with its version, as they are told now.
///
/// # Errors
/// The API server has not answered; in words.
pub async fn ask(client: &Client, group: &str) -> Result<Resources, String> {
    Ok(answer(client, group).await?.0)
}

/// The same, and the time of day that the API server says in the header of its answer.
async fn answer(client: &Client, group: &str) -> Result<(Resources, Option<Timestamp>), String> {
    timeout(ANSWER, received(client, group))
        .await
        .map_err(|_| "no answer in time".to_owned())?
}

async fn received(client: &Client, group: &str) -> Result<(Resources, Option<Timestamp>), String> {
    let request = Request::get(format!("/apis/{group}"))
        .body(Body::empty())
        .map_err(|error| error.to_string())?;
    let response = client.send(request).await.map_err(|error| words(&error))?;
    let (head, body) = response.into_parts();
    let date = head
        .headers
        .get(DATE)
        .and_then(|date| jiff::fmt::rfc2822::parse(date.to_str().ok()?).ok());
    let body = Limited::new(body, LONGEST_ANSWER)
        .collect()
        .await
        .map_err(|error| error.to_string())?
        .to_bytes();
    let seen = match head.status {
        StatusCode::NOT_FOUND => Seen::Missing,
        StatusCode::FORBIDDEN => Seen::Hidden,
        status if status.is_success() => {
            let list: APIResourceList =
                serde_json::from_slice(&body).map_err(|error| error.to_string())?;
            Seen::Found(
                list.resources
                    .into_iter()
                    .map(|resource| resource.name)
                    .collect(),
            )
        }
        status => {
            return Err(cut(
                &format!("{status}: {}", String::from_utf8_lossy(&body)),
                MESSAGE,
            ));
        }
    };
    Ok((Resources(seen), date.map(|date| date.timestamp())))
}
