//! The line between one life of the controller and the API server: it can be cut, and it notes what
//! passes.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{HeaderValue, USER_AGENT};
use http::{Method, Request, Response};
use kube::client::Body;
use swaplet_testbed::ApiServer;
use swaplet_testbed::apiserver::ResponseBody;
use tokio::time::{Instant, sleep};
use tower::{BoxError, Service};

/// What the line does with requests that write pods.
#[derive(Clone, Copy, Debug, Default)]
pub enum Patches {
    /// They pass.
    #[default]
    Pass,
    /// They never leave.
    Stay,
    /// They are applied, and the answer is still under way.
    ArriveOnly,
    /// So many pass; the next one arrives, and the answer is still under way; later ones never
    /// leave.
    PassBeforeOneArrives(usize),
    /// So many pass; the next one arrives after this time, even if nobody waits for the answer any
    /// more; later ones never leave.
    PassBeforeOneIsLate(usize, Duration),
    /// So many pass; later ones never leave.
    PassBeforeAllStay(usize),
    /// They arrive after a while, even if nobody waits for the answer any more.
    ArriveLate(Duration),
}

/// A line; clones are handles of the same one.
#[derive(Clone)]
pub struct Line(Arc<Inner>);

struct Inner {
    server: ApiServer,
    user_agent: &'static str,
    patches: Mutex<Patches>,
    cut: tokio::sync::watch::Sender<bool>,
    under_way: AtomicUsize,
    most_under_way: AtomicUsize,
    sent: Mutex<Vec<Sent>>,
    /// The start of the paths that lead nowhere.
    hidden: Mutex<Option<&'static str>>,
}

/// One request as it left.
#[derive(Clone, Debug)]
pub struct Sent {
    pub at: Instant,
    pub method: Method,
    pub uri: String,
}

impl Sent {
    /// Whether it is a watch of pods.
    pub fn is_watch_of_pods(&self) -> bool {
        self.uri.contains("watch=true") && self.uri.contains("/pods?")
    }

    /// Whether it is a patch, or makes or deletes a pod.
    fn is_write(&self) -> bool {
        let path = self.uri.split('?').next().unwrap_or_default();
        let is_of_pods = (self.method == Method::POST && path.ends_with("/pods"))
            || (self.method == Method::DELETE && path.contains("/pods/"));
        self.method == Method::PATCH || is_of_pods
    }
}

impl Line {
    pub fn new(server: ApiServer, user_agent: &'static str) -> Self {
        Self(Arc::new(Inner {
            server,
            user_agent,
            patches: Mutex::default(),
            cut: tokio::sync::watch::Sender::new(false),
            under_way: AtomicUsize::new(0),
            most_under_way: AtomicUsize::new(0),
            sent: Mutex::default(),
            hidden: Mutex::default(),
        }))
    }

    /// What happens to patches from now on.
    pub fn patches(&self, patches: Patches) {
        *self.0.patches.lock().unwrap() = patches;
    }

    /// Paths that start so are not found from now on.
    pub fn hide(&self, start: Option<&'static str>) {
        *self.0.hidden.lock().unwrap() = start;
    }

    /// Nothing passes any more, in either direction.
    pub fn cut(&self) {
        self.0.cut.send_replace(true);
    }

    /// Every request so far.
    pub fn sent(&self) -> Vec<Sent> {
        self.0.sent.lock().unwrap().clone()
    }

    /// When the watches of pods were asked for.
    pub fn watches(&self) -> Vec<Instant> {
        self.sent()
            .into_iter()
            .filter(Sent::is_watch_of_pods)
            .map(|sent| sent.at)
            .collect()
    }

    /// When the patches left, and what else writes pods.
    pub fn patched_at(&self) -> Vec<Instant> {
        self.sent()
            .into_iter()
            .filter(Sent::is_write)
            .map(|sent| sent.at)
            .collect()
    }

    /// The largest number of patches that were under way at once.
    pub fn most_under_way(&self) -> usize {
        self.0.most_under_way.load(Ordering::Relaxed)
    }

    /// Counts from 0 again.
    pub fn forget_most_under_way(&self) {
        self.0.most_under_way.store(0, Ordering::Relaxed);
    }

    async fn pass(self, mut request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
        let sent = Sent {
            at: Instant::now(),
            method: request.method().clone(),
            uri: request.uri().to_string(),
        };
        let is_write = sent.is_write();
        self.0.sent.lock().unwrap().push(sent);
        request
            .headers_mut()
            .insert(USER_AGENT, HeaderValue::from_static(self.0.user_agent));
        if self
            .0
            .hidden
            .lock()
            .unwrap()
            .is_some_and(|start| request.uri().path().starts_with(start))
        {
            *request.uri_mut() = "/apis/hidden.example/v1".parse()?;
        }
        if !is_write {
            return self.0.server.clone().call(request).await;
        }
        let _under_way = UnderWay::enter(&self.0);
        let patches = *self.0.patches.lock().unwrap();
        let before = self.patched_at().len() - 1;
        match patches {
            Patches::PassBeforeOneArrives(passing)
            | Patches::PassBeforeOneIsLate(passing, _)
            | Patches::PassBeforeAllStay(passing)
                if before < passing =>
            {
                self.0.server.clone().call(request).await
            }
            Patches::PassBeforeOneIsLate(passing, time) if before == passing => {
                self.arrives_late(request, time).await
            }
            Patches::PassBeforeOneArrives(passing) if before == passing => {
                let _ = self.0.server.clone().call(request).await;
                std::future::pending().await
            }
            Patches::PassBeforeOneArrives(_)
            | Patches::PassBeforeOneIsLate(..)
            | Patches::PassBeforeAllStay(_) => std::future::pending().await,
            Patches::Pass => self.0.server.clone().call(request).await,
            Patches::Stay => std::future::pending().await,
            Patches::ArriveOnly => {
                let _ = self.0.server.clone().call(request).await;
                std::future::pending().await
            }
            Patches::ArriveLate(time) => self.arrives_late(request, time).await,
        }
    }

    async fn arrives_late(
        &self,
        request: Request<Body>,
        time: Duration,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let mut server = self.0.server.clone();
        let arrives = async move {
            sleep(time).await;
            server.call(request).await
        };
        tokio::spawn(arrives).await?
    }
}

struct UnderWay<'a>(&'a Inner);

impl<'a> UnderWay<'a> {
    fn enter(inner: &'a Inner) -> Self {
        let now = inner.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        inner.most_under_way.fetch_max(now, Ordering::Relaxed);
        Self(inner)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Service<Request<Body>> for Line {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let line = self.clone();
        let mut cut = self.0.cut.subscribe();
        Box::pin(async move {
            let is_cut = async { cut.wait_for(|cut| *cut).await.map(drop) };
            tokio::select! {
                biased;
                _ = is_cut => std::future::pending().await,
                answer = line.pass(request) => answer,
            }
        })
    }
}
