//! A list, once and whole.

use std::fmt::Debug;
use std::time::Duration;

use kube::Api;
use kube::api::ListParams;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

/// Objects per answer of the API server, as in kubectl.
const PAGE: u32 = 500;
/// For one answer.
const ANSWER: Duration = Duration::from_secs(30);

/// Everything that the field selector selects, page by page: only what `read` makes of each object is kept.
///
/// # Errors
/// What the API server answers to any page, or that it does not answer in time ([`kube::Error::Service`]).
pub async fn list<K, T>(api: &Api<K>, fields: &str, read: impl Fn(K) -> Option<T>) -> kube::Result<Vec<T>>
where
    K: Clone + DeserializeOwned + Debug,
{
    list_with(api, ListParams::default().fields(fields), read).await
}

/// As [`list`], with selectors of fields and labels.
///
/// # Errors
/// As [`list`].
pub async fn list_with<K, T>(api: &Api<K>, selectors: ListParams, read: impl Fn(K) -> Option<T>) -> kube::Result<Vec<T>>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut parameters = selectors.limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = timeout(ANSWER, api.list(&parameters)).await.map_err(|late| kube::Error::Service(late.into()))??;
        found.extend(page.items.into_iter().filter_map(&read));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters.continue_token = Some(token),
            None => return Ok(found),
        }
    }
}

/// What an error says, without the clutter of a whole answer of the API server.
#[must_use]
pub fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
