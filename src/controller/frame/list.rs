//! Complete lists, read once.

use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures::AsyncReadExt as _;
use k8s_openapi::NamespaceResourceScope;
use kube::api::{ListParams, ObjectList, Request};
use kube::core::Status;
use kube::{Api, Client, Resource};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::json;
use serde_json::value::RawValue;
use swaplet_core::objects::values::bounds::{MESSAGE, cut};
use swaplet_core::objects::values::whole_object::WholeObject;
use tokio::time::{sleep, timeout};

/// The longest pause that a busy server is granted, because nothing is observed meanwhile.
const LONGEST_ASKED: Duration = Duration::from_secs(30);
/// The shortest pause before a page is requested again.
const LEAST_WAIT: Duration = Duration::from_secs(1);
/// The most pauses of one list. A busy server asks for a second as a rule; kubectl makes ten.
const MOST_WAITS: u32 = 5;

/// Lists all objects that the field selector matches, page by page. Only what `read` returns of
/// each object is kept. A page that a busy server refuses (429) is requested again after the time
/// that it names. There is no deadline besides that of the client: a loop sets one around it.
///
/// # Errors
/// Returns the error of the API server for any page, or of the client.
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
    let (mut found, mut waits) = (Vec::new(), 0);
    loop {
        let page = match page(api, &parameters, &mut size).await {
            Err(error) if is_busy(&error) && waits < MOST_WAITS => {
                waits += 1;
                sleep(asked_for(&error).max(LEAST_WAIT)).await;
                continue;
            }
            page => page?,
        };
        found.extend(page.items.into_iter().filter_map(&read));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters.continue_token = Some(token),
            None => return Ok(found),
        }
    }
}

/// Returns how long a busy server asks to wait (Kubernetes: `retryAfterSeconds` of a Status), at
/// most [`LONGEST_ASKED`]; zero if it does not.
pub(crate) fn asked_for(error: &kube::Error) -> Duration {
    let kube::Error::Api(status) = error else {
        return Duration::ZERO;
    };
    let seconds = status
        .details
        .as_ref()
        .map_or(0, |details| details.retry_after_seconds);
    Duration::from_secs(seconds.into()).min(LONGEST_ASKED)
}

fn is_busy(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 429)
}

/// Returns the objects of a namespace, or of all.
pub fn api_in<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// What is said of an answer that no API server gives.
pub const FOREIGN: &str = "the answer is not one of an API server: check the address in the kubeconfig, and proxies on the way";

/// Returns the message of an error without the clutter of a whole answer of the API server. It is
/// cut, because it may repeat what a tenant has written.
pub fn words(error: &kube::Error) -> String {
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

/// Returns true if a refusal is a page, an object of another kind, or nothing: of a proxy or an
/// ingress controller, say. For a path that it does not serve, and where it is overloaded, an API
/// server has a line of text.
pub fn is_page(status: &Status) -> bool {
    let is_page = status.message.is_empty() || status.message.starts_with(['<', '{']);
    is_unparsed(status) && is_page
}

/// Returns true if a refusal is no `Status`.
pub fn is_unparsed(status: &Status) -> bool {
    status.reason == UNPARSED
}

// Pages of lists with a bounded cost: an object may have 1.5 MB, and 500 such objects in one
// answer would fill the memory.

/// The page size of kubectl and of client-go: about 4 MB of ordinary pods.
const MOST_OBJECTS: u32 = 500;
/// The factor by which a page shrinks and grows.
const STEP: u32 = 10;
/// The most bytes that are read of one answer: of a larger one, fewer objects are requested.
const MOST_BYTES: usize = 8 << 20;
/// The most bytes that are read of a single object: far beyond what etcd stores.
const MOST_OF_ONE: usize = 16 << 20;
/// The deadline of the answer with the version of the server: a watch waits for it.
const VERSION_ANSWER: Duration = Duration::from_secs(3);

/// The number of objects of a page: fewer while the last one was large.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageSize(u32);

impl Default for PageSize {
    fn default() -> Self {
        Self(MOST_OBJECTS)
    }
}

impl PageSize {
    fn smaller(&mut self) {
        self.0 = (self.0 / STEP).max(1);
    }

    /// Adapts the size after a page of this many bytes.
    fn adapt(&mut self, bytes: usize) {
        if bytes > MOST_BYTES / 2 {
            self.smaller();
        } else if bytes < MOST_BYTES / (4 * STEP as usize) {
            self.0 = self.0.saturating_mul(STEP).min(MOST_OBJECTS);
        }
    }
}

/// Returns the next page of `params`, with as many objects as `size` allows now.
pub(crate) async fn page<K>(
    api: &Api<K>,
    params: &ListParams,
    size: &mut PageSize,
) -> kube::Result<ObjectList<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    loop {
        let params = params.clone().limit(size.0);
        let most_bytes = if size.0 == 1 { MOST_OF_ONE } else { MOST_BYTES };
        let text = match ask(api, &params, K::metadata_api(), most_bytes).await? {
            Some(text) => text,
            None if size.0 > 1 => {
                size.smaller();
                continue;
            }
            None => {
                return Err(kube::Error::Service(
                    format!("an object has more than {MOST_OF_ONE} bytes").into(),
                ));
            }
        };
        size.adapt(text.len());
        return decode(&text).map_err(kube::Error::SerdeError);
    }
}

