//! The rules of the installation, for every subcommand that decides about pods.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::cli::run::config::is_said;
use crate::cli::status::installation::{Found, Installation};
use crate::image::build::derived_paths;
use crate::image::pattern::ImagePattern;
use crate::image::reference::ImageReference;
use anyhow::{Context, ensure};
use clap::builder::Resettable;
use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use futures::future::join_all;
use kube::Client;
use serde_json::{Value, json};
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::frame::remarks::Remarks;
use swaplet_controller::terminate::public::{Answer, AskPublic};
use swaplet_controller::terminate::snapshot::policies::PodPolicies;
use swaplet_core::cluster::exit_images::derived::DerivedImages;
use swaplet_core::cluster::exit_images::{ExitImages, Public};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::pod::{PolicyRule, SidecarRule};
use swaplet_core::objects::sidecar_policy::PolicyKind;
use swaplet_core::report::decision::Method;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::Coexist;
use tokio::time::timeout;

/// The placeholder for an exit image that is not named.
const ASSUMED_EXIT_IMAGE: &str = "the-exit-image";

/// The error where an exit image is needed and none is named.
pub(super) const NO_EXIT_IMAGE: &str = "no exit image: push one with `swaplet exit-image push IMAGE` and pass it with --exit-image IMAGE, or work without one by --prefer=finish";

/// How nodes are recognised.
#[derive(Debug, Args)]
pub struct NodeTableArgs {
    /// Rows that set the class of nodes, matched before the built-in ones (see `swaplet nodes
    /// --help`)
    #[arg(
        hide_short_help = true,
        long,
        value_name = "FILE",
        env = "SWAPLET_NODE_CLASSES"
    )]
    node_classes: Option<PathBuf>,
    /// What stands in the file, where that is not one of this machine.
    #[arg(skip)]
    text: Option<String>,
}

impl NodeTableArgs {
    /// Like [`table`](Self::table), with the rows of the installation if no file is given here.
    pub(super) fn table_or(&self, found: &Found) -> anyhow::Result<NodeTable> {
        if self.node_classes.is_some() {
            return self.table();
        }
        Self {
            node_classes: None,
            text: found.flags().and_then(|flags| flags.node_classes.clone()),
        }
        .table()
    }

    /// Returns true if the rows of an installation would count, and are not known.
    pub(super) fn lacks_rows(&self, found: &Found) -> bool {
        self.node_classes.is_none() && found.lacks_flags()
    }

    /// Returns the table of node classes.
    ///
    /// # Errors
    /// The file cannot be read or used; the error names row and field, and the fix.
    pub fn table(&self) -> anyhow::Result<NodeTable> {
        let built_in = NodeTable::built_in();
        if let Some(text) = &self.text {
            let own = NodeTable::read(text).context("the node classes of the installation")?;
            return Ok(own.before(&built_in));
        }
        let Some(file) = &self.node_classes else {
            return Ok(built_in);
        };
        let read =
            || anyhow::Ok(NodeTable::read(&std::fs::read_to_string(file)?)?.before(&built_in));
        read().with_context(|| format!("--node-classes {}", file.display()))
    }
}

