//! `swaplet explain`: explains why the sidecars of a pod were stopped, or were not.

pub(super) mod target;

use std::process::ExitCode;

use crate::cli::program::process::slowly;
use crate::cli::program::rights::{lacking, patched_by};
use crate::cli::program::table::{
    age, aligned, dash, json as as_json, printable, section, table, yaml as as_yaml,
};
use crate::cli::rules::{AskedRules, PoliciesArgs, learn_public, policy, rule};
use crate::cli::status::installation::{Found, Naming, Purpose};
use crate::cli::terminate::unmarked::Unmarked;
use clap::{Args, ValueEnum};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use swaplet_controller::frame::remarks::Remarks;
use swaplet_controller::terminate::snapshot::said::Said;
use swaplet_controller::terminate::snapshot::{Scope, Snapshot};
use swaplet_core::objects::pod::roles::{self, Mains};
use swaplet_core::objects::pod::{Container, Pod, SidecarRule};
use swaplet_core::report::decision::Report;
use swaplet_core::report::denial::{By, Denial};
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::explain::{APPLIES, Explanation, Finding, describe};
use swaplet_edge::client::{ClusterArgs, named_or_own};
use swaplet_edge::print;
use target::Target;

/// The most Events that are shown.
const MOST_EVENTS: usize = 20;
/// The note on a decision to write.
const WHO_WRITES: &str = "Nothing was written now: a running controller does this by itself, and swaplet rescue does it once.";
/// The note where the API server forbids it to the controller.
const DENIED: &str = "The controller tries again, at least every 15 minutes.";
/// The remark on a pod without a marked container where policies could not be read.
const UNREAD: &str =
    "whether a policy names a container of this pod is not known, because not all could be read";
/// The note where the installation does not write it.
const NOBODY_WRITES: &str = "Nothing was written now, and the installation does not do this, as the remarks say; swaplet rescue does it once.";

const EXAMPLES: &str = "\
Examples:
  # Why does this pod not end? And the pods of this Job?
  swaplet explain report-x7k2p -n batch
  swaplet explain job/report -n batch

  # Where no installation can be found: with the flags that the controller has
  swaplet explain report-x7k2p --exit-image registry.example/swaplet/exit:v1 --finish=never

  # For programs
  swaplet explain report-x7k2p -o json | jq -r .decision.reason

Nothing is written, and no controller is needed: the pod, its node, its Job and whatever else \
counts are read with your own rights, and the controller's own functions decide. The remarks list \
what you may not read, and what is assumed instead.

The flags are those of the installation: the Deployment with the label \
app.kubernetes.io/name=swaplet whose account may change pods of the namespace. Flags that you pass \
take precedence, and the remarks say which is which. Where none is found, pass the flags of \
`swaplet run`: with other rules the decision may differ. Without any exit image one with the \
standard paths is assumed. Times count from the end of the main containers, or from the last write \
of swaplet.

Exit codes: 0 the decision is explained; 2 wrong usage, or the pod cannot be read.";

/// Say why the sidecars of a pod were stopped, or were not
///
/// Prints what a controller reads, what it observes there and where the rule comes from; then what
/// it decides, what happens next, and what it has reported about the pod before.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    /// The pod, as NAME, pod/NAME or pod NAME; of job/NAME and cronjob/NAME their pods
    #[arg(value_name = "POD", required = true, num_args = 1..=2)]
    pod: Vec<String>,
    /// The namespace of the pod [default: that of the context]
    #[arg(short, long)]
    namespace: Option<String>,
    /// The namespace of the ConfigMap swaplet-node-verdicts [default: it is looked for in all]
    #[arg(long, value_name = "NAMESPACE", env = "SWAPLET_STATE_NAMESPACE")]
    state_namespace: Option<String>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    output: Form,
    #[command(flatten)]
    rules: AskedRules,
    #[command(flatten)]
    policies: PoliciesArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people, as kubectl describe
    Text,
    Json,
    Yaml,
}

impl ExplainArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let mut target = Target::read(&self.pod.join("/")).map_err(anyhow::Error::msg)?;
        let client = self.cluster.client().await?;
        let namespace = named_or_own(&client, self.namespace.as_deref());
        let purpose = Purpose::Tell;
        let named = self.state_namespace.as_deref();
        let naming = Naming::Namespace(named);
        let found = Found::find(&client, naming, Some(&namespace), purpose).await?;
        let (mut rules, mut remarks) = self.rules.with(&found)?;
        let assumed = rules.assume()?;
        let idleness = found.idleness(Some(&namespace));
        let who = if idleness.is_some() {
            NOBODY_WRITES
        } else {
            WHO_WRITES
        };
        let mut rules = rules.rules()?;
        let unclear = learn_public(&mut rules.exit_images, &found.ask_public()).await;
        let reading = self
            .policies
            .read(&found, &client, Some(&namespace), &rules);
        let mut policies = reading.await;
        let (pods, more) = target.pods(&client, &namespace, &mut policies).await?;
        remarks.extend(policies.remarks());
        let more = [assumed, idleness, more];
        let more = more.into_iter().flatten().chain(unclear);
        more.for_each(|words| remarks.push(words));
        let scope = Scope {
            namespace: Some(namespace.clone()),
            state_namespace: found.state_namespace(named),
        };
        let reading = format!("reading what counts for the pods of namespace {namespace}");
        let whole = !matches!(target, Target::Pod(_));
        let mut answers = Vec::new();
        for pod in &pods {
            let taken = Snapshot::of_pod(&client, rules.clone(), &scope, &mut policies, pod);
            let snapshot = slowly(&reading, taken).await;
            let off = self.policies.remark_off(&found);
            let unread = policies.are_unread();
            let mut answer = Answer::of(pod.clone(), &snapshot, &remarks, who, (off, unread));
            let (write, unmarked) = (answer.write(), answer.unmarked());
            let lacking = lacking(&client, write, unmarked, rules.allowed.finish).await;
            answer.remarks.extend(lacking);
            answers.push(answer);
        }
        print(&show(&answers, self.output, whole)?)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Formats one answer for a pod, or a list of them for a Job.
