//! `swaplet policy suggest`: suggests policies that would end the sidecars of stuck Jobs.

use std::process::ExitCode;

use anyhow::anyhow;
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::{Value, json};
use swaplet_controller::frame::clock::time_of_day;
use swaplet_controller::frame::list::words;
use swaplet_controller::terminate::snapshot::policies::PodPolicies;
use swaplet_controller::terminate::snapshot::{Scope, pods};
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::objects::pod::{Pod, SidecarRule, roles};
use swaplet_core::policies::suggest::{MOST, Suggestion, suggest};

use super::{Around, Named};
use crate::cli::client::{ClusterArgs, named_or_own, place_of};
use crate::cli::duration::seconds;
use crate::cli::print;
use crate::cli::program::process::slowly;
use crate::cli::program::table::{Output, json as as_json, note, pods_wait};
use crate::cli::status::ask::leash;
use crate::cli::status::installation::{Flags, Found, Naming, Purpose};
use crate::cli::terminate::unmarked::Unmarked;

const EXAMPLES: &str = "\
Examples:
  # Policies for what is stuck in the whole cluster: read them, then apply them
  swaplet policy suggest -A > policies.yaml
  kubectl apply -f policies.yaml

  # For a team that owns one namespace: NamespacedSidecarPolicies
  swaplet policy suggest -n batch | kubectl apply -f -

  # The stuck pods and what they wait for, as swaplet rescue lists them
  swaplet policy suggest -A -o wide

A pod counts as stuck if some of its containers have ended for good, at least --stuck-for ago, and \
all others run, and nothing marks these as sidecars: no variable, no annotation, no policy. There \
is one policy for each such container, by preset where its name is that of one, or else by its \
name and, with -A, the namespaces in which it was observed. A container whose name and image are \
unknown may still be working: the comment above its policy says so.

Nothing is written. Where the admission policies of swaplet are on, a container needs not only its \
policy but also a permission: by the annotation swaplet.io/sidecars of the pod or of its \
namespace, or by sidecarPolicies.containers of the chart; the comments say which have it. You need \
to list pods and, to know what exists already, policies, Deployments and admission policies.

Exit codes: 0 the suggestions are printed, or there is none; 2 wrong usage, or the pods cannot be \
read.";

/// Suggest policies for the containers that stuck Jobs wait for
///
/// Prints YAML that `kubectl apply` takes, with the reasons as comments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SuggestArgs {
    /// Pods of this namespace, and NamespacedSidecarPolicies for it [default: that of the context]
    #[arg(short, long)]
    namespace: Option<String>,
    /// Pods of all namespaces, and SidecarPolicies, which only administrators may write
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// How long ago some containers must have ended
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = seconds(0..=u32::MAX))]
    stuck_for: u32,
    /// How to print: the policies as YAML, or JSON with the pods; their names; or the pods
    #[arg(short, long, value_enum, default_value_t = Output::Yaml)]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl SuggestArgs {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let client = self.cluster.client().await?;
        let namespace =
            (!self.all_namespaces).then(|| named_or_own(&client, self.namespace.as_deref()));
        let reading = Observed::read(&client, namespace.as_deref(), self.stuck_for);
        let observed = slowly("reading pods and policies", reading).await?;
        for remark in &observed.remarks {
            note(remark);
        }
        let (suggestions, more) = suggest(&observed.unmarked.pods);
        if more > 0 {
            say!("note: only the first {MOST} policies are suggested, {more} are left out");
        }
        let named = Named::all(suggestions, namespace.as_deref(), &observed.policies);
        if named.is_empty() {
            say!(
                "No pod of {} has waited for {} s or longer (--stuck-for) for containers that nothing marks as sidecars.",
                place_of(namespace.as_deref()),
                self.stuck_for
            );
        }
        print(&observed.show(&named, self.output)?)?;
        Ok(ExitCode::SUCCESS)
    }
}

struct Observed {
    unmarked: Unmarked,
    policies: PodPolicies,
    around: Around,
    remarks: Vec<String>,
    now: Timestamp,
}

