//! Restarts by requests: each pod gets a `ContainerRecreateRequest`, which `swaplet run` or OpenKruise carries out.

use std::fmt::Write as _;

use anyhow::{Context, bail};
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams, Preconditions};
use kube::{Api, Client};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::answer::{answer, plain};
use super::member::Member;
use super::strategy::StrategyArgs;
use crate::objects::recreate_request::{GROUP, KIND, RequestPhase, VERSION};
use crate::objects::restart_request::{ACTIVE, NODE_NAME, POD_UID, RestartRequest, RestartRequestWire};

/// A request goes with its pod, and this long after it was completed: an hour is enough to look at what has become of it.
const TTL_SECONDS: u32 = 3600;
/// As much of a pod's name as fits into the name of its request beside the digest.
const MOST_OF_A_NAME: usize = 220;
/// Bytes of the digest: enough that no two requests of a pod meet.
const DIGEST: usize = 5;

/// The requests of a namespace.
pub(super) struct Requests {
    client: Client,
    pub(super) namespace: String,
    /// What the names of this run's requests have in common, and those of no other run.
    run: String,
    strategy: StrategyArgs,
}

/// What has become of a request to withdraw.
pub(super) enum Withdrawn {
    /// It was deleted before anybody had begun.
    Yes,
    /// Somebody works on it, or has done so.
    No(Box<RestartRequest>),
    /// It is not there.
    Absent,
}

impl Requests {
    /// Of a run that begins now.
    pub(super) fn new(client: Client, namespace: &str, strategy: StrategyArgs, today: jiff::Timestamp) -> Self {
        let run = format!("{} {}", today.as_nanosecond(), std::process::id());
        Self { client, namespace: namespace.to_owned(), run, strategy }
    }

    /// The name of a pod's request: the same one whenever it is asked for, so that a second try makes no second request.
    pub(super) fn name_for(&self, member: &Member) -> String {
        name_for(&member.name, &format!("{} {}", self.run, member.uid))
    }

    /// Makes the request of a pod; one that is there already was made by an earlier try.
    pub(super) async fn create(&self, member: &Member, dry_run: bool) -> kube::Result<()> {
        let object: DynamicObject = serde_json::from_value(body(&self.name_for(member), &self.namespace, member, &self.strategy))
            .map_err(kube::Error::SerdeError)?;
        let resource = ApiResource::erase::<RestartRequestWire>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        match answer(api.create(&PostParams { dry_run, ..PostParams::default() }, &object)).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
            other => other.map(drop),
        }
    }

    /// The request of a pod as it is now.
    pub(super) async fn get(&self, member: &Member) -> anyhow::Result<Option<RestartRequest>> {
        let name = self.name_for(member);
        let found = answer(self.api().get_opt(&name)).await.map_err(plain).with_context(|| format!("cannot get {KIND} {name}"))?;
        Ok(found.and_then(RestartRequestWire::read))
    }

    /// Deletes the request of a pod, unless somebody works on it.
    pub(super) async fn withdraw(&self, member: &Member) -> anyhow::Result<Withdrawn> {
        let name = self.name_for(member);
        // Each round that fails saw the request change, and it changes a few times at most before somebody works on it.
        for _ in 0..5 {
            let Some(request) = self.get(member).await? else { return Ok(Withdrawn::Absent) };
            if matches!(request.phase, RequestPhase::Recreating | RequestPhase::Completed) {
                return Ok(Withdrawn::No(Box::new(request)));
            }
            let as_seen = Preconditions { uid: Some(request.uid.into()), resource_version: Some(request.version.into()) };
            let parameters = DeleteParams { preconditions: Some(as_seen), ..DeleteParams::default() };
            match answer(self.api().delete(&name, &parameters)).await {
                Ok(_) => return Ok(Withdrawn::Yes),
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => return Err(plain(error)).with_context(|| format!("cannot delete {KIND} {name}")),
            }
        }
        bail!("{KIND} {name} changes too fast to be deleted")
    }

    fn api(&self) -> Api<RestartRequestWire> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

/// Begins with the name of the pod, as far as that fits, and is different wherever `what` is.
fn name_for(pod: &str, what: &str) -> String {
    let mut name: String = pod.chars().take(MOST_OF_A_NAME).collect();
    name.truncate(name.trim_end_matches(['-', '.']).len());
    name.push_str("-restart-");
    // Writing to a string cannot fail.
    Sha256::digest(what).iter().take(DIGEST).for_each(|byte| _ = write!(name, "{byte:02x}"));
    name
}

/// A request for a pod, with the labels that OpenKruise's webhook gives it: so it is for this pod and for no later one of the same name.
pub(super) fn body(name: &str, namespace: &str, member: &Member, strategy: &StrategyArgs) -> Value {
    let containers: Vec<_> = member.containers.iter().map(|container| json!({"name": container.name})).collect();
    let mut spec = json!({"podName": member.name, "containers": containers, "ttlSecondsAfterFinished": TTL_SECONDS});
    strategy.write_into(&mut spec);
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": KIND,
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": {POD_UID: member.uid, NODE_NAME: member.node, ACTIVE: "true"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": member.name, "uid": member.uid}],
        },
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_requests_are_valid_and_differ_from_run_to_run() {
        assert_eq!(name_for("web-0", "1 a"), name_for("web-0", "1 a"));
        assert_ne!(name_for("web-0", "1 a"), name_for("web-0", "2 a"));
        let long = format!("{}.{}", "x".repeat(219), "y".repeat(30));
        let name = name_for(&long, "1 a");
        assert!(name.len() <= 253 && name.starts_with(&format!("{}-restart-", "x".repeat(219))), "{name}");
    }
}
