//! All policies, prepared so that an event of a pod evaluates few of them.
//!
//! The policies that select a namespace, and the rules that match a container with a name and an
//! image, are computed once and cached until a policy or a label of a namespace changes. For each
//! event only the selectors of the policies whose rules match are left.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use kube_core::{Selector, SelectorExt as _};

use super::presets;
use crate::image::alias::original;
use crate::image::pattern::matches_any_run;
use crate::objects::pod::roles::is_called_sidecar;
use crate::objects::pod::{Container, Pod, PolicyRule as Place, SidecarRule};
use crate::objects::sidecar_policy::{
    ANY_OWNER, CLOSED, NO_OWNER, PolicyKind, PolicyRule, SidecarPolicy, Subject,
};
use crate::objects::values::problems::MOST_PROBLEMS;

/// The most answers that are cached: there are rarely so many kinds of containers at once, and
/// beyond it they are computed again.
const MOST_KEPT: usize = 4096;
/// The most outranked policies that a pod records.
const MOST_OUTRANKED: usize = 8;
/// The most rules in all cached answers.
const MOST_KEPT_RULES: usize = 1 << 17;

/// Labels of a namespace, or of a pod.
pub type Labels = BTreeMap<String, String>;

/// The key of a policy: its kind, its namespace (empty for the cluster's) and its name. Policies
/// are evaluated in the order of their keys.
pub type PolicyKey = (PolicyKind, Box<str>, Box<str>);

/// The rules that match containers of a namespace, by container name and image.
type OfNamespace = HashMap<(Box<str>, Box<str>), Arc<[Fitting]>>;

/// All policies, with the labels of namespaces and the cached answers.
#[derive(Debug, Default)]
pub struct Policies {
    all: BTreeMap<PolicyKey, Prepared>,
    namespaces: BTreeMap<Box<str>, Labels>,
    kept: HashMap<Box<str>, OfNamespace>,
    kept_answers: usize,
    kept_rules: usize,
}

#[derive(Debug)]
struct Prepared {
    namespaces: Option<Selector>,
    selects: Arc<Selects>,
    rules: Vec<(Matcher, Arc<SidecarRule>)>,
    preset_problems: Vec<String>,
}

/// The pods that a policy selects.
#[derive(Debug)]
struct Selects {
    pods: Selector,
    owner_kinds: Vec<Box<str>>,
}

/// A rule that matches a container with this name and image.
#[derive(Clone, Debug)]
struct Fitting {
    selects: Arc<Selects>,
    rule: Arc<SidecarRule>,
}

#[derive(Debug)]
enum Matcher {
    Names(&'static [String]),
    Pattern {
        name: Option<Box<str>>,
        image: Option<Box<str>>,
    },
}

impl Policies {
    /// Records a policy that was listed, added or changed. Returns true if that may change the
    /// rules of pods.
    pub fn apply(&mut self, policy: &SidecarPolicy) -> bool {
        let prepared = Prepared::of(policy);
        let before = self.all.insert(key(policy), prepared);
        self.forget_kept();
        let after = self.all.get(&key(policy));
        // Everything that makes a difference: selectors cannot be compared.
        let words = |policy: &Prepared| format!("{policy:?}");
        before.as_ref().map(words) != after.map(words)
    }

    /// Removes a policy that is gone. Returns true if it was there.
    pub fn remove(&mut self, key: &PolicyKey) -> bool {
        self.forget_kept();
        self.all.remove(key).is_some()
    }

    /// Returns true if a policy selects namespaces by labels.
    pub fn ask_for_namespaces(&self) -> bool {
        self.all.values().any(|policy| policy.namespaces.is_some())
    }

    /// Records the labels of a namespace, or, for `None`, that it is gone, with its pods. Returns
    /// true if that changes the rules of pods.
    pub fn namespace(&mut self, name: &str, labels: Option<Labels>) -> bool {
        let before = match labels.clone() {
            Some(labels) => self.namespaces.insert(name.into(), labels),
            None => self.namespaces.remove(name),
        };
        if before == labels || !self.ask_for_namespaces() {
            return false;
        }
        self.forget_kept();
        let is_selected = |selector: &Selector, labels: &Option<Labels>| {
            labels
                .as_ref()
                .is_some_and(|labels| selector.matches(labels))
        };
        let mut selectors = self
            .all
            .values()
            .filter_map(|policy| policy.namespaces.as_ref());
        labels.is_some()
            && selectors
                .any(|selector| is_selected(selector, &before) != is_selected(selector, &labels))
    }

    /// Returns the problems with unknown presets; those that its reading found are not among them.
    pub fn preset_problems(&self, key: &PolicyKey) -> &[String] {
        self.all
            .get(key)
            .map_or(&[], |policy| &policy.preset_problems)
    }

