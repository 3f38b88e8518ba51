//! Restarts by requests: each pod gets a `ContainerRecreateRequest`, which `swaplet run` or
//! OpenKruise handles.

use anyhow::{Context, bail};
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::{Api, Client};
use serde_json::Value;
use swaplet_controller::frame::writer::deleted;
use swaplet_core::objects::recreate_request::{KIND, RequestPhase};
use swaplet_core::restart::request::{
    RequestedPod, RestartRequest, RestartRequestWire, new_request, request_name,
};

use super::strategy::StrategyArgs;
use crate::cli::restart::member::Member;
use crate::cli::restart::{answer, plain};

/// A request is deleted with its pod, and this long after its completion: an hour is enough to
/// inspect it.
const TTL_SECONDS: u32 = 3600;

/// The requests of a namespace.
pub(in crate::cli::restart) struct Requests {
    client: Client,
    pub(in crate::cli::restart) namespace: String,
    /// The part of the request names that is unique to this run.
    run: String,
    strategy: StrategyArgs,
}

/// The result of withdrawing a request.
pub(in crate::cli::restart) enum Withdrawn {
    /// It was deleted before anybody had started.
    Yes,
    /// Somebody works on it, or has done so.
    No(Box<RestartRequest>),
    /// It does not exist.
    Absent,
}

impl Requests {
    /// Returns the requests of a run that starts now.
    pub(in crate::cli::restart) fn new(
        client: Client,
        namespace: &str,
        strategy: StrategyArgs,
        today: jiff::Timestamp,
    ) -> Self {
        let run = format!("{} {}", today.as_nanosecond(), std::process::id());
        Self {
            client,
            namespace: namespace.to_owned(),
            run,
            strategy,
        }
    }

    /// Returns the name of a pod's request. It is always the same, so that a retry makes no second
    /// request.
    pub(in crate::cli::restart) fn name_for(&self, member: &Member) -> String {
        request_name(
            &member.name,
            "restart",
            &format!("{} {}", self.run, member.uid),
        )
    }

    /// Creates the request of a pod; an existing one was created by an earlier try.
    pub(in crate::cli::restart) async fn create(
        &self,
        member: &Member,
        dry_run: bool,
    ) -> kube::Result<()> {
        let object: DynamicObject = serde_json::from_value(body(
            &self.name_for(member),
            &self.namespace,
            member,
            &self.strategy,
        ))
        .map_err(kube::Error::SerdeError)?;
        let resource = ApiResource::erase::<RestartRequestWire>(&());
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        match answer(api.create(
            &PostParams {
                dry_run,
                ..PostParams::default()
            },
            &object,
        ))
        .await
        {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
            other => other.map(drop),
        }
    }

    /// Returns the current request of a pod.
    pub(in crate::cli::restart) async fn get(
        &self,
        member: &Member,
    ) -> anyhow::Result<Option<RestartRequest>> {
        let name = self.name_for(member);
        let found = answer(self.api().get_opt(&name))
            .await
            .map_err(plain)
            .with_context(|| format!("cannot get {KIND} {name}"))?;
        Ok(found.and_then(RestartRequestWire::read))
    }

    /// Deletes the request of a pod, unless somebody works on it.
    pub(in crate::cli::restart) async fn withdraw(
        &self,
        member: &Member,
    ) -> anyhow::Result<Withdrawn> {
        let name = self.name_for(member);
        // A round fails if the request has changed, and it changes a few times at most before
        // somebody works on it.
        for _ in 0..5 {
            let Some(request) = self.get(member).await? else {
                return Ok(Withdrawn::Absent);
            };
            if matches!(
                request.phase,
                RequestPhase::Recreating | RequestPhase::Completed
            ) {
                return Ok(Withdrawn::No(Box::new(request)));
            }
            let as_seen = deleted(&request.uid, Some(&request.version));
            match answer(self.api().delete(&name, &as_seen)).await {
                Ok(_) => return Ok(Withdrawn::Yes),
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => {
                    return Err(plain(error))
                        .with_context(|| format!("cannot delete {KIND} {name}"));
                }
            }
        }
        bail!("{KIND} {name} changes too fast to be deleted")
    }

    fn api(&self) -> Api<RestartRequestWire> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

/// Returns a request for a pod of the plan.
pub(in crate::cli::restart) fn body(
    name: &str,
    namespace: &str,
    member: &Member,
    strategy: &StrategyArgs,
) -> Value {
    let pod = RequestedPod {
        namespace,
        name: &member.name,
        uid: &member.uid,
        node: &member.node,
    };
    let mut request = new_request(
        name,
        pod,
        member
            .containers
            .iter()
            .map(|container| container.name.as_str()),
    );
    request["spec"]["ttlSecondsAfterFinished"] = TTL_SECONDS.into();
    strategy.write_into(&mut request["spec"]);
    request
}
