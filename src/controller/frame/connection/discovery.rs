//! The resources of an API group, as of OpenKruise's, requested once for all tasks that need to
//! know them.

use std::sync::Arc;
use std::time::Duration;

use http::header::DATE;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use swaplet_core::objects::recreate_request::{GROUP, VERSION};
use swaplet_core::objects::values::bounds::{MESSAGE, cut};
use swaplet_core::terminate::openkruise::Seen;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::frame::clock::ServerClock;
use crate::frame::list::words;

/// The length of a round, within which an answer counts. It is short, because a user who has just
/// installed a CRD does not want to wait for long.
const ROUND: Duration = Duration::from_secs(30);
/// The deadline of the answer.
const ANSWER: Duration = Duration::from_secs(30);
/// The longest answer that is read, in bytes: a group has some dozens of resources.
const LONGEST_ANSWER: usize = 1 << 20;
/// What API servers answer in plain text (Go's `http.NotFound`) for a group that they do not serve;
/// newer ones answer with a `Status`.
const NOT_FOUND: &[u8] = b"404 page not found";
/// The resources of the group where only swaplet's CRDs (`deploy/crds`) are applied.
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
    /// Returns true if the API server is known to serve the resource of this plural name. What is
    /// not served need not be absent: see [`lack`](Self::lack).
    pub fn serve(&self, plural: &str) -> bool {
        matches!(&self.0, Seen::Found(names) if names.iter().any(|name| name == plural))
    }

    /// Returns true if the API server is known not to serve the resource of this plural name: not
    /// where the query is forbidden.
    pub fn lack(&self, plural: &str) -> bool {
        !matches!(self.0, Seen::Hidden) && !self.serve(plural)
    }

    /// Like [`serve`](Self::serve), for where what is absent counts as gone.
    ///
    /// # Errors
    /// Fails where the query is forbidden: the resource may be there or not.
    pub fn serve_if_known(&self, plural: &str) -> Result<bool, String> {
        match self.0 {
            Seen::Hidden => Err("the query for its API group is forbidden".to_owned()),
            _ => Ok(self.serve(plural)),
        }
    }

    /// Returns true if the group has kinds that swaplet's CRDs do not define, as OpenKruise always
    /// brings. As a rule everybody may query this; where it is forbidden, they count as there.
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

/// A cache of the resources of the group; clones share the answer. Rounds are the same for all
/// clones, so that one request in a round is enough.
#[derive(Clone)]
pub struct Discovery {
    client: Client,
    /// The group, with its version.
    group: Arc<str>,
    start: Instant,
    /// The last answer, and when it was requested. The lock is held during a request, because the
    /// other callers want the same answer.
    last: Arc<Mutex<Option<(Instant, Resources)>>>,
    clock: ServerClock,
}

impl Discovery {
    /// Returns a discovery of OpenKruise's group, without an answer yet.
    pub fn new(client: Client) -> Self {
        Self::of(client, &format!("{GROUP}/{VERSION}"))
    }

    /// Like [`new`](Self::new), of this group, given with its version.
    pub fn of(client: Client, group: &str) -> Self {
        Self {
            client,
            group: group.into(),
            start: Instant::now(),
            last: Arc::default(),
            clock: ServerClock::default(),
        }
    }

    /// Returns the client that sends the requests.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the clock of the API server, as the answers to these requests show it.
    pub const fn clock(&self) -> &ServerClock {
        &self.clock
    }

    /// Returns the resources, as they were reported in this round.
    ///
    /// # Errors
    /// Returns an error message if the API server has not answered; the next caller retries.
    pub async fn resources(&self) -> Result<Resources, String> {
        self.resources_since(self.round(0)).await
    }

    /// Returns the resources, as they are reported now.
    ///
    /// # Errors
    /// Like [`resources`](Self::resources).
    pub async fn resources_now(&self) -> Result<Resources, String> {
        self.resources_since(Instant::now()).await
    }

    /// Returns when the next round begins: a good time to request again.
    pub fn next_round(&self) -> Instant {
        self.round(1)
    }

    /// Returns when the round begins that is `later` rounds after this one.
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
        let answer = timeout(ANSWER, received(&self.client, &self.group)).await;
        let (resources, date) = answer.map_err(|_| "no answer in time".to_owned())??;
        if let Some(date) = date {
            self.clock.shows(date);
        }
        *last = Some((asked, resources.clone()));
        Ok(resources)
    }
}

/// Returns the resources of a group, given with its version, as they are reported now.
///
/// # Errors
/// Returns an error message if the API server has not answered.
pub async fn ask(client: &Client, group: &str) -> Result<Resources, String> {
    Discovery::of(client.clone(), group).resources_now().await
}

/// Returns the resources, with the date in the header of the answer; `None` if it has none.
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
        StatusCode::NOT_FOUND if is_of_api_server(&body) => Seen::Missing,
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

/// Returns true if a 404 is the API server's own. One of a proxy says nothing of the group,
/// whose objects would seem to be gone. Proxies that answer as Go does cannot be told apart.
fn is_of_api_server(body: &[u8]) -> bool {
    let is_status = |answer: Value| answer["kind"] == "Status";
    body.trim_ascii() == NOT_FOUND || serde_json::from_slice(body).is_ok_and(is_status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_404_of_a_proxy_is_not_that_of_the_api_server() {
        let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"NotFound","code":404}"#;
        for own in ["404 page not found\n", "404 page not found", status] {
            assert!(is_of_api_server(own.as_bytes()), "{own}");
        }
        for other in [
            "",
            "<html><head><title>404 Not Found</title></head></html>",
            "default backend - 404",
            r#"{"message":"no Route matched with those values"}"#,
            r#"["Status"]"#,
            "404",
        ] {
            assert!(!is_of_api_server(other.as_bytes()), "{other}");
        }
    }
}