    /// Returns true if a rule counts at present; one of an annotation always does.
    pub fn counts(&self, rule: &Arc<SidecarRule>) -> bool {
        let Some(place) = rule.policy() else {
            return true;
        };
        self.all
            .get(&key_of(place))
            .is_some_and(|policy| policy.rules.iter().any(|(_, other)| other == rule))
    }

    /// Sets the rules of the containers of a pod with these labels, replacing those that policies
    /// set before. A container with a rule of an annotation keeps it, and no policy counts if no
    /// main container would be left. Policies that select the pod and count for none of its
    /// containers are recorded. `is_swapped` is called with a container of the spec: a swapped one no
    /// longer shows which image it had, so its name alone has to match.
    pub fn mark(
        &mut self,
        pod: &mut Pod,
        labels: &Labels,
        is_swapped: impl Fn(&Container) -> bool,
    ) {
        unmark(pod);
        if self.all.is_empty() || CLOSED.contains(&&*pod.namespace) {
            return;
        }
        let owner = owner_kind(pod);
        let mut outranked = Vec::new();
        // Each selector is evaluated once, however many containers its policy is about.
        let mut selected = HashMap::new();
        for container in &mut pod.containers {
            let image = if is_swapped(container) {
                "".into()
            } else {
                original(&container.image)
            };
            let fitting = self.fitting(&pod.namespace, &container.name, &image);
            let mut of_pod = fitting
                .iter()
                .filter(|fitting| {
                    *selected
                        .entry(Arc::as_ptr(&fitting.selects))
                        .or_insert_with(|| fitting.selects.has(&owner, labels))
                })
                .map(|fitting| fitting.rule.clone());
            container.rule = container.rule.take().or_else(|| of_pod.next());
            outranked.extend(of_pod.take(MOST_OUTRANKED));
        }
        if pod.containers.iter().any(|one| !is_called_sidecar(one)) {
            pod.outranked_policies = distinct(outranked, pod);
        } else {
            pod.refused_policy = unmark(pod);
        }
    }

    /// Returns the rules that match a container, in the order in which they count.
    fn fitting(&mut self, namespace: &str, name: &str, image: &str) -> Arc<[Fitting]> {
        let asked = (Box::from(name), Box::from(image));
        let kept = self.kept.get(namespace).and_then(|kept| kept.get(&asked));
        if let Some(kept) = kept {
            return kept.clone();
        }
        let found = self.find(namespace, name, image);
        if self.kept_answers >= MOST_KEPT || self.kept_rules >= MOST_KEPT_RULES {
            self.forget_kept();
        }
        self.kept_answers += 1;
        self.kept_rules += found.len();
        self.kept
            .entry(namespace.into())
            .or_default()
            .insert(asked, found.clone());
        found
    }

    /// Finds the first entry of each policy that fits. Without the image, which a swapped container
    /// shows no more, entries by an image alone fit each container: so the one of its name goes first,
    /// unless an earlier one fits whatever the image, and policies of which only such an entry fits
    /// come last.
    fn find(&self, namespace: &str, name: &str, image: &str) -> Arc<[Fitting]> {
        let labels = self.namespaces.get(namespace);
        let is_about = move |(key, policy): &(&PolicyKey, &Prepared)| match key.0 {
            PolicyKind::Namespaced => *key.1 == *namespace,
            PolicyKind::Cluster => policy
                .namespaces
                .as_ref()
                .is_none_or(|selector| labels.is_some_and(|labels| selector.matches(labels))),
        };
        let entry = |(_, policy): (_, &Prepared)| {
            let fits = |(matcher, _): &&(Matcher, _)| matcher.fits(name, image);
            let mut rules = policy.rules.iter().filter(fits);
            let first = rules.clone().next()?;
            // The first one that fits whatever the image ends the search for one of its name.
            let ends =
                |(matcher, _): &&(Matcher, _)| !matcher.is_by_image() || matcher.is_of_one_name();
            let named = rules
                .find(ends)
                .filter(|(matcher, _)| matcher.is_of_one_name());
            let (matcher, rule) = named.filter(|_| image.is_empty()).unwrap_or(first);
            let is_guess = image.is_empty() && matcher.is_by_image() && !matcher.is_of_one_name();
            let (selects, rule) = (policy.selects.clone(), rule.clone());
            Some((is_guess, Fitting { selects, rule }))
        };
        let mut found: Vec<_> = self.all.iter().filter(is_about).filter_map(entry).collect();
        found.sort_by_key(|(is_guess, _)| *is_guess);
        found.into_iter().map(|(_, fitting)| fitting).collect()
    }

