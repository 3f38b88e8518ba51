//! Sends many requests on a fixed number of connections: what nodes do, and bare patches.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use http::StatusCode;
use hyper::body::Bytes;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Receiver, UnboundedSender, channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::api::{Connection, Endpoint, Request};

/// How long a client waits that the server has refused for load.
const PAUSE: Duration = Duration::from_millis(200);

/// What became of many requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Those that succeeded.
    pub done: usize,
    /// Answers 429; each was sent again.
    pub refused: usize,
}

type Work = Arc<Mutex<Receiver<Request>>>;
/// Where answers go: the number of the request, and what the server said.
pub type Answers = UnboundedSender<(usize, Bytes)>;

/// Sends what comes in until nothing more can come, on so many connections.
///
/// # Errors
/// Where a request fails otherwise than by load.
pub async fn play(
    endpoint: &Endpoint,
    clients: usize,
    work: Receiver<Request>,
    answers: Option<Answers>,
) -> Result<Tally> {
    let work = Arc::new(Mutex::new(work));
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        tasks.spawn(client(
            endpoint.connect().await?,
            Arc::clone(&work),
            answers.clone(),
        ));
    }
    drop(answers);
    let mut all = Tally::default();
    while let Some(one) = tasks.join_next().await {
        let one = one??;
        all = Tally {
            done: all.done + one.done,
            refused: all.refused + one.refused,
        };
    }
    Ok(all)
}

async fn client(mut connection: Connection, work: Work, answers: Option<Answers>) -> Result<Tally> {
    let mut tally = Tally::default();
    loop {
        let next = work.lock().await.recv().await;
        let Some(request) = next else {
            return Ok(tally);
        };
        let body = loop {
            let (status, body) = connection.send(&request).await?;
            if status.is_success() {
                break body;
            }
            if status != StatusCode::TOO_MANY_REQUESTS {
                bail!(
                    "{} {}: {status}: {}",
                    request.method,
                    request.path,
                    String::from_utf8_lossy(&body)
                );
            }
            tally.refused += 1;
            sleep(PAUSE).await;
        };
        tally.done += 1;
        if let Some(answers) = &answers {
            let _ = answers.send((request.id, body));
        }
    }
}

/// Sends requests as fast as they are answered.
///
/// # Errors
/// Where one fails.
pub async fn all(
    endpoint: &Endpoint,
    clients: usize,
    requests: impl Iterator<Item = Request>,
    answers: Option<Answers>,
) -> Result<Tally> {
    let (sender, receiver) = channel(2 * clients);
    let feed = async {
        for request in requests {
            if sender.send(request).await.is_err() {
                break;
            }
        }
        drop(sender);
    };
    tokio::join!(play(endpoint, clients, receiver, answers), feed).0
}

/// Sends requests at a fixed rate, whether the ones before are answered or not: an open loop.
///
/// # Errors
/// Where one fails.
pub async fn at_rate(
    endpoint: &Endpoint,
    clients: usize,
    rate: u64,
    requests: Vec<Request>,
    answers: Option<Answers>,
) -> Result<Tally> {
    let (sender, receiver) = channel(requests.len().max(1));
    let schedule = async {
        let mut ticks = interval(Duration::from_secs_f64(1.0 / rate.max(1) as f64));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for request in requests {
            ticks.tick().await;
            if sender.send(request).await.is_err() {
                break;
            }
        }
        drop(sender);
    };
    tokio::join!(play(endpoint, clients, receiver, answers), schedule).0
}

/// Sends requests for so long, as fast as they are answered; tells how many per second.
///
/// # Errors
/// Where one fails.
pub async fn rate_of(
    endpoint: &Endpoint,
    clients: usize,
    time: Duration,
    mut next: impl FnMut() -> Request,
) -> Result<f64> {
    let start = Instant::now();
    let requests = std::iter::from_fn(|| (start.elapsed() < time).then(&mut next));
    let tally = all(endpoint, clients, requests, None).await?;
    Ok(tally.done as f64 / start.elapsed().as_secs_f64())
}
