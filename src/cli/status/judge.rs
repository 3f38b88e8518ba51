//! Judges the results of the checks: plain functions that find what needs attention.

mod in_cluster;
mod sidecar_policies;

use jiff::Timestamp;
use serde::Serialize;

pub(super) use self::in_cluster::cluster;
use super::ask::{Asked, Held, Leash};
use super::installation::Flags;
use super::rights;
use crate::cli::client::place_of;
use crate::cli::exit::CANNOT;
use crate::cli::program::table::{age, are};

/// The maximum number of objects that are named.
const MOST_NAMES: usize = 10;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Ok,
    /// Intended, or worth knowing.
    Note,
    /// Somebody has to act.
    Attention,
    /// Not permitted to check.
    Unknown,
}

impl State {
    /// Returns the mark for people.
    pub(super) const fn mark(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Attention => "TODO",
            Self::Unknown => "?",
        }
    }

    /// Returns the result with this state, in these words.
    fn says(self, words: impl Into<String>) -> Said {
        (self, words.into())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    /// The Deployment; empty for a check of the cluster.
    pub(super) installation: String,
    pub(super) subject: &'static str,
    pub(super) state: State,
    pub(super) words: String,
}

impl Check {
    fn new(installation: impl Into<String>, subject: &'static str, (state, words): Said) -> Self {
        Self {
            installation: installation.into(),
            subject,
            state,
            words,
        }
    }
}

/// Returns the exit code, as documented in the help.
pub(super) fn exit_code(checks: &[Check]) -> u8 {
    let has = |state| checks.iter().any(|check| check.state == state);
    match (has(State::Attention), has(State::Unknown)) {
        (true, _) => 1,
        (false, true) => CANNOT,
        (false, false) => 0,
    }
}

type Said = (State, String);

/// Judges the installations of a namespace, or of all.
pub(super) fn installations(all: &[Asked], namespace: Option<&str>, now: Timestamp) -> Vec<Check> {
    if all.is_empty() {
        const NONE: &str = "there is no Deployment with the label app.kubernetes.io/name=swaplet";
        let words = match namespace {
            Some(name) => format!(
                "swaplet is not installed in namespace {name}: {NONE}. Without -n all namespaces are searched, where your rights allow that"
            ),
            None => format!(
                "swaplet is not installed in this cluster: {NONE}. Install it (docs/install/README.md), or end what is stuck once with \
                 `swaplet rescue -A --dry-run`"
            ),
        };
        return vec![Check::new("", "installation", State::Attention.says(words))];
    }
    let one_is_real = all.iter().any(Asked::has_some_right);
    let mut checks = Vec::new();
    for asked in all {
        let place = asked.installation.place();
        let mut add = |subject, said| checks.push(Check::new(&*place, subject, said));
        if one_is_real && !asked.has_some_right() {
            let words = "its account has none of the rights of swaplet: it does not count as an installation, whatever its label says";
            add("installation", State::Note.says(words));
            continue;
        }
        add("version", version(&asked.installation.version));
        add("flags", flags(asked));
        add("replicas", replicas(asked.installation.replicas));
        let flags = asked.installation.flags.as_ref().ok();
        if let Some(flags) = flags {
            let sharer = all.iter().find(|other| other.shares_lease_of(asked));
            if let Some(other) = sharer {
                let words = format!(
                    "{} has the same --state-namespace: they share one Lease, so one of them does nothing",
                    other.installation.place()
                );
                add("state namespace", State::Attention.says(words));
            }
            add("leader", leader(asked, now));
            add("rights", rights(asked));
            add("admission policies", policies(&asked.policies, flags));
            add("CRDs", crds(asked));
            let policies = &asked.sidecar_policies;
            add("sidecar policies", sidecar_policies::policies(policies));
            if let Some(said) = sidecar_policies::opened(policies, &asked.policies) {
                add("what they may end", said);
            }
        }
        if let Some(said) = flags.and_then(|flags| public(flags, asked.public.as_ref())) {
            add("pulls by anybody", said);
        }
        if let Some(answer) = &asked.registry {
            add("registry", registry(answer));
        }
    }
    checks
}

/// Says that no installation can be looked for in the namespace that is named, or in all, and of
/// which namespace the rest is then.
pub(super) fn unknown(named: Option<&str>, namespace: &str) -> Check {
    let place = place_of(named);
    let words = format!(
        "your rights do not allow to look for it (list Deployments of {place}): ask an administrator. What follows is of namespace {namespace}"
    );
    Check::new("", "installation", State::Unknown.says(words))
}

