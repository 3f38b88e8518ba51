//! Answers of the API server: in time, and in plain words.

use std::time::Duration;

use swaplet_controller::frame::list::words;
use tokio::time::timeout;

/// For one answer of the API server.
const ANSWER: Duration = Duration::from_secs(30);

/// An answer, or none in time.
pub(super) async fn answer<T>(asked: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    match timeout(ANSWER, asked).await {
        Ok(answer) => answer,
        Err(_) => Err(kube::Error::Service(
            format!("no answer in {} s", ANSWER.as_secs()).into(),
        )),
    }
}

/// An error in plain words.
pub(super) fn plain(error: kube::Error) -> anyhow::Error {
    anyhow::Error::msg(words(&error))
}
