//! The rules of a server, with their counts of matches.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::effect::Effect;
use super::rule::Rule;
use crate::apiserver::request::Request;

/// The id of a rule that was added.
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
        self.rule.matches(request).then(|| self.hit())?
    }

    /// Returns the fault for one more request that the rule matches.
    fn hit(&self) -> Option<(RuleId, Effect)> {
        let seen = self.seen.fetch_add(1, Ordering::Relaxed);
        let (after, times) = (self.rule.after, self.rule.times);
        (seen >= after && seen - after < times).then(|| (RuleId(self.id), self.rule.effect.clone()))
    }
}

/// The rules of a server; clones share them.
#[derive(Clone, Debug)]
pub struct Faults {
    rules: Arc<Mutex<Vec<Arc<Active>>>>,
    pub(super) generation: watch::Sender<usize>,
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
    /// Appends a rule; the first that matches decides.
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

    /// Returns the number of requests that have matched a rule, including those that it let pass.
    pub fn hits(&self, id: RuleId) -> usize {
        self.lock()
            .iter()
            .find(|active| active.id == id.0)
            .map_or(0, |active| active.seen.load(Ordering::Relaxed))
    }

    /// Returns the fault that hits a request, with the id of its rule.
    pub(crate) fn meet(&self, request: &Request) -> Option<(RuleId, Effect)> {
        self.lock().iter().find_map(|active| active.meet(request))
    }

    /// Returns the fault that hits a request for something outside of the resources.
    pub(crate) fn meet_outside(&self, path: &str) -> Option<Effect> {
        let rules = self.lock();
        let mut hit = rules
            .iter()
            .filter(|active| active.rule.matches_outside(path));
        hit.find_map(|active| Some(active.hit()?.1))
    }

    /// Returns the fault that hits a running watch, among the rules added since a generation.
    pub(super) fn meet_running(&self, request: &Request, since: usize) -> Option<(RuleId, Effect)> {
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

    pub(super) fn is_active(&self, id: RuleId) -> bool {
        self.lock().iter().any(|active| active.id == id.0)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Active>>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