fn show(answers: &[Answer], form: Form, is_list: bool) -> anyhow::Result<String> {
    let value = || match answers {
        [answer] if !is_list => answer.value(),
        answers => json!({"pods": answers.iter().map(Answer::value).collect::<Vec<_>>()}),
    };
    Ok(match form {
        Form::Text => {
            let texts: Vec<_> = answers.iter().map(Answer::text).collect();
            texts.join("\n\n")
        }
        Form::Json => as_json(&value()),
        Form::Yaml => as_yaml(&value())?,
    })
}

/// Returns the remark on an image that counts as an exit image for this pod alone.
fn taken_for_exit_image(snapshot: &Snapshot, pod: &Pod) -> Option<String> {
    let image = snapshot.unknown_exit_image(pod)?;
    Some(format!(
        "{image} counts as an exit image of this pod, because an Event of swaplet names it"
    ))
}

struct Answer {
    pod: Pod,
    explanation: Explanation,
    remarks: Vec<String>,
    said: Option<Vec<Said>>,
    now: Timestamp,
    /// Since when it waits for containers that nothing marks; `None` if it does not.
    waits_since: Option<Timestamp>,
}

impl Answer {
    /// `who` says who writes what is decided, `off` that policies do not count; `unread` is true
    /// if some could not be read.
    fn of(
        pod: Pod,
        snapshot: &Snapshot,
        remarks: &Remarks,
        who: &str,
        (off, unread): (Option<String>, bool),
    ) -> Self {
        let mut explanation = snapshot.explain(&pod);
        let decision = &mut explanation.decision;
        if let Some(note) = snapshot.write_denied(&pod, decision) {
            decision.reason = Reason::WriteDenied;
            let denial = Denial::of(note);
            let action = decision.action.as_ref();
            let names = action.map_or_else(Vec::new, |action| denial.containers(action));
            let of = if names.is_empty() { "" } else { " for " };
            let of = format!("{of}{}", names.join(", "));
            for finding in &mut explanation.findings {
                if let Some(action) = finding.seen.strip_prefix(APPLIES) {
                    finding.seen = format!("would apply, and is denied{of}: {action}");
                }
            }
            explanation.sentence = format!("{note}.");
            explanation.next = vec![match &denial.by {
                By::Other(who) => format!(
                    "{DENIED} For swaplet rescue the same holds, unless {who} exempts your account."
                ),
                _ => format!(
                    "{DENIED} swaplet rescue writes it once with your own rights, where they allow it."
                ),
            }];
        } else if decision.action.is_some() {
            explanation.next.push(who.to_owned());
        }
        let (now, least) = (snapshot.taken_at(), SignedDuration::ZERO);
        let unmarked = Unmarked::among([&pod], now, least, unread);
        explanation.next.extend(unmarked.sentences());
        let mut remarks = remarks.clone();
        let is_unmarked = explanation.decision.reason == Reason::NoSidecar;
        let unread = unread.then(|| UNREAD.to_owned());
        let more = [
            taken_for_exit_image(snapshot, &pod),
            off.or(unread).filter(|_| is_unmarked),
        ];
        more.into_iter()
            .flatten()
            .for_each(|words| remarks.push(words));
        remarks.extend(snapshot.remarks());
        Self {
            explanation,
            remarks: remarks.lines(),
            said: snapshot
                .said(&pod)
                .map(|said| said.into_iter().cloned().collect()),
            now: snapshot.taken_at(),
            waits_since: unmarked.since(),
            pod,
        }
    }

    /// Returns the namespace and the resource of the patch that would end the pod.
    fn write(&self) -> Option<(&str, &str)> {
        let resource = patched_by(&self.explanation.decision)?;
        Some((&*self.pod.namespace, resource))
    }

    /// Returns its namespace if it waits for containers that nothing marks.
    fn unmarked(&self) -> Option<&str> {
        self.waits_since?;
        self.write().is_none().then_some(&*self.pod.namespace)
    }