/// Says of which installation the rest is, where there are several.
pub(super) fn of_one(place: &str) -> Check {
    let words = format!(
        "what follows is of Deployment {place} alone: swaplet status -n NAMESPACE tells of the pods of another one"
    );
    Check::new("", "installation", State::Note.says(words))
}

fn version(theirs: &str) -> Said {
    let ours = env!("CARGO_PKG_VERSION");
    match theirs {
        "" => State::Note.says("its label does not say"),
        theirs if theirs == ours => State::Ok.says(format!("{theirs}, as this program")),
        theirs => State::Note.says(format!(
            "{theirs}, and this program is {ours}: the decisions that it shows may differ"
        )),
    }
}

fn flags(asked: &Asked) -> Said {
    match &asked.installation.flags {
        Ok(flags) => {
            let said = flags.settings.iter().filter(|setting| setting.is_said);
            let count = said.count();
            State::Ok.says(format!("{count} {} set (-o wide lists them)", are(count)))
        }
        Err(problem) => State::Unknown.says(format!("they cannot be read: {problem}")),
    }
}

fn replicas((wanted, ready): (i32, i32)) -> Said {
    let words = format!("{ready} of {wanted} ready");
    match (wanted, ready) {
        (0, _) => State::Attention
            .says("it is scaled to 0, so nothing is done: kubectl scale it to 1 or 2"),
        (wanted, ready) if ready >= wanted => State::Ok.says(words),
        _ => State::Attention.says(format!(
            "{words}: kubectl describe its pods, and read /readyz, which says what it waits for"
        )),
    }
}

fn leader(asked: &Asked, now: Timestamp) -> Said {
    match &asked.lease {
        None if asked.installation.replicas.0 > 1 => State::Attention
            .says("several processes run without --leader-elect: run one, or set it"),
        None => State::Note.says("one process, without a Lease"),
        Some(Err(words)) => State::Unknown.says(format!("cannot get the Lease: {words}")),
        Some(Ok(held)) => held_by(held, now),
    }
}

fn held_by(held: &Held, now: Timestamp) -> Said {
    let Held { holder, renewed } = held;
    let Some(renewed) = renewed.filter(|_| !holder.is_empty()) else {
        return State::Attention
            .says("no process holds the Lease, so nothing is done: see the logs of its pods");
    };
    let words = format!("{holder}, renewed {} ago", age(renewed, now));
    if !held.is_held(now) {
        return State::Attention.says(format!(
            "{words}: it has stopped, or the clock of this machine is wrong"
        ));
    }
    State::Ok.says(words)
}

fn rights(asked: &Asked) -> Said {
    let with = |answer| {
        let rights = asked.rights.iter().filter(move |(_, may)| *may == answer);
        rights.map(|(right, _)| right)
    };
    let denied = |is_optional| {
        let denied = with(Some(false)).filter(move |right| right.is_optional() == is_optional);
        denied.map(rights::Right::words).collect::<Vec<_>>()
    };
    let (needed, optional) = (denied(false), denied(true));
    let unknown = with(None).count();
    if !needed.is_empty() {
        return State::Attention.says(format!(
            "{} {} missing: {} (docs/rights.md says what each is for, and its role)",
            needed.len(),
            are(needed.len()),
            some(&needed)
        ));
    }
    if unknown > 0 {
        return State::Unknown.says(format!(
            "cannot check {unknown} of {}: the API server has not answered, or you lack the right to create subjectaccessreviews",
            asked.rights.len()
        ));
    }
    if !optional.is_empty() {
        return State::Note.says(format!(
            "without {}: docs/rights.md says what that costs",
            some(&optional)
        ));
    }
    let flags = asked.installation.flags.as_ref();
    match flags.map_or(0, rights::namespaces_left_out) {
        0 => State::Ok.says(format!("all {}", asked.rights.len())),
        left_out => State::Note.says(format!(
            "all {}, but {left_out} of its namespaces were not asked",
            asked.rights.len()
        )),
    }
}

