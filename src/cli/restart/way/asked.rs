//! Restarts by requests: each pod gets a `ContainerRecreateRequest`, which `swaplet run` or
//! OpenKruise handles. They are created, followed and withdrawn here.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, bail};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use swaplet_controller::frame::list::words;
use swaplet_controller::frame::writer;
use swaplet_core::objects::recreate_request::{KIND, RequestPhase};
use swaplet_core::restart::request::{
    RequestedPod, RestartRequest, RestartRequestWire, new_request, request_name,
};

use super::Heard;
use super::StrategyArgs;
use crate::cli::restart::member::{Member, Outcome};
use crate::cli::restart::{get, plain};

/// The time after which it is reported that no controller has accepted a request.
const UNANSWERED: Duration = Duration::from_secs(10);
/// The time after which none will: OpenKruise's manager gives up after 60 s, and it comes first.
const NEVER_ANSWERED: Duration = Duration::from_secs(75);
/// How much longer than its deadline a request may take, because it has to be observed.
const AFTER_THE_DEADLINE: Duration = Duration::from_secs(30);

/// A request is deleted with its pod, and this long after its completion: an hour is enough to
/// inspect it.
const TTL_SECONDS: u32 = 3600;

/// The requests of this run, and their state.
pub struct Asked {
    client: Client,
    namespace: String,
    /// The part of the request names that is unique to this run.
    run: String,
    strategy: StrategyArgs,
    /// The pods whose request is known to exist.
    made: BTreeSet<String>,
    /// The pods whose request was reported as not accepted.
    unanswered: BTreeSet<String>,
    /// True once a controller has accepted a request of this run: it has so many at once, and comes
    /// to the others.
    is_answered: bool,
}

