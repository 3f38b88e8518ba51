//! Faults by rule: what a test wants to go wrong, and when.
//!
//! ```
//! use swaplet_testbed::apiserver::{Effect, Rule, Verb};
//! // The first PATCH on a pod is applied, but the answer is lost.
//! Rule::new(Effect::ApplyThenDrop).verb(Verb::Patch).resource("pods").times(1);
//! // Everything else is told to come back in two seconds, from the third request on.
//! Rule::new(Effect::reply(429).retry_after(2)).after(2);
//! ```

mod stream;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::request::{Request, Verb};
use super::status::ApiError;

pub(super) use stream::WatchFaults;

/// What happens instead of, or besides, what should.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Answer this without doing anything.
    Reply(Reply),
    /// Do it after a while.
    Delay(Duration),
    /// Never answer.
    Hang,
    /// Break the connection without doing anything.
    Drop,
    /// Do it, then break the connection.
    ApplyThenDrop,
    /// Do it, and answer after a while: what comes of it may be seen before.
    ApplyThenDelay(Duration),
    /// Do it, then answer something else.
    ApplyThenReply(Reply),
    /// Answer a list as it was at an older revision.
    ReplayList(u64),
    /// A watch goes on but delivers nothing until [`Faults::clear`] or [`Faults::remove`]; then it
    /// catches up.
    HoldWatch,
    /// A watch does not deliver the events from one index up to, not including, another.
    SkipEvents(usize, usize),
    /// A watch ends after so many lines.
    CloseWatch(usize),
    /// A watch sends a line that is no JSON after so many lines.
    Garbage(usize),
    /// A watch reports 410 in the stream after so many lines, and ends.
    ExpireWatch(usize),
}

/// A made-up answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    code: u16,
    retry_after: Option<u64>,
    message: String,
}

impl Effect {
    /// An answer of this code with the usual reason and text.
    #[must_use]
    pub fn reply(code: u16) -> Reply {
        Reply {
            code,
            retry_after: None,
            message: format!("injected {code}"),
        }
    }

    /// Whether it can also befall a watch that runs already.
    fn is_of_watches(&self) -> bool {
        matches!(
            self,
            Self::HoldWatch
                | Self::SkipEvents(..)
                | Self::CloseWatch(_)
                | Self::Garbage(_)
                | Self::ExpireWatch(_)
        )
    }
}

impl Reply {
    /// Sets the `Retry-After` header, in seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Sets the message.
    #[must_use]
    pub fn message(mut self, message: &str) -> Self {
        message.clone_into(&mut self.message);
        self
    }

    /// Seconds for the header.
    pub(super) fn seconds(&self) -> Option<u64> {
        self.retry_after
    }

    /// As an error of the server.
    pub(super) fn error(&self) -> ApiError {
        let reason = match self.code {
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            409 => "Conflict",
            410 => "Expired",
            422 => "Invalid",
            429 => "TooManyRequests",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "InternalError",
        };
        ApiError::new(self.code, reason, self.message.clone())
    }
}

impl From<Reply> for Effect {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

/// Which requests a fault meets, and how often. Everything left open matches.
#[derive(Clone, Debug)]
pub struct Rule {
    effect: Effect,
    verb: Option<Verb>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<String>,
    user_agent: Option<String>,
    field_selector: Option<String>,
    body: Option<String>,
    after: usize,
    times: usize,
}

impl Rule {
    /// A rule that meets every request, always.
    #[must_use]
    pub fn new(effect: impl Into<Effect>) -> Self {
        Self {
            effect: effect.into(),
            verb: None,
            resource: None,
            namespace: None,
            name: None,
            subresource: None,
            user_agent: None,
            field_selector: None,
            body: None,
            after: 0,
            times: usize::MAX,
        }
    }

