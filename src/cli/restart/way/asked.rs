//! Restarts by requests that a controller handles: creating, following and withdrawing them.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context;
use swaplet_controller::frame::list::words;
use swaplet_controller::frame::remarks::is_forbidden;
use swaplet_core::objects::recreate_request::{KIND, RequestPhase};
use swaplet_core::restart::request::RestartRequest;

use super::heard::Heard;
use super::requests::{Requests, Withdrawn};
use crate::cli::restart::member::{Member, Outcome};
use crate::cli::restart::plain;

/// The time after which it is reported that no controller has accepted a request.
const UNANSWERED: Duration = Duration::from_secs(10);
/// The time after which none will: OpenKruise's manager gives up after 60 s, and it comes first.
const NEVER_ANSWERED: Duration = Duration::from_secs(75);
/// How much longer than its deadline a request may take, because it has to be observed.
const AFTER_THE_DEADLINE: Duration = Duration::from_secs(30);

/// The requests of this run, and their state.
pub(in crate::cli::restart) struct Asked {
    requests: Requests,
    deadline: Duration,
    /// The pods whose request is known to exist.
    made: BTreeSet<String>,
    /// The pods whose request was reported as not accepted.
    unanswered: BTreeSet<String>,
}

impl Asked {
    pub(in crate::cli::restart) fn new(requests: Requests, deadline: Duration) -> Self {
        Self {
            requests,
            deadline,
            made: BTreeSet::new(),
            unanswered: BTreeSet::new(),
        }
    }

    /// Lets the API server check the request of a pod, without creating it.
    pub(in crate::cli::restart) async fn try_out(&self, member: &Member) -> anyhow::Result<()> {
        let tried = self.requests.create(member, true).await;
        tried.map_err(|error| anyhow::Error::msg(words(&error) + hint(&error)))
    }

    /// Continues the restart of a pod that began `age` ago.
    pub(in crate::cli::restart) async fn follow(
        &mut self,
        member: &Member,
        age: Duration,
    ) -> anyhow::Result<Heard> {
        if !self.made.contains(&member.uid) {
            return self.make(member).await;
        }
        let Some(request) = self.requests.get(member).await? else {
            return Ok(deleted(member));
        };
        if let Some(why) = self
            .overdue(&request, age)
            .filter(|_| !request.is_completed())
        {
            return self.withdraw(member, why).await;
        }
        let nobody = request.phase == RequestPhase::Unanswered && age >= UNANSWERED;
        if nobody && self.unanswered.insert(member.uid.clone()) {
            return Ok(Heard::News("no controller has accepted its request yet: check that `swaplet run --restart` or OpenKruise runs".to_owned()));
        }
        Ok(Heard::Says(Box::new(request), Vec::new()))
    }

    /// Ends without waiting for a pod.
    pub(in crate::cli::restart) async fn stop(&self, member: &Member, why: &str) -> Heard {
        let heard = self.withdraw(member, why).await;
        heard.unwrap_or_else(|error| {
            Heard::Over(Outcome::Left(format!(
                "{why}, and {error:#}: {}",
                self.get_command(member)
            )))
        })
    }

    async fn make(&mut self, member: &Member) -> anyhow::Result<Heard> {
        let name = self.requests.name_for(member);
        match self.requests.create(member, false).await {
            Ok(()) => {
                self.made.insert(member.uid.clone());
                Ok(Heard::News(format!("{KIND} {name} created")))
            }
            Err(error) if matches!(&error, kube::Error::Api(status) if status.code < 500 && status.code != 429) =>
            {
                let words = words(&error) + hint(&error);
                Ok(Heard::Over(Outcome::Failed(words)))
            }
            Err(error) => Err(plain(error)).with_context(|| format!("cannot create {KIND} {name}")),
        }
    }

    fn overdue(&self, request: &RestartRequest, age: Duration) -> Option<&'static str> {
        if request.phase == RequestPhase::Unanswered && age >= NEVER_ANSWERED {
            return Some("no controller has accepted its request");
        }
        (age >= self.deadline + AFTER_THE_DEADLINE)
            .then_some("its request was not completed in time")
    }

    async fn withdraw(&self, member: &Member, why: &str) -> anyhow::Result<Heard> {
        let name = self.requests.name_for(member);
        Ok(match self.requests.withdraw(member).await? {
            Withdrawn::Yes => Heard::Over(Outcome::NotStarted(format!(
                "{why}; {KIND} {name} was deleted before it was begun"
            ))),
            Withdrawn::No(request) if request.is_completed() => Heard::Says(request, Vec::new()),
            Withdrawn::No(_) => Heard::Over(Outcome::Left(format!(
                "{why}; {KIND} {name} continues: {}",
                self.get_command(member)
            ))),
            Withdrawn::Absent if self.made.contains(&member.uid) => deleted(member),
            Withdrawn::Absent => Heard::Over(Outcome::Left(format!(
                "{why}; {KIND} {name} may still be created: {}",
                self.get_command(member)
            ))),
        })
    }

    fn get_command(&self, member: &Member) -> String {
        format!(
            "kubectl get crr -n {} {}",
            self.requests.namespace,
            self.requests.name_for(member)
        )
    }
}

/// Returns what helps whoever may not create requests.
fn hint(error: &kube::Error) -> &'static str {
    if is_forbidden(error) {
        "; --direct needs only the right to patch the pod, and the ClusterRole swaplet-restart-user grants requests"
    } else {
        ""
    }
}

/// A request goes with its pod, by the garbage collector.
fn deleted(member: &Member) -> Heard {
    let why = match member.pod.metadata.uid {
        None => "the pod was deleted",
        Some(_) => "its request was deleted by somebody else",
    };
    Heard::Over(Outcome::Failed(why.to_owned()))
}
