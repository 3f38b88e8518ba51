//! A watch of the image caches that swaplet has created, while the API server serves them.

use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Client};
use swaplet_core::warm::image_cache::{API_VERSION, IMAGE_CACHE, IMAGE_CACHES, resource};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::frame::connection::discovery::ask;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::{BUFFER, Event, watch};
use crate::warm::jobs::caches::CacheNews;

/// The interval of checks whether image caches are served.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// Starts the watch, and records its age. The stream ends only when the receiver is dropped, or the
/// watch has died.
pub(crate) fn observe_caches(client: Client, ages: WatchAges) -> mpsc::Receiver<CacheNews> {
    let (news, receiver) = mpsc::channel(BUFFER);
    tokio::spawn(async move { while observe_once(&client, &ages, &news).await.is_some() {} });
    receiver
}

/// Observes for one round; `None` if the receiver is dropped, or the watch has died.
async fn observe_once(
    client: &Client,
    ages: &WatchAges,
    news: &mpsc::Sender<CacheNews>,
) -> Option<()> {
    match are_served(client).await {
        Ok(true) => return follow(client, ages, news).await,
        Ok(false) => news.send(CacheNews::Served(false)).await.ok()?,
        Err(error) => tracing::warn!(
            error,
            "cannot check whether image caches are served; trying again"
        ),
    }
    tokio::select! {
        () = sleep(ASK_AGAIN) => Some(()),
        () = news.closed() => None,
    }
}

/// Forwards events until image caches are no longer served.
async fn follow(client: &Client, ages: &WatchAges, news: &mpsc::Sender<CacheNews>) -> Option<()> {
    news.send(CacheNews::Served(true)).await.ok()?;
    let ours = ListParams::default().labels(IMAGE_CACHE);
    let mut caches = watch(Api::all_with(client.clone(), &resource()), ours, ages);
    loop {
        let event = caches.recv().await?;
        let may_be_gone = matches!(event, Event::Trouble(_));
        news.send(CacheNews::Event(Box::new(event))).await.ok()?;
        if may_be_gone && are_served(client).await == Ok(false) {
            return Some(());
        }
    }
}

async fn are_served(client: &Client) -> Result<bool, String> {
    // Where the query is forbidden the watch may be allowed.
    Ok(!ask(client, API_VERSION).await?.lack(IMAGE_CACHES))
}
