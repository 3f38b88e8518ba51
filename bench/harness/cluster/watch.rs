//! A watch of the program's own: what the API server shows counts, not what a contestant says.

use anyhow::{Context, Result, bail, ensure};
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::api::{Endpoint, Request};
use super::objects::{EXIT, SELECTOR};

/// The API server ends a watch that reads more slowly than pods change (Kubernetes:
/// `forgetWatcher` in `cacher.go`), and each at a time of its own choice. It is opened again where
/// it has ended, so often and no more.
const MOST_ENDS: usize = 100;

/// A watch of the pods that are to end.
pub struct Watch {
    /// The names of pods whose sidecar has the exit image: each again with each change.
    pub swapped: UnboundedReceiver<String>,
    task: JoinHandle<Result<()>>,
}

#[derive(Deserialize)]
struct Event {
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    resource_version: String,
}

#[derive(Default, Deserialize)]
struct Spec {
    #[serde(default)]
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    image: String,
}

impl Watch {
    /// Watches from now on.
    ///
    /// # Errors
    /// Where the API server does not take it.
    pub async fn open(endpoint: &Endpoint) -> Result<Self> {
        let list = endpoint
            .once(&Request::get(format!(
                "/api/v1/pods?limit=1&labelSelector={SELECTOR}"
            )))
            .await?;
        let version = list["metadata"]["resourceVersion"]
            .as_str()
            .context("no resourceVersion")?
            .to_owned();
        let (sender, swapped) = unbounded_channel();
        let endpoint = endpoint.clone();
        let task = tokio::spawn(async move {
            let result = follow(&endpoint, &version, &sender).await;
            // Whoever drops the watch has seen enough.
            if let Err(error) = &result
                && !sender.is_closed()
            {
                eprintln!("the watch of the program's own: {error:#}");
            }
            result
        });
        Ok(Self { swapped, task })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(
    endpoint: &Endpoint,
    version: &str,
    sender: &UnboundedSender<String>,
) -> Result<()> {
    let mut version = version.to_owned();
    for _ in 0..MOST_ENDS {
        follow_from(endpoint, &mut version, sender).await?;
    }
    bail!("the API server has ended it {MOST_ENDS} times");
}

/// Until the API server ends the watch; `version` is then that of the last pod it has told of.
async fn follow_from(
    endpoint: &Endpoint,
    version: &mut String,
    sender: &UnboundedSender<String>,
) -> Result<()> {
    let path = format!("/api/v1/pods?watch=1&labelSelector={SELECTOR}&resourceVersion={version}");
    let mut connection = endpoint.connect().await?;
    let answer = connection.open(&Request::get(path)).await?;
    ensure!(answer.status().is_success(), "watch: {}", answer.status());
    let mut body = answer.into_body();
    let mut rest: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        rest.extend_from_slice(&data);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let told = read(&line)?;
            *version = told.version;
            if let Some(name) = told.swapped {
                sender.send(name)?;
            }
        }
    }
    Ok(())
}

/// What an event tells.
struct Told {
    version: String,
    /// The name of the pod, if its sidecar has the exit image.
    swapped: Option<String>,
}

fn read(line: &[u8]) -> Result<Told> {
    let Event { object } = serde_json::from_slice(line)?;
    ensure!(
        object.status != "Failure",
        "the watch ends: {}",
        String::from_utf8_lossy(line)
    );
    let is_swapped = object
        .spec
        .containers
        .iter()
        .any(|container| container.image == EXIT);
    let Metadata {
        name,
        resource_version,
    } = object.metadata;
    Ok(Told {
        version: resource_version,
        swapped: is_swapped.then_some(name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pods_with_the_exit_image_count_and_an_error_is_one() {
        let event = |image: &str| {
            format!(
                r#"{{"type":"MODIFIED","object":{{"metadata":{{"name":"burst-1","resourceVersion":"7"}},"spec":{{"containers":[{{"image":"{image}"}}]}},"status":{{}}}}}}"#
            )
        };
        let told = read(event(EXIT).as_bytes()).unwrap();
        assert_eq!(told.swapped.as_deref(), Some("burst-1"));
        assert_eq!(told.version, "7");
        let told = read(event("other").as_bytes()).unwrap();
        assert_eq!(told.swapped, None);
        assert!(
            read(br#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410}}"#)
                .is_err()
        );
    }
}
