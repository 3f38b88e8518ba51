//! Calls of a registry, which other rooms carry out.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::time::timeout;

use crate::frame::isolated::isolated_task;

/// A function that asks a registry for something, and returns its answer.
#[derive(Clone)]
pub struct Call<Q, A>(Arc<dyn Fn(Q) -> BoxFuture<'static, A> + Send + Sync>);

impl<Q, A> fmt::Debug for Call<Q, A> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Call")
    }
}

impl<Q, A> Call<Q, A> {
    /// Wraps a function.
    pub fn by<F: Future<Output = A> + Send + 'static>(
        call: impl Fn(Q) -> F + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move |question| call(question).boxed()))
    }

    /// Calls once, and returns why there is no answer within `deadline`. One strange answer of a
    /// registry must not end the process.
    pub(crate) async fn within(&self, deadline: Duration, question: Q) -> Result<A, String> {
        match isolated_task("a registry", timeout(deadline, (self.0)(question))).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(format!("no answer within {} s", deadline.as_secs())),
            Err(defect) => Err(format!(
                "it was aborted, which is a defect of swaplet; please report it: {defect}"
            )),
        }
    }
}
