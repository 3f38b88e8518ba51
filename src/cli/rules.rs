//! The rules of the installation, for every subcommand that decides about pods.

pub(super) mod asked;
pub(super) mod policies;
pub(super) mod public;

use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use swaplet_controller::cluster::rules::Rules;
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::exit_images::derived::DerivedImages;
use swaplet_core::cluster::exit_images::public::Public;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::report::decision::Method;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::Coexist;

use crate::image::build::derived_paths;
use crate::image::pattern::ImagePattern;
use crate::image::reference::ImageReference;

/// The placeholder for an exit image that is not named.
pub(super) const ASSUMED_EXIT_IMAGE: &str = "the-exit-image";

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
    /// Like [`table`](Self::table), with the rows of this text if no file is given here.
    pub(super) fn table_or(&self, text: Option<String>) -> anyhow::Result<NodeTable> {
        if self.node_classes.is_some() {
            return self.table();
        }
        Self {
            node_classes: None,
            text,
        }
        .table()
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
    exit_image: Option<ImageReference>,
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

/// Whether the phase may be written.
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

/// What is tried first.
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

/// [`Coexist`] as a flag.
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

    /// Returns the exit image that is named.
    pub const fn exit_image(&self) -> Option<&ImageReference> {
        self.exit_image.as_ref()
    }

    /// Sets the exit image, as `--exit-image` does.
    pub fn assume_exit_image(&mut self, image: ImageReference) {
        self.exit_image = Some(image);
    }

    /// Returns the rules.
    ///
    /// # Errors
    /// No exit image is named and no other method is preferred, a path cannot be in one, the file
    /// of node classes is invalid, or the preferred method is not allowed.
    pub fn rules(self) -> anyhow::Result<Rules> {
        ensure!(!self.needs_exit_image(), NO_EXIT_IMAGE);
        let Self {
            exit_image,
            exit_images,
            exit_image_paths,
            derived_repository,
            exit_image_is_public,
            swap_under_never,
            nodes,
            finish,
            prefer,
            coexist,
        } = self;
        ensure!(
            finish == FinishArg::Allowed || prefer != Some(PreferArg::Finish),
            "--prefer=finish and --finish=never exclude each other: drop one of them"
        );
        let prefer = prefer.map(PreferArg::method);
        let allowed = AllowedMethods {
            prefer,
            finish: finish == FinishArg::Allowed,
            recreate: true,
            swap_under_never,
        };
        let paths = derived_paths(exit_image_paths).context("--exit-image-paths")?;
        let exit_images = ExitImages::new(exit_image, exit_images).with_default_paths(paths);
        let exit_images = match derived_repository {
            Some(repository) => exit_images.with_derived(DerivedImages::new(repository)),
            None => exit_images,
        };
        let exit_images = match exit_image_is_public.said() {
            Some(public) => exit_images.said_public(public),
            None => exit_images,
        };
        Ok(Rules {
            exit_images,
            allowed,
            node_table: nodes.table()?,
            coexist: coexist.into(),
        })
    }
}

impl PreferArg {
    const fn method(self) -> Method {
        match self {
            Self::Swap => Method::Swap,
            Self::Finish => Method::Finish,
            Self::Crr => Method::Recreate,
        }
    }
}

impl From<CoexistArg> for Coexist {
    fn from(argument: CoexistArg) -> Self {
        match argument {
            CoexistArg::Auto => Self::Auto,
            CoexistArg::Defer => Self::Defer,
            CoexistArg::Own => Self::Own,
        }
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
