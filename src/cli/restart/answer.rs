//! Answers of the API server, with a deadline and plain error messages.

use std::time::Duration;

use swaplet_controller::frame::list::words;
use tokio::time::timeout;

/// The deadline of one request to the API server.
const ANSWER: Duration = Duration::from_secs(30);

/// Waits for an answer, or returns an error at the deadline.
pub(super) async fn answer<T>(asked: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    match timeout(ANSWER, asked).await {
        Ok(answer) => answer,
        Err(_) => Err(kube::Error::Service(
            format!("no answer in {} s", ANSWER.as_secs()).into(),
        )),
    }
}

/// Returns an error in plain words.
pub(super) fn plain(error: kube::Error) -> anyhow::Error {
    anyhow::Error::msg(words(&error))
}
