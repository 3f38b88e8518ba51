//! Complete lists, read once.

pub(crate) mod pages;

use std::fmt::Debug;

use kube::api::ListParams;
use kube::core::Status;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use swaplet_core::objects::values::bounds::{MESSAGE, cut};

use self::pages::{PageSize, page};

/// Lists all objects that the field selector matches, page by page. Only what `read` returns of
/// each object is kept.
///
/// # Errors
/// Returns the error of the API server for any page, or [`kube::Error::Service`] if an answer does
/// not come in time.
pub async fn list<K, T>(
    api: &Api<K>,
    fields: &str,
    read: impl Fn(K) -> Option<T>,
) -> kube::Result<Vec<T>>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    list_with(api, ListParams::default().fields(fields), read).await
}

/// Like [`list`], with selectors of fields and labels.
///
/// # Errors
/// Like [`list`].
pub async fn list_with<K, T>(
    api: &Api<K>,
    selectors: ListParams,
    read: impl Fn(K) -> Option<T>,
) -> kube::Result<Vec<T>>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let (mut parameters, mut size) = (selectors, PageSize::default());
    let mut found = Vec::new();
    loop {
        let page = page(api, &parameters, &mut size)
            .await
            .map_err(|late| kube::Error::Service(late.into()))??;
        found.extend(page.items.into_iter().filter_map(&read));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters.continue_token = Some(token),
            None => return Ok(found),
        }
    }
}

/// Returns the message of an error without the clutter of a whole answer of the API server. It is
/// cut, because it may repeat what a tenant has written.
#[must_use]
pub fn words(error: &kube::Error) -> String {
    const FOREIGN: &str = "the answer is not one of an API server: check the address in the kubeconfig, and proxies on the way";
    let words = match error {
        kube::Error::Api(status) if is_page(status) => {
            &format!("HTTP {}, and {FOREIGN}", status.code)
        }
        kube::Error::SerdeError(error) if error.is_syntax() && error.column() <= 1 => FOREIGN,
        kube::Error::Api(status) if status.reason == UNPARSED => {
            &format!("HTTP {}: {}", status.code, status.message)
        }
        kube::Error::Api(status) if status.code == 401 => &format!(
            "{}: the API server rejects these credentials; log in again",
            status.message
        ),
        kube::Error::Api(status) => &status.message,
        // Its own message begins with the name of a type.
        kube::Error::Service(error) => &error.to_string(),
        other => &other.to_string(),
    };
    cut(words, MESSAGE)
}

/// The reason that kube gives to a refusal that is no `Status` (`kube_client::Client`).
const UNPARSED: &str = "Failed to parse error data";

/// Returns true if a refusal is a page, or nothing: of a proxy or an ingress controller, say. For a
/// path that it does not serve, an API server has a line of text.
#[must_use]
pub fn is_page(status: &Status) -> bool {
    let is_page = status.message.is_empty() || status.message.starts_with('<');
    status.reason == UNPARSED && is_page
}