impl Asked {
    pub fn new(client: Client, namespace: &str, strategy: StrategyArgs, today: Timestamp) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            run: format!("{} {}", today.as_nanosecond(), std::process::id()),
            strategy,
            made: BTreeSet::new(),
            unanswered: BTreeSet::new(),
            is_answered: false,
        }
    }

    /// Lets the API server check the request of a pod, without creating it.
    pub async fn try_out(&self, member: &Member) -> anyhow::Result<()> {
        let tried = self.create(member, true).await;
        tried.map_err(plain)
    }

    /// Continues the restart of a pod that began `age` ago.
    pub async fn follow(&mut self, member: &Member, age: Duration) -> anyhow::Result<Heard> {
        if !self.made.contains(&member.uid) {
            return self.make(member).await;
        }
        let Some(request) = self.get(member).await? else {
            return self.deleted(member).await;
        };
        self.is_answered |= request.phase != RequestPhase::Unanswered;
        if let Some(why) = self
            .overdue(&request, age)
            .filter(|_| !request.is_completed())
        {
            return self.withdraw(member, why).await;
        }
        let is_waiting = request.phase == RequestPhase::Unanswered && !self.is_answered;
        let nobody = is_waiting && age >= UNANSWERED;
        if nobody && self.unanswered.insert(member.uid.clone()) {
            return Ok(Heard::News("no controller has accepted its request yet: check that `swaplet run --restart` or OpenKruise runs".to_owned()));
        }
        Ok(Heard::Says(Box::new(request), Vec::new()))
    }

    /// Ends without waiting for a pod.
    pub async fn stop(&self, member: &Member, why: &str) -> Heard {
        let heard = self.withdraw(member, why).await;
        heard.unwrap_or_else(|error| {
            Heard::Over(Outcome::Left(format!(
                "{why}, and {error:#}: {}",
                self.get_command(member)
            )))
        })
    }

    async fn make(&mut self, member: &Member) -> anyhow::Result<Heard> {
        let name = self.name_for(member);
        match self.create(member, false).await {
            Ok(()) => {
                self.made.insert(member.uid.clone());
                Ok(Heard::News(format!("{KIND} {name} created")))
            }
            Err(error) if matches!(&error, kube::Error::Api(status) if status.code < 500 && status.code != 429) => {
                Ok(Heard::Over(Outcome::Failed(words(&error))))
            }
            Err(error) => Err(plain(error)).with_context(|| format!("cannot create {KIND} {name}")),
        }
    }

    fn overdue(&self, request: &RestartRequest, age: Duration) -> Option<&'static str> {
        let is_waiting = request.phase == RequestPhase::Unanswered && !self.is_answered;
        if is_waiting && age >= NEVER_ANSWERED {
            return Some("no controller has accepted its request");
        }
        let deadline = Duration::from_secs(self.strategy.timeout.into());
        (age >= deadline + AFTER_THE_DEADLINE).then_some("its request was not completed in time")
    }

    /// Deletes the request of a pod, unless somebody works on it.
    async fn withdraw(&self, member: &Member, why: &str) -> anyhow::Result<Heard> {
        let name = self.name_for(member);
        let left = |what: &str| {
            let command = self.get_command(member);
            Heard::Over(Outcome::Left(format!(
                "{why}; {KIND} {name} {what}: {command}"
            )))
        };
        // A round fails if the request has changed, and it changes a few times at most before
        // somebody works on it.
        for _ in 0..5 {
            let Some(request) = self.get(member).await? else {
                return Ok(match self.made.contains(&member.uid) {
                    true => self.deleted(member).await?,
                    false => left("may still be created"),
                });
            };
            match request.phase {
                RequestPhase::Recreating | RequestPhase::Completed if request.is_completed() => {
                    return Ok(Heard::Says(Box::new(request), Vec::new()));
                }
                RequestPhase::Recreating => return Ok(left("continues")),
                _ => {}
            }
            let as_seen = writer::deleted(&request.uid, Some(&request.version));
            match self.api().delete(&name, &as_seen).await {
                Ok(_) => {
                    let words = format!("{why}; {KIND} {name} was deleted before it was begun");
                    return Ok(Heard::Over(Outcome::NotStarted(words)));
                }
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => {
                    return Err(plain(error))
                        .with_context(|| format!("cannot delete {KIND} {name}"));
                }
            }
        }
        bail!("{KIND} {name} changes too fast to be deleted")
    }

    /// Returns the name of a pod's request. It is always the same, so that a retry makes no second
    /// request.
    fn name_for(&self, member: &Member) -> String {
        request_name(
            &member.name,
            "restart",
            &format!("{} {}", self.run, member.uid),
        )
    }

    /// Creates the request of a pod; an existing one was created by an earlier try.
    async fn create(&self, member: &Member, dry_run: bool) -> kube::Result<()> {
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
        let params = PostParams {
            dry_run,
            ..PostParams::default()
        };
        match api.create(&params, &object).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
            other => other.map(drop),
        }
    }

    /// Returns the current request of a pod.
    async fn get(&self, member: &Member) -> anyhow::Result<Option<RestartRequest>> {
        let found = get(&self.api(), KIND, &self.name_for(member)).await?;
        Ok(found.and_then(RestartRequestWire::read))
    }

    /// A request goes with its pod, by the garbage collector: the pod says who deleted it.
    async fn deleted(&self, member: &Member) -> anyhow::Result<Heard> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let pod = get(&pods, "pod", &member.name).await?;
        let lives = pod.is_some_and(|pod| {
            pod.uid().as_ref() == Some(&member.uid) && pod.metadata.deletion_timestamp.is_none()
        });
        let why = match lives {
            true => "its request was deleted by somebody else",
            false => "the pod was deleted",
        };
        Ok(Heard::Over(Outcome::Failed(why.to_owned())))
    }

    fn api(&self) -> Api<RestartRequestWire> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn get_command(&self, member: &Member) -> String {
        format!(
            "kubectl get crr -n {} {}",
            self.namespace,
            self.name_for(member)
        )
    }
}

/// Returns a request for a pod of the plan.
pub fn body(name: &str, namespace: &str, member: &Member, strategy: &StrategyArgs) -> Value {
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
