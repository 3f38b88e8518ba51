//! One of the two servers, with what it has told so far.

use std::collections::HashMap;
use std::time::Duration;

use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::operation::{JSON, MERGE_PATCH, Operation, Resource, Watch};
use super::sequence::marker;

/// A watch that has not seen its marker by then has lost it.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Side {
    client: Client,
    namespace: String,
    prefix: String,
    /// What was seen of each object: the first and the latest state.
    seen: HashMap<(Resource, String), (Value, Value)>,
    /// The version of the last list.
    listed: String,
}

impl Side {
    pub fn new(client: Client, namespace: &str, prefix: &str) -> Self {
        let (namespace, prefix) = (namespace.to_owned(), prefix.to_owned());
        Self {
            client,
            namespace,
            prefix,
            seen: HashMap::new(),
            listed: String::new(),
        }
    }

    /// The version of the server now.
    pub async fn version(&self) -> String {
        let path = format!("{}?limit=1", Resource::ConfigMaps.path(&self.namespace));
        let (_, list) = send(&self.client, "GET", &path, JSON, String::new()).await;
        list["metadata"]["resourceVersion"]
            .as_str()
            .expect("a version")
            .to_owned()
    }

    /// Sends a request; gives code and body.
    pub async fn run(&mut self, operation: &Operation) -> Value {
        let base = operation.resource.path(&self.namespace);
        let mut path = base;
        for part in [operation.name.as_str(), operation.subresource]
            .iter()
            .filter(|part| !part.is_empty())
        {
            path = format!("{path}/{part}");
        }
        if !operation.query.is_empty() {
            path = format!("{path}?{}", operation.query);
        }
        let body = match &operation.body {
            Value::Null => String::new(),
            edits if operation.edits => self.edited(operation, edits).to_string(),
            Value::String(raw) => raw.clone(),
            body => body.to_string(),
        };
        let (path, body) = (self.filled(operation, &path), self.filled(operation, &body));
        if operation.verb == "pages" {
            return self.pages(&path).await;
        }
        let (code, mut body) = send(
            &self.client,
            operation.method,
            &path,
            operation.content,
            body,
        )
        .await;
        self.keep_own(&mut body);
        self.learn(operation.resource, &body);
        json!({"code": code, "body": body})
    }

    /// All pages of a list as one; where they end depends on what other sequences have.
    async fn pages(&self, path: &str) -> Value {
        let (mut items, mut token) = (Vec::new(), String::new());
        loop {
            let (code, body) = send(
                &self.client,
                "GET",
                &format!("{path}{token}"),
                JSON,
                String::new(),
            )
            .await;
            items.extend(body["items"].as_array().into_iter().flatten().cloned());
            match body["metadata"]["continue"].as_str().unwrap_or_default() {
                "" => return json!({"code": code, "body": items}),
                next => token = format!("&continue={next}"),
            }
        }
    }

    /// Puts in what this server has given.
    fn filled(&self, operation: &Operation, text: &str) -> String {
        let key = (operation.resource, self.named(&operation.name));
        let nothing = (Value::Null, Value::Null);
        let (first, latest) = self.seen.get(&key).unwrap_or(&nothing);
        let field = |object: &Value, field: &str| {
            object["metadata"][field].as_str().unwrap_or("1").to_owned()
        };
        text.replace("{uid}", &field(latest, "uid"))
            .replace("{version}", &field(latest, "resourceVersion"))
            .replace("{stale}", &field(first, "resourceVersion"))
            .replace("{listed}", &self.listed)
            .replace("{namespace}", &self.namespace)
            .replace('§', &self.prefix)
    }

    fn named(&self, name: &str) -> String {
        name.replace('§', &self.prefix)
    }

    fn edited(&self, operation: &Operation, edits: &Value) -> Value {
        let key = (operation.resource, self.named(&operation.name));
        let mut object = self.seen.get(&key).map_or_else(
            || json!({"metadata": {"name": operation.name}}),
            |(_, latest)| latest.clone(),
        );
        for (pointer, value) in edits.as_object().into_iter().flatten() {
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            match object.pointer_mut(parent) {
                Some(Value::Object(map)) if value.is_null() => drop(map.remove(field)),
                Some(Value::Object(map)) => drop(map.insert(field.to_owned(), value.clone())),
                _ => {}
            }
        }
        object
    }

    /// Other sequences have objects in the same namespace.
    fn keep_own(&self, body: &mut Value) {
        if let Some(items) = body.get_mut("items").and_then(Value::as_array_mut) {
            items.retain(|item| self.is_own(item));
        }
    }

    fn is_own(&self, object: &Value) -> bool {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        name.strip_prefix(&self.prefix)
            .is_some_and(|rest| !rest.starts_with("marker-"))
    }