    fn forget_kept(&mut self) {
        self.kept.clear();
        (self.kept_answers, self.kept_rules) = (0, 0);
    }
}

/// Returns the key of a policy.
pub fn key(policy: &SidecarPolicy) -> PolicyKey {
    (policy.kind, policy.namespace.clone(), policy.name.clone())
}

/// Returns the key of the policy of a rule.
pub fn key_of(place: &Place) -> PolicyKey {
    let kind = if place.namespace.is_some() {
        PolicyKind::Namespaced
    } else {
        PolicyKind::Cluster
    };
    (
        kind,
        place.namespace.clone().unwrap_or_default(),
        place.name.clone(),
    )
}

/// Returns the kind of a pod's controller, as `ownerKinds` spells it.
pub(super) fn owner_kind(pod: &Pod) -> Box<str> {
    match (&pod.job, &pod.owner) {
        (Some(_), _) => "Job".into(),
        (None, Some(owner)) => owner.kind.clone(),
        (None, None) => NO_OWNER.into(),
    }
}

/// Returns one rule of each policy that has no rule in the pod.
fn distinct(mut rules: Vec<Arc<SidecarRule>>, pod: &Pod) -> Box<[Arc<SidecarRule>]> {
    if rules.is_empty() {
        return Box::default();
    }
    let policy = |rule: &SidecarRule| rule.policy().map(key_of);
    let mut known: BTreeSet<_> = pod
        .containers
        .iter()
        .filter_map(|container| policy(container.rule.as_deref()?))
        .collect();
    rules.retain(|rule| policy(rule).is_some_and(|key| known.insert(key)));
    rules.truncate(MOST_OUTRANKED);
    rules.into()
}

/// Removes the rules of policies from a pod. Returns the first one that made a sidecar.
fn unmark(pod: &mut Pod) -> Option<Arc<SidecarRule>> {
    pod.refused_policy = None;
    pod.outranked_policies = Box::default();
    let by_policy = |rule: &mut Arc<SidecarRule>| rule.policy().is_some();
    let mut first = None;
    for container in &mut pod.containers {
        let is_marked = container.mark.is_sidecar();
        let rule = container.rule.take_if(by_policy);
        first = first.or(rule.filter(|_| !is_marked));
    }
    first
}

impl Selects {
    fn has(&self, owner: &str, labels: &Labels) -> bool {
        let mut kinds = self.owner_kinds.iter().map(|kind| &**kind);
        kinds.any(|kind| kind == owner || kind == ANY_OWNER) && self.pods.matches(labels)
    }
}

impl Matcher {
    /// Returns true if the entry names its containers.
    fn is_of_one_name(&self) -> bool {
        match self {
            Self::Names(_) => true,
            Self::Pattern { name, .. } => name.as_ref().is_some_and(|name| !name.contains('*')),
        }
    }

    /// Returns true if it depends on the image whether the entry fits.
    const fn is_by_image(&self) -> bool {
        matches!(self, Self::Pattern { image: Some(_), .. })
    }

    fn fits(&self, name: &str, image: &str) -> bool {
        match self {
            Self::Names(names) => names.iter().any(|known| **known == *name),
            Self::Pattern {
                name: names,
                image: images,
            } => {
                let fits = |pattern: &Option<Box<str>>, text: &str| {
                    pattern
                        .as_ref()
                        .is_none_or(|pattern| matches_any_run(pattern, text))
                };
                // A restart adds a digest, and the container stays what it was.
                let tagged = image.split('@').next().unwrap_or_default();
                let is_image = image.is_empty() || fits(images, image) || fits(images, tagged);
                fits(names, name) && is_image
            }
        }
    }
}

impl Prepared {
    fn of(policy: &SidecarPolicy) -> Self {
        let mut preset_problems = Vec::new();
        let mut rules = Vec::new();
        for written in &policy.rules {
            match matcher(written) {
                Ok(matcher) => rules.push((matcher, Arc::new(written.ending.clone()))),
                Err(problem) if preset_problems.len() < MOST_PROBLEMS => {
                    preset_problems.push(problem);
                }
                Err(_) => {}
            }
        }
        Self {
            namespaces: policy.namespaces.clone(),
            selects: Arc::new(Selects {
                pods: policy.pods.clone(),
                owner_kinds: policy.owner_kinds.clone(),
            }),
            rules,
            preset_problems,
        }
    }
}

fn matcher(written: &PolicyRule) -> Result<Matcher, String> {
    match &written.subject {
        Subject::Preset(name) => presets::named(name)
            .map(|preset| Matcher::Names(&preset.containers))
            .ok_or_else(|| {
                let known: Vec<_> = presets::all().iter().map(|row| &*row.name).collect();
                format!(
                    "spec.sidecars[{}]: preset {name:?} is not known: write one of {}, or a name",
                    written.nth,
                    known.join(", ")
                )
            }),
        Subject::Named { name, image } => Ok(Matcher::Pattern {
            name: name.clone(),
            image: image.clone(),
        }),
    }
}