    /// Only requests of this verb.
    #[must_use]
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Only requests for this resource (plural name).
    #[must_use]
    pub fn resource(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    /// Only requests in this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only requests for an object of this name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Only requests for this subresource; empty for the resource itself.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    /// Only clients whose user agent contains this.
    #[must_use]
    pub fn user_agent(mut self, part: &str) -> Self {
        self.user_agent = Some(part.to_owned());
        self
    }

    /// Only requests that select by fields, and by something that contains this.
    #[must_use]
    pub fn field_selector(mut self, part: &str) -> Self {
        self.field_selector = Some(part.to_owned());
        self
    }

    /// Only requests whose body contains this.
    #[must_use]
    pub fn body(mut self, part: &str) -> Self {
        self.body = Some(part.to_owned());
        self
    }

    /// Lets the first `count` matching requests pass.
    #[must_use]
    pub fn after(mut self, count: usize) -> Self {
        self.after = count;
        self
    }

    /// Meets only so many requests.
    #[must_use]
    pub fn times(mut self, count: usize) -> Self {
        self.times = count;
        self
    }

    fn matches(&self, request: &Request) -> bool {
        let same =
            |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        let body = || String::from_utf8_lossy(&request.body).into_owned();
        self.verb.is_none_or(|verb| verb == request.verb)
            && same(&self.resource, &request.kind.resource)
            && same(&self.namespace, &request.namespace)
            && same(&self.name, &request.name)
            && same(&self.subresource, &request.subresource)
            && self
                .user_agent
                .as_deref()
                .is_none_or(|part| request.user_agent.contains(part))
            && self
                .field_selector
                .as_deref()
                .is_none_or(|part| request.query.get("fieldSelector").contains(part))
            && self
                .body
                .as_deref()
                .is_none_or(|part| body().contains(part))
    }
}

/// Names a rule that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleId(usize);

#[derive(Debug)]
struct Active {
    id: usize,
    rule: Rule,
    seen: AtomicUsize,
}

impl Active {
    fn meet(&self, request: &Request) -> Option<(RuleId, Effect)> {
        if !self.rule.matches(request) {
            return None;
        }
        let seen = self.seen.fetch_add(1, Ordering::Relaxed);
        let (after, times) = (self.rule.after, self.rule.times);
        (seen >= after && seen - after < times).then(|| (RuleId(self.id), self.rule.effect.clone()))
    }
}

/// The rules of a server; clones share them.
#[derive(Clone, Debug)]
pub struct Faults {
    rules: Arc<Mutex<Vec<Arc<Active>>>>,
    generation: watch::Sender<usize>,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            rules: Arc::default(),
            generation: watch::Sender::new(0),
        }
    }
}

impl Faults {
    /// Adds a rule behind the others; the first that matches decides.
    pub fn add(&self, rule: Rule) -> RuleId {
        let id = self.turn();
        self.lock().push(Arc::new(Active {
            id,
            rule,
            seen: AtomicUsize::new(0),
        }));
        RuleId(id)
    }

    /// Removes one rule.
    pub fn remove(&self, id: RuleId) {
        self.lock().retain(|active| active.id != id.0);
        self.turn();
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.lock().clear();
        self.turn();
    }

    /// How many requests have matched a rule so far, those it let pass included.
    #[must_use]
    pub fn hits(&self, id: RuleId) -> usize {
        self.lock()
            .iter()
            .find(|active| active.id == id.0)
            .map_or(0, |active| active.seen.load(Ordering::Relaxed))
    }

    /// The fault that meets a request, with the rule it comes from.
    pub(super) fn meet(&self, request: &Request) -> Option<(RuleId, Effect)> {
        self.lock().iter().find_map(|active| active.meet(request))
    }

    /// The fault that meets a running watch, among the rules added since a generation.
    fn meet_running(&self, request: &Request, since: usize) -> Option<(RuleId, Effect)> {
        let rules = self.lock();
        let mut fresh = rules
            .iter()
            .filter(|active| active.id > since && active.rule.effect.is_of_watches());
        fresh.find_map(|active| active.meet(request))
    }

    fn turn(&self) -> usize {
        self.generation.send_modify(|generation| *generation += 1);
        *self.generation.borrow()
    }

    fn is_active(&self, id: RuleId) -> bool {
        self.lock().iter().any(|active| active.id == id.0)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Active>>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