impl Observed {
    async fn read(client: &Client, namespace: Option<&str>, least: u32) -> anyhow::Result<Self> {
        let (found, around) = around(client, namespace).await?;
        let images = found.flags().map(Flags::exit_images);
        let images = images.unwrap_or_else(|| ExitImages::new(None, Vec::new()));
        let mut policies = PodPolicies::read(client, namespace, &images, Some(true)).await;
        let scope = Scope {
            namespace: namespace.map(str::to_owned),
            state_namespace: None,
        };
        let pods = pods(client, &scope, &mut policies)
            .await
            .map_err(|error| anyhow!("cannot list pods: {}", words(&error)))?;
        let (now, least) = (time_of_day(), SignedDuration::from_secs(least.into()));
        let mut remarks = found.remarks;
        remarks.extend(policies.remarks());
        if let Some(words) = named_already(&pods) {
            remarks.push(words);
        }
        Ok(Self {
            unmarked: Unmarked::among(&pods, now, least, policies.are_unread()),
            policies,
            around,
            remarks: remarks.lines(),
            now,
        })
    }

    fn show(&self, named: &[Named], output: Output) -> anyhow::Result<String> {
        match output {
            Output::Yaml if named.is_empty() => Ok(String::new()),
            Output::Yaml => {
                let mut text = self.around.head(&self.unmarked.pods);
                for policy in named {
                    text.push_str(&policy.yaml(&self.around, self.now)?);
                }
                Ok(text)
            }
            Output::Name => Ok(named.iter().map(Named::name).collect()),
            Output::Table | Output::Wide => Ok(self.unmarked.table()),
            Output::Json => Ok(as_json(&self.value(named))),
        }
    }

    fn value(&self, named: &[Named]) -> Value {
        json!({
            "policies": named.iter().map(Named::manifest).collect::<Vec<_>>(),
            "stuckPods": self.unmarked.values(),
            "remarks": self.remarks,
        })
    }
}

/// Returns the installation, and the containers that its admission policies open.
async fn around(client: &Client, namespace: Option<&str>) -> anyhow::Result<(Found, Around)> {
    let found = Found::find(client, Naming::Never, namespace, Purpose::Tell).await?;
    let mut around = Around {
        namespace: namespace.map(str::to_owned),
        ..Around::default()
    };
    if let Some(installation) = &found.installation {
        around.installation = Some((
            installation.place(),
            found.flags().map(Flags::reads_policies),
        ));
        let leash = leash(client, installation).await;
        around.opened = leash.ok().and_then(|leash| leash.opened);
    }
    Ok((found, around))
}

/// Returns the remark that some pods wait for sidecars that a policy names already.
fn named_already(pods: &[Pod]) -> Option<String> {
    let by_policy = |pod: &Pod| {
        let mut sidecars = roles::sidecars(pod).filter(|sidecar| sidecar.end().is_none());
        sidecars.any(|sidecar| {
            sidecar
                .rule
                .as_deref()
                .and_then(SidecarRule::policy)
                .is_some()
        })
    };
    let waiting = pods
        .iter()
        .filter(|pod| roles::waits_for_sidecars(pod) && by_policy(pod));
    let count = waiting.count();
    (count > 0).then(|| {
        format!(
            "{} for sidecars that a policy names already: swaplet status says whether policies are read, swaplet explain POD why they are not ended",
            pods_wait(count)
        )
    })
}

impl Named {
    /// Gives each suggestion a name that is not in use.
    fn all(
        suggestions: Vec<Suggestion>,
        namespace: Option<&str>,
        policies: &PodPolicies,
    ) -> Vec<Self> {
        let mut named: Vec<Self> = Vec::new();
        for suggestion in suggestions {
            let (kind, place) = Self::place(namespace);
            let is_free = |name: &str| {
                !policies.has(kind, place, name) && named.iter().all(|other| other.name != name)
            };
            let wanted = suggestion.subject.as_str();
            let numbered = (2..).map(|number| format!("{wanted}-{number}"));
            let mut names = std::iter::once(wanted.to_owned()).chain(numbered);
            let name = names.find(|name| is_free(name)).unwrap_or_default();
            named.push(Self {
                name,
                namespace: namespace.map(str::to_owned),
                suggestion,
            });
        }
        named
    }
}