    fn value(&self) -> Value {
        let (pod, decision) = (&self.pod, &self.explanation.decision);
        let report =
            |report: &Report| json!({"reason": report.reason.as_str(), "note": report.note});
        json!({
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
            "node": pod.node,
            "job": pod.job.as_ref().map(|job| &job.name),
            "sidecars": sidecars(pod),
            "refusedPolicy": pod.refused_policy.as_deref().and_then(SidecarRule::policy).map(policy),
            "findings": self.explanation.findings.iter().map(finding).collect::<Vec<_>>(),
            "decision": {
                "reason": decision.reason.as_str(),
                "sentence": self.explanation.sentence,
                "action": decision.action.as_ref().map(describe),
                "reports": decision.reports.iter().map(report).collect::<Vec<_>>(),
            },
            "next": self.explanation.next,
            "remarks": self.remarks,
            "events": self.said.as_ref().map(|said| said.iter().map(event).collect::<Vec<_>>()),
        })
    }
}

/// Returns the sidecars, and the settings of each besides its variable.
fn sidecars(pod: &Pod) -> Vec<Value> {
    let called = pod
        .containers
        .iter()
        .filter(|each| roles::is_called_sidecar(each));
    let value = |container: &Container| {
        json!({
            "container": container.name,
            "marked": container.mark.is_sidecar(),
            "policy": container.rule.as_deref().and_then(SidecarRule::policy).map(policy),
            "rule": container.rule.as_deref().map(rule),
        })
    };
    called.map(value).collect()
}

fn finding(finding: &Finding) -> Value {
    json!({"subject": finding.subject, "seen": finding.seen, "source": finding.rule})
}

fn event(said: &Said) -> Value {
    json!({"time": said.at, "type": kind(said), "reason": said.reason, "note": said.note})
}

const fn kind(said: &Said) -> &'static str {
    if said.warning { "Warning" } else { "Normal" }
}

// Formats an answer for people, in the style of `kubectl describe`.

impl Answer {
    fn text(&self) -> String {
        let (inputs, sources) = self.inputs();
        let (reason, sentence) = (
            self.explanation.decision.reason,
            printable(&self.explanation.sentence),
        );
        let mut text = self.head();
        for (title, body) in [
            ("Inputs", aligned(&inputs)),
            ("Sources", aligned(&sources)),
            ("Decision", format!("{reason}: {sentence}\n")),
            ("Next", lines(&self.explanation.next)),
            ("Remarks", lines(&self.remarks)),
            ("Events of swaplet", self.events()),
        ] {
            if !body.is_empty() {
                section(&mut text, title, &body);
            }
        }
        text
    }

    fn head(&self) -> String {
        let pod = &self.pod;
        let job = pod.job.as_ref().map(|job| job.name.to_string());
        let ended = match roles::mains_state(pod) {
            Mains::Done => roles::mains_ended_at(pod),
            _ => self.waits_since,
        };
        let ended = ended.map(|ended| format!("{} ago", age(ended, self.now)));
        let rows = [
            ("Name:", pod.name.to_string()),
            ("Namespace:", pod.namespace.to_string()),
            ("Node:", dash(&pod.node)),
            ("Job:", dash(&job.unwrap_or_default())),
            ("Main exited:", dash(&ended.unwrap_or_default())),
        ];
        aligned(&rows.map(|(name, value)| vec![name.to_owned(), value]))
    }

    /// Returns the findings with the numbers of their rules, and these rules, each once.
    fn inputs(&self) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
        let mut rules: Vec<&'static str> = Vec::new();
        let mut inputs = Vec::new();
        for Finding {
            subject,
            seen,
            rule,
        } in &self.explanation.findings
        {
            let nth = rules.iter().position(|known| known == rule);
            let nth = nth.unwrap_or_else(|| {
                rules.push(*rule);
                rules.len() - 1
            });
            let number = format!("[{}]", nth + 1);
            inputs.push(vec![number, subject.clone(), seen.clone()]);
        }
        let rules = rules.into_iter().enumerate();
        let sources = rules.map(|(nth, rule)| vec![format!("[{}]", nth + 1), rule.to_owned()]);
        (inputs, sources.collect())
    }

    fn events(&self) -> String {
        let said = match self.said.as_deref() {
            None => return "not known: they cannot be read\n".to_owned(),
            Some([]) => return "none\n".to_owned(),
            Some(said) => said,
        };
        let older = said.len().saturating_sub(MOST_EVENTS);
        let line = |said: &Said| {
            vec![
                ("AGE", age(said.at, self.now)),
                ("TYPE", kind(said).to_owned()),
                ("REASON", said.reason.clone()),
                ("MESSAGE", said.note.clone()),
            ]
        };
        let mut text = table(&said[older..].iter().map(line).collect::<Vec<_>>());
        if older > 0 {
            text += &format!("and {older} older ones: kubectl get events\n");
        }
        text
    }
}

fn lines(sentences: &[String]) -> String {
    sentences
        .iter()
        .map(|sentence| format!("{}\n", printable(sentence)))
        .collect()
}