    fn learn(&mut self, resource: Resource, body: &Value) {
        if body["items"].is_array() {
            body["metadata"]["resourceVersion"]
                .as_str()
                .unwrap_or_default()
                .clone_into(&mut self.listed);
            return;
        }
        if let (Some(name), Some(_)) = (
            body["metadata"]["name"].as_str(),
            body["metadata"]["uid"].as_str(),
        ) {
            let entry = self
                .seen
                .entry((resource, name.to_owned()))
                .or_insert_with(|| (body.clone(), Value::Null));
            entry.1 = body.clone();
        }
    }

    /// What a watch from this version tells of the sequence, up to a marker that is written now.
    pub async fn watch(&mut self, watch: &Watch, start: &str) -> Value {
        let mark = marker(watch.resource);
        let created = self.run(&mark).await;
        assert_eq!(created["code"], 201, "{created}");
        let end = created["body"]["metadata"]["name"]
            .as_str()
            .unwrap()
            .to_owned();
        let query = watch.query.replace('§', &self.prefix);
        let path = format!(
            "{}?watch=1&resourceVersion={start}&{query}",
            watch.resource.path(&self.namespace)
        );
        let events = timeout(PATIENCE, self.events(&path, &end)).await;
        let left = Operation::delete(
            watch.resource,
            &end,
            "gracePeriodSeconds=0&propagationPolicy=Background",
            Value::Null,
        );
        self.run(&left).await;
        json!({"code": 200, "body": events.unwrap_or_else(|_| vec!["the marker was not seen".into()])})
    }

    async fn events(&self, path: &str, end: &str) -> Vec<Value> {
        let request = http::Request::get(path).body(Body::empty()).unwrap();
        let mut stream = self
            .client
            .send(request)
            .await
            .expect("a watch")
            .into_body()
            .into_data_stream();
        let (mut buffer, mut events) = (Vec::new(), Vec::new());
        while let Some(chunk) = stream.next().await {
            buffer.extend_from_slice(&chunk.expect("a chunk of a watch"));
            while let Some(line) = take_line(&mut buffer) {
                let event: Value = serde_json::from_slice(&line).expect("an event");
                if event["object"]["metadata"]["name"] == end {
                    return events;
                }
                if self.is_own(&event["object"]) || event["type"] == "ERROR" {
                    events.push(event);
                }
            }
        }
        events.push("the watch ended before the marker".into());
        events
    }
}

fn take_line(buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
    let end = buffer.iter().position(|byte| *byte == b'\n')?;
    Some(buffer.drain(..=end).collect())
}

/// Sends a request as it is; gives the code and the body.
pub async fn send(
    client: &Client,
    method: &str,
    path: &str,
    content: &str,
    body: String,
) -> (u16, Value) {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("Content-Type", content)
        .header("Accept", JSON);
    let request = request.body(Body::from(body.into_bytes())).unwrap();
    let response = client
        .send(request)
        .await
        .unwrap_or_else(|error| panic!("{method} {path}: {error}"));
    let code = response.status().as_u16();
    let bytes = response
        .into_body()
        .collect()
        .await
        .expect("an answer")
        .to_bytes();
    let text = || String::from_utf8_lossy(&bytes).into_owned().into();
    (
        code,
        serde_json::from_slice(&bytes).unwrap_or_else(|_| text()),
    )
}

/// A namespace with the service account that pods need.
pub async fn prepare(client: &Client, namespace: &str) {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let (code, answer) = send(client, "POST", "/api/v1/namespaces", JSON, body.to_string()).await;
    assert_eq!(code, 201, "{answer}");
    let account = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
    let created = async {
        while send(client, "GET", &account, JSON, String::new()).await.0 != 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, created)
        .await
        .expect("the service account of a namespace");
}

/// Removes a namespace and everything in it that nobody else would ever finish.
pub async fn clean(client: &Client, namespace: &str) {
    for resource in [
        Resource::Pods,
        Resource::Jobs,
        Resource::ConfigMaps,
        Resource::Leases,
    ] {
        let path = resource.path(namespace);
        let (_, list) = send(client, "GET", &path, JSON, String::new()).await;
        for object in list["items"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|object| object["metadata"]["finalizers"].is_array())
        {
            let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
            let free = json!({"metadata": {"finalizers": null}});
            send(client, "PATCH", &path, MERGE_PATCH, free.to_string()).await;
        }
        send(
            client,
            "DELETE",
            &format!("{path}?gracePeriodSeconds=0&propagationPolicy=Background"),
            JSON,
            String::new(),
        )
        .await;
    }
    send(
        client,
        "DELETE",
        &format!("/api/v1/namespaces/{namespace}"),
        JSON,
        String::new(),
    )
    .await;
}