fn policies(leash: &Result<Leash, String>, flags: &Flags) -> Said {
    let needed = flags.is_on("restart") && !flags.is_on("restart-without-leash");
    let leash = match leash {
        Ok(leash) => leash,
        Err(words) => return State::Unknown.says(format!("cannot be read: {words}")),
    };
    if leash.policies.is_empty() {
        let words = "there are none for its account: apply deploy/leash.yaml, or set leash.enabled in the chart (Kubernetes 1.30 or later)";
        return match needed {
            true => State::Attention.says(format!("{words}; without them nothing is restarted")),
            false => State::Note.says(words),
        };
    }
    let unbound = leash.policies.iter().filter(|(_, bound)| !**bound);
    let unbound: Vec<_> = unbound
        .map(|(name, _)| format!("{}-{name}", leash.name))
        .collect();
    if !unbound.is_empty() {
        return State::Attention.says(format!(
            "no binding denies by {}: apply deploy/leash.yaml again",
            some(&unbound)
        ));
    }
    if needed && !leash.policies.contains_key("parked") {
        return State::Attention.says(format!(
            "{}-parked is missing, so nothing is restarted: apply deploy/leash-parked.yaml",
            leash.name
        ));
    }
    let missing: Vec<_> = policies_for(flags)
        .filter(|part| !leash.policies.contains_key(*part))
        .map(|part| format!("{}-{part}", leash.name))
        .collect();
    if !missing.is_empty() {
        return State::Attention.says(format!(
            "{} {} missing: apply deploy/leash.yaml again",
            some(&missing),
            are(missing.len())
        ));
    }
    State::Ok.says(format!(
        "{} of {}, all bound",
        leash.policies.len(),
        leash.name
    ))
}

/// Returns which policies of `deploy/leash.yaml` bound what these flags switch on, as the chart
/// renders them.
fn policies_for(flags: &Flags) -> impl Iterator<Item = &'static str> {
    let restarts = flags.is_on("restart");
    let warms = flags.is_on("warm");
    [
        ("pods", true),
        ("pods-status", true),
        ("events", true),
        ("state", true),
        ("requests", restarts),
        ("own-requests", restarts),
        ("warmers", warms),
        ("pull-jobs", warms),
        ("own-jobs", warms),
        ("nodes", warms && flags.is_on("warm-startup-taint")),
        ("image-caches", warms && flags.is_on("warm-image-caches")),
        ("protected", flags.is_on("protect")),
    ]
    .into_iter()
    .filter_map(|(part, is_needed)| is_needed.then_some(part))
}

fn crds(asked: &Asked) -> Said {
    let crds = match &asked.crds {
        Ok(crds) => crds,
        Err(words) => return State::Unknown.says(format!("cannot be read: {words}")),
    };
    let missing = crds.iter().filter(|(_, is_there)| !is_there);
    let missing: Vec<_> = missing.map(|(name, _)| (*name).to_owned()).collect();
    match (crds.len(), missing.len()) {
        (0, _) => State::Ok.says("its flags need none"),
        (all, 0) => State::Ok.says(format!("all {all} that its flags need")),
        _ => State::Attention.says(format!(
            "{} {} not served: apply deploy/crds",
            some(&missing),
            are(missing.len())
        )),
    }
}

fn registry(answer: &Result<bool, String>) -> Said {
    match answer {
        Ok(true) => State::Ok.says("it has the exit image"),
        Ok(false) => {
            State::Attention.says("it does not have the exit image: swaplet exit-image push")
        }
        Err(words) => State::Unknown.says(format!("it does not say: {words}")),
    }
}

/// Judges whether the exit image can be pulled without credentials; `None` where none is written.
fn public(flags: &Flags, answer: Option<&Result<bool, String>>) -> Option<Said> {
    let says = |value| flags.one("exit-image-is-public") == Some(value);
    flags
        .said("exit-image")
        .first()
        .filter(|_| flags.is_on("terminate"))?;
    let finishes = flags.one("finish") != Some("never");
    let consequence = if finishes {
        "so pods under restartPolicy Never are ended by their phase, not by it (docs/install/README.md says how to have the swap)"
    } else {
        "so pods under restartPolicy Never are not ended: let --finish be allowed, or keep it in a public repository (docs/install/README.md)"
    };
    let state = if finishes {
        State::Note
    } else {
        State::Attention
    };
    Some(match answer {
        _ if says("true") => State::Ok.says("--exit-image-is-public says that nodes can pull the exit image for every pod"),
        _ if says("false") => state.says(format!("--exit-image-is-public says that the exit image needs credentials, {consequence}")),
        None => State::Note.says("not known here: the controller asks the registry of the exit image, and logs the answer (--registry asks from here)"),
        Some(Ok(true)) => State::Ok.says("the exit image needs no credentials"),
        Some(Ok(false)) => state.says(format!("the exit image needs credentials, {consequence}")),
        Some(Err(words)) => State::Unknown.says(format!("it is not known whether the exit image needs credentials: {words}")),
    })
}

/// Lists the first names, and how many more there are.
fn some(names: &[String]) -> String {
    let shown = names.iter().take(MOST_NAMES).cloned().collect::<Vec<_>>();
    match names.len().saturating_sub(MOST_NAMES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests;
