//! A time limit of requests, for programs whose user waits for the answer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tower::{BoxError, Service};

/// A service that limits the time of its requests: of the head of each answer and, except for a
/// watch, of its body.
#[derive(Clone, Debug)]
pub(super) struct Limited<S> {
    inner: S,
    limit: Option<Duration>,
    /// The server that has not answered, for the error.
    server: String,
}

impl<S> Limited<S> {
    /// Returns the service; without a `limit` it waits as long as it takes.
    pub(super) const fn new(inner: S, limit: Option<Duration>, server: String) -> Self {
        Self {
            inner,
            limit,
            server,
        }
    }
}

impl<S, R, B> Service<Request<R>> for Limited<S>
where
    S: Service<Request<R>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<LimitedBody<B>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        let is_watch = is_watch(request.uri().query().unwrap_or_default());
        let answer = self.inner.call(request);
        let Some(limit) = self.limit else {
            return Box::pin(async move {
                let response = answer.await.map_err(Into::into)?;
                Ok(response.map(|body| LimitedBody { body, late: None }))
            });
        };
        let words = format!(
            "the API server {} has not answered within {} s (--request-timeout)",
            self.server,
            limit.as_secs_f64()
        );
        Box::pin(async move {
            let deadline = Instant::now() + limit;
            let response = timeout_at(deadline, answer)
                .await
                .map_err(|_| BoxError::from(words.as_str()))?
                .map_err(Into::into)?;
            let late = (!is_watch).then(|| Late {
                sleep: Box::pin(sleep_until(deadline)),
                words,
            });
            Ok(response.map(|body| LimitedBody { body, late }))
        })
    }
}

/// Returns true for a watch, whose answer has no end.
fn is_watch(query: &str) -> bool {
    query
        .split('&')
        .any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

/// The rest of the time of a request, and the error after it.
struct Late {
    sleep: Pin<Box<Sleep>>,
    words: String,
}

/// The body of an answer, which fails when the time of its request is over.
pub(super) struct LimitedBody<B> {
    body: B,
    late: Option<Late>,
}

impl<B> Body for LimitedBody<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let Some(late) = &mut self.late else {
            return Poll::Pending;
        };
        ready!(late.sleep.as_mut().poll(context));
        Poll::Ready(Some(Err(BoxError::from(late.words.as_str()))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