/// Decodes a page. Where that fails, each object is decoded by itself, and one that cannot be is
/// known by its metadata alone, so that it costs no other.
fn decode<K>(text: &[u8]) -> serde_json::Result<ObjectList<K>>
where
    K: Resource + Clone + DeserializeOwned,
{
    serde_json::from_slice(text).or_else(|_| {
        let page: ObjectList<Box<RawValue>> = serde_json::from_slice(text)?;
        let alone = |object: Box<RawValue>| {
            serde_json::from_str::<K>(object.get()).or_else(|error| {
                let whole = serde_json::from_str::<WholeObject<K>>(object.get())?;
                let meta = whole.meta();
                let known = json!([meta.name, meta.namespace, meta.uid, meta.resource_version]);
                // A kind that is read whole has no such form.
                let Ok(object) = K::deserialize(&known) else {
                    return Err(error);
                };
                let error = cut(&error.to_string(), MESSAGE);
                tracing::warn!(object = %known, error, "an object cannot be read, and is left alone");
                Ok(object)
            })
        };
        Ok(ObjectList {
            items: page.items.into_iter().map(alone).collect::<Result<_, _>>()?,
            types: page.types,
            metadata: page.metadata,
        })
    })
}

/// Returns the current version of the API server, from the metadata of a list of one object; `None`
/// if it does not come soon. Without selectors, because with them the server may read every object
/// until one matches.
pub(crate) async fn present_version<K: Resource + Clone>(api: &Api<K>) -> Option<String> {
    let one = ListParams::default().limit(1);
    let answer = timeout(VERSION_ANSWER, ask(api, &one, true, MOST_OF_ONE)).await;
    let text = answer.ok()?.ok()??;
    let list: ObjectList<IgnoredAny> = serde_json::from_slice(&text).ok()?;
    list.metadata.resource_version
}

/// Returns the answer; `None` if it has more than `most` bytes.
async fn ask<K: Resource + Clone>(
    api: &Api<K>,
    params: &ListParams,
    metadata: bool,
    most: usize,
) -> kube::Result<Option<Vec<u8>>> {
    let request = Request::new(api.resource_url());
    let request = if metadata {
        request.list_metadata(params)
    } else {
        request.list(params)
    };
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    // The name of the span, as in kube's own list.
    request.extensions_mut().insert("list");
    let answer = api.clone().into_client().request_stream(request).await?;
    let mut text = Vec::new();
    let mut answer = pin!(answer.take(u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1)));
    answer
        .read_to_end(&mut text)
        .await
        .map_err(|error| kube::Error::Service(error.into()))?;
    Ok((text.len() <= most).then_some(text))
}

#[cfg(test)]
mod tests {
    use swaplet_core::objects::job::JobWire;
    use swaplet_core::objects::pod::wire::PodWire;

    use super::*;

    #[test]
    fn d3_an_object_that_cannot_be_decoded_costs_itself_alone() {
        let object = |name: &str, spec| json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "7"}, "spec": spec});
        let page = json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "9"}, "items": [
            object("a", json!({"backoffLimit": 1, "containers": [{"name": "main"}]})),
            object("b", json!({"backoffLimit": "many", "containers": "none"})),
            object("c", json!({})),
        ]});
        let page = page.to_string();
        let pods = decode::<PodWire>(page.as_bytes()).unwrap();
        assert_eq!(pods.metadata.resource_version.as_deref(), Some("9"));
        let known = pods.items.into_iter().map(|pod| {
            let meta = pod.meta().clone();
            let version = meta.resource_version.as_deref() == Some("7");
            (meta.uid.unwrap(), version, pod.read().is_some())
        });
        let of = |uid: &str, is_read| (uid.to_owned(), true, is_read);
        let expected = [of("a", true), of("b", false), of("c", true)];
        assert_eq!(known.collect::<Vec<_>>(), expected);
        let jobs = decode::<JobWire>(page.as_bytes()).unwrap().items;
        let limits = jobs.into_iter().map(|job| Some(job.read()?.backoff_limit));
        assert_eq!(limits.collect::<Vec<_>>(), [Some(1), None, Some(6)]);
        assert!(decode::<PodWire>(b"{\"items\": [5").is_err());
        // A kind that is read whole says what is wrong.
        let error = decode::<k8s_openapi::api::batch::v1::Job>(page.as_bytes()).unwrap_err();
        assert!(error.to_string().contains("\"many\""), "{error}");
    }

    #[test]
    fn a8_pages_get_smaller_while_they_are_large_and_larger_again() {
        let mut size = PageSize::default();
        let mut after = |bytes| {
            size.adapt(bytes);
            size.0
        };
        assert_eq!(
            [
                after(6 << 20),
                after(6 << 20),
                after(6 << 20),
                after(6 << 20)
            ],
            [50, 5, 1, 1]
        );
        assert_eq!(
            [
                after(1 << 20),
                after(1 << 10),
                after(1 << 10),
                after(1 << 10),
                after(1 << 10)
            ],
            [1, 10, 100, 500, 500]
        );
    }
}