/// Which exit images there are, and what is allowed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Ending sidecars")]
pub struct RulesArgs {
    /// The image that sidecars are swapped to; a static program that exits 0 at once
    #[arg(long, value_name = "IMAGE", env = "SWAPLET_EXIT_IMAGE", value_parser = ImageReference::parse)]
    pub exit_image: Option<ImageReference>,
    /// Other exit images that pods may name; * stands for any characters except / and @. List
    /// nothing but exit images: a container that shows one of these counts as ended
    #[arg(long, value_name = "IMAGE,...", env = "SWAPLET_EXIT_IMAGES", value_delimiter = ',', value_parser = ImagePattern::parse)]
    exit_images: Vec<ImagePattern>,
    /// Paths that --exit-image has besides the standard ones, as `swaplet exit-image push --for`
    /// prints them
    #[arg(
        hide_short_help = true,
        long,
        value_name = "PATH,...",
        env = "SWAPLET_EXIT_IMAGE_PATHS",
        value_delimiter = ',',
        requires = "exit_image"
    )]
    exit_image_paths: Vec<String>,
    /// Derive exit images for other paths, and keep them here: those that --exit-image does not
    /// have, in a repository for this use only, which the nodes can pull from
    #[arg(long, value_name = "REPOSITORY", env = "SWAPLET_DERIVED_REPOSITORY", value_parser = repository, requires = "exit_image")]
    derived_repository: Option<ImageReference>,
    /// Whether nodes can pull the exit images without credentials. Where they cannot, or where that
    /// is not known, pods under restartPolicy Never are ended by their phase on kubelets
    #[arg(hide_short_help = true, long, value_enum, default_value_t = PublicArg::Auto, env = "SWAPLET_EXIT_IMAGE_IS_PUBLIC")]
    exit_image_is_public: PublicArg,
    /// Swap images on all virtual nodes of class VirtualUpdates also under restartPolicy Never:
    /// where the provider judges the pod while no container of it runs, it fails a pod whose work
    /// is done [default: where the row of the node says so, or a pod has proved it]
    #[arg(hide_short_help = true, long, env = "SWAPLET_SWAP_UNDER_NEVER")]
    swap_under_never: bool,
    #[command(flatten)]
    nodes: NodeTableArgs,
    /// Whether the phase of a pod may be written; where swapping images does not end it. Needs patch
    /// of pods/status
    #[arg(long, value_enum, default_value_t = FinishArg::Allowed, env = "SWAPLET_FINISH")]
    finish: FinishArg,
    /// What to try first, on nodes that have it [default: swap]
    #[arg(long, value_enum, env = "SWAPLET_PREFER")]
    prefer: Option<PreferArg>,
    /// Who ends sidecars where OpenKruise is installed as well
    #[arg(long, value_enum, default_value_t = CoexistArg::Auto, env = "SWAPLET_COEXIST")]
    coexist: CoexistArg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FinishArg {
    /// If nothing else ends the pod, or if it is requested
    Allowed,
    /// Never: pods that only this would end keep running
    Never,
}

/// Whether exit images can be pulled without credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PublicArg {
    /// As the registry of the exit image answers; it is asked once, without credentials
    Auto,
    /// They can, or every node or pod has the credentials
    True,
    /// They cannot
    False,
}

impl PublicArg {
    /// Returns what the administrator says; `None` if the registry is to be asked.
    pub(super) const fn said(self) -> Option<Public> {
        match self {
            Self::Auto => None,
            Self::True => Some(Public::Yes),
            Self::False => Some(Public::No),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PreferArg {
    /// Change the images of the sidecars
    Swap,
    /// Write the phase of the pod; then no exit image has to be named
    Finish,
    /// On nodes with OpenKruise's daemon: ask it, by a ContainerRecreateRequest. A sidecar that
    /// does not exit with 0 on SIGTERM then fails a pod under Never
    Crr,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum CoexistArg {
    /// While OpenKruise's SidecarTerminator is on, leave it the pods that it acts on, and take the
    /// others
    Auto,
    /// While OpenKruise's manager is there, leave it every pod
    Defer,
    /// Take every pod: OpenKruise's SidecarTerminator is off
    Own,
}

impl RulesArgs {
    /// Returns true if an exit image is required and none is named.
    pub fn needs_exit_image(&self) -> bool {
        self.exit_image.is_none()
            && self.exit_images.is_empty()
            && self.prefer != Some(PreferArg::Finish)
    }

    /// Returns the rules.
    ///
    /// # Errors
    /// No exit image is named and no other method is preferred, a path cannot be in one, the file
    /// of node classes is invalid, or the preferred method is not allowed.
    pub fn rules(self) -> anyhow::Result<Rules> {
        ensure!(!self.needs_exit_image(), NO_EXIT_IMAGE);
        ensure!(
            self.finish == FinishArg::Allowed || self.prefer != Some(PreferArg::Finish),
            "--prefer=finish and --finish=never exclude each other: drop one of them"
        );
        let allowed = AllowedMethods {
            prefer: self.prefer.map(|prefer| match prefer {
                PreferArg::Swap => Method::Swap,
                PreferArg::Finish => Method::Finish,
                PreferArg::Crr => Method::Recreate,
            }),
            finish: self.finish == FinishArg::Allowed,
            recreate: true,
            swap_under_never: self.swap_under_never,
        };
        let paths = derived_paths(self.exit_image_paths).context("--exit-image-paths")?;
        let mut exit_images =
            ExitImages::new(self.exit_image, self.exit_images).with_default_paths(paths);
        if let Some(repository) = self.derived_repository {
            exit_images = exit_images.with_derived(DerivedImages::new(repository));
        }
        if let Some(public) = self.exit_image_is_public.said() {
            exit_images = exit_images.said_public(public);
        }
        Ok(Rules {
            exit_images,
            allowed,
            node_table: self.nodes.table()?,
            coexist: match self.coexist {
                CoexistArg::Auto => Coexist::Auto,
                CoexistArg::Defer => Coexist::Defer,
                CoexistArg::Own => Coexist::Own,
            },
        })
    }
}

/// Parses a repository without a tag: derived images are referred to by their digest.
fn repository(written: &str) -> Result<ImageReference, String> {
    let named = |end: char| {
        written
            .rsplit('/')
            .next()
            .is_some_and(|last| last.contains(end))
    };
    if named(':') || named('@') {
        return Err("name a repository alone, without tag and digest, such as registry.example/swaplet/derived".to_owned());
    }
    ImageReference::parse(written).map_err(|error| error.to_string())
}

// Resolves whether SidecarPolicies apply, for commands that decide outside the installation.

/// What is said by hand.
#[derive(Debug, Args)]
pub struct PoliciesArgs {
    /// Whether SidecarPolicies and NamespacedSidecarPolicies count [default: as in the
    /// installation; false where none is found, true where none can be looked for]
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        env = "SWAPLET_SIDECAR_POLICIES"
    )]
    sidecar_policies: Option<bool>,
}

impl PoliciesArgs {
    /// Returns whether they apply; `None` if that is not known.
    fn are_on(&self, found: &Found) -> Option<bool> {
        self.sidecar_policies.or_else(|| found.reads_policies())
    }

    /// Reads the policies for pods of a namespace, or of all.
    pub async fn read(
        &self,
        found: &Found,
        client: &Client,
        namespace: Option<&str>,
        rules: &Rules,
    ) -> PodPolicies {
        let are_on = self.are_on(found);
        PodPolicies::read(client, namespace, &rules.exit_images, are_on).await
    }

    /// Returns a remark that they do not apply, and why; `None` if they do.
    pub fn remark_off(&self, found: &Found) -> Option<String> {
        if self.are_on(found) != Some(false) {
            return None;
        }
        let why = match (&found.installation, self.sidecar_policies) {
            (_, Some(_)) => "--sidecar-policies=false is given".to_owned(),
            (Some(installation), _) => format!(
                "Deployment {} runs without --sidecar-policies",
                installation.place()
            ),
            (None, _) => "no installation is for these pods".to_owned(),
        };
        Some(format!(
            "SidecarPolicies are not read ({why}): --sidecar-policies makes them count here"
        ))
    }
}

/// Returns the policy of a rule, as JSON.
pub fn policy(rule: &PolicyRule) -> Value {
    let kind = match rule.namespace {
        Some(_) => PolicyKind::Namespaced.kind(),
        None => PolicyKind::Cluster.kind(),
    };
    json!({
        "kind": kind,
        "namespace": rule.namespace,
        "name": rule.name,
        "index": rule.nth,
    })
}

/// Returns a rule, as JSON.
pub fn rule(rule: &SidecarRule) -> Value {
    json!({
        "preset": rule.policy().and_then(|policy| policy.preset.as_ref()),
        "method": rule.method.to_string(),
        "exitImage": rule.exit_image,
        "delaySeconds": rule.delay.as_secs(),
        "waitForExitSeconds": rule.wait_for_exit.as_secs(),
        "order": rule.order,
        "mainMustSucceed": rule.main_must_succeed,
    })
}

// The requested rules: explicit flags take precedence, and all others come from the installation.

/// The flags that belong to the image of `--exit-image`, whichever side sets that.
const OF_EXIT_IMAGE: [&str; 2] = ["exit-image-paths", "exit-image-is-public"];

/// The flags of [`RulesArgs`] that were set explicitly, with their values.
#[derive(Debug)]
pub struct AskedRules(BTreeMap<String, Vec<String>>);

impl Args for AskedRules {
    fn augment_args(command: Command) -> Command {
        RulesArgs::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        RulesArgs::augment_args_for_update(command)
    }
}

impl FromArgMatches for AskedRules {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut said = BTreeMap::new();
        for flag in RulesArgs::augment_args(Command::new("rules")).get_arguments() {
            let id = flag.get_id().as_str();
            let by_hand = is_said(matches.value_source(id));
            if let (true, Some(long), Some(raw)) = (by_hand, flag.get_long(), matches.get_raw(id)) {
                let raw = raw.map(|raw| raw.to_string_lossy().into_owned());
                said.insert(long.to_owned(), raw.collect());
            }
        }
        Ok(Self(said))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl AskedRules {
    /// Returns true if an exit image is set explicitly.
    pub fn names_exit_image(&self) -> bool {
        self.0.contains_key("exit-image")
    }

    /// Returns all flags together, and where they come from. An exit image of the installation
    /// stays one if another is set explicitly, because its controller writes it.
    ///
    /// # Errors
    /// The flags contradict each other.
    pub fn with(&self, found: &Found) -> anyhow::Result<(RulesArgs, Remarks)> {
        let mut remarks = found.remarks.clone();
        let command = RulesArgs::augment_args(Command::new("rules"))
            .mut_args(|flag| flag.env(Resettable::Reset));
        let (mut line, mut taken) = (vec!["rules".to_owned()], Vec::new());
        for flag in command.get_arguments() {
            let Some(long) = flag.get_long() else {
                continue;
            };
            let mine = self.0.get(long).map(Vec::as_slice);
            let is_ours = self.names_exit_image() && OF_EXIT_IMAGE.contains(&long);
            let theirs = found.flags().filter(|_| !is_ours);
            let theirs = theirs.map(|flags| flags.said(long)).unwrap_or_default();
            let words = written(long, flag.get_action(), mine.unwrap_or(theirs));
            if mine.is_none() {
                taken.extend(words.iter().cloned());
            }
            line.extend(words);
        }
        let mut rules = RulesArgs::from_arg_matches(&command.try_get_matches_from(line)?)?;
        if !self.0.contains_key("node-classes") {
            rules.nodes.text = found.flags().and_then(|flags| flags.node_classes.clone());
        }
        if self.names_exit_image() {
            let theirs = found.flags().map(|flags| flags.said("exit-image"));
            for image in theirs.unwrap_or_default() {
                rules.exit_images.push(ImagePattern::parse(image)?);
            }
        }
        if let Some(installation) = found.installation.as_ref().filter(|_| !taken.is_empty()) {
            remarks.push(format!(
                "flags of Deployment {}: {}",
                installation.place(),
                taken.join(" ")
            ));
        }
        Ok((rules, remarks))
    }
}

fn written(long: &str, action: &ArgAction, values: &[String]) -> Vec<String> {
    let one = |value: &String| match action {
        ArgAction::SetTrue => (value == "true").then(|| format!("--{long}")),
        _ => Some(format!("--{long}={value}")),
    };
    values.iter().filter_map(one).collect()
}

impl RulesArgs {
    /// Returns the rules of an installation; if it or its flags are unknown, those of a new one.
    pub fn of_installation(installation: Option<&Installation>) -> anyhow::Result<Rules> {
        let found = Found {
            installation: installation.cloned(),
            ..Found::default()
        };
        let (mut rules, _) = AskedRules(BTreeMap::new()).with(&found)?;
        rules.assume()?;
        let mut rules = rules.rules()?;
        if let Some(image) = rules.exit_images.default_image().cloned()
            && rules.exit_images.is_public(image.as_str()) == Public::Unknown
        {
            // Its controller knows, and most are.
            rules.exit_images.answered_public(&image, Public::Yes);
        }
        Ok(rules)
    }

    /// Assumes an exit image with the standard paths, if one is needed and none will be written.
    /// Returns a remark about it.
    ///
    /// # Errors
    /// None that depends on the flags.
    pub fn assume(&mut self) -> anyhow::Result<Option<String>> {
        if !self.needs_exit_image() {
            return Ok(None);
        }
        self.exit_image = Some(ImageReference::parse(ASSUMED_EXIT_IMAGE)?);
        Ok(Some(format!(
            "no --exit-image is given: one with the standard paths is assumed, and called {ASSUMED_EXIT_IMAGE} here; pass the flags that swaplet run has"
        )))
    }
}

// Whether the exit image can be pulled without credentials, for commands that decide about pods
// without the controller.

/// How long an answer is waited for: a person waits for it too.
const WAITS: Duration = Duration::from_secs(5);

/// Asks the registries of the exit images that are named in full from here, unless the answer is
/// known. Returns a remark for each that gives no clear one.
pub async fn learn_public(exit_images: &mut ExitImages, ask: &AskPublic) -> Vec<String> {
    let is_unknown =
        |image: &ImageReference| exit_images.is_public(image.as_str()) == Public::Unknown;
    let images: Vec<_> = exit_images.named().filter(is_unknown).collect();
    let answers = join_all(images.iter().map(|image| public_answer(image, ask))).await;
    let mut remarks = Vec::new();
    for (image, answer) in images.iter().zip(answers) {
        match answer {
            Ok(public) => {
                let public = if public { Public::Yes } else { Public::No };
                exit_images.answered_public(image, public);
            }
            Err(error) => {
                remarks.push(format!(
                    "it is not known here whether {image} can be pulled without credentials, so pods under restartPolicy Never count as ended by their phase: say it with --exit-image-is-public ({error})"
                ))
            }
        }
    }
    remarks
}

async fn public_answer(image: &ImageReference, ask: &AskPublic) -> Answer {
    if image.as_str() == ASSUMED_EXIT_IMAGE {
        return Ok(true);
    }
    let asked = timeout(WAITS, ask.ask(image)).await;
    asked.unwrap_or_else(|_| Err(format!("no answer within {} s", WAITS.as_secs())))
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};
    use swaplet_core::terminate::methods::AllowedMethods;

    use super::*;

    /// Tests of decisions about an installation where nothing is said (`tests/decisions/expect.rs`)
    /// go by it.
    #[test]
    fn t1_the_shipped_methods_is_the_one_that_decisions_are_tested_with() {
        let args = ["run", "--exit-image", "registry.example/exit:v1"];
        let matches = RulesArgs::augment_args(Command::new("run")).get_matches_from(args);
        let allowed = RulesArgs::from_arg_matches(&matches)
            .unwrap()
            .rules()
            .unwrap()
            .allowed;
        assert_eq!(
            allowed,
            AllowedMethods {
                prefer: None,
                finish: true,
                recreate: true,
                swap_under_never: false
            }
        );
    }
}
