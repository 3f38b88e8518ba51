//! `swaplet park-image`: the image in which containers wait.

use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;

use super::{ExportArgs, PushArgs};
use crate::image::Kind;
use crate::image::build::{build_derived, build_standard};

/// Push or export the park image
///
/// The park image keeps a container waiting: its program stays until SIGTERM and then exits 143. It
/// is used where a container is restarted whose image has no other spelling (`swaplet run
/// --park-image`), and to warm images. Its program lies where that of the exit image does: a parked
/// container is started with its own command.
#[derive(Debug, Subcommand)]
pub enum ParkImage {
    /// Build the park image and push it to a registry
    ///
    /// It never shares a reference with the exit image: swaplet refuses to push one over the other.
    #[command(after_help = EXAMPLES)]
    Push {
        #[command(flatten)]
        push: PushArgs,
        /// Add the program at this path, as a refused restart requests (repeatable); name it in
        /// `swaplet run --park-image-paths` too
        #[arg(long, value_name = "PATH")]
        path: Vec<String>,
    },
    /// Write the park image to a file or a folder, for machines that reach no registry
    ///
    /// The result is an OCI image layout that `ctr images import`, `docker load`, `skopeo` and
    /// `crane` read.
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(ExportArgs),
}

const EXAMPLES: &str = "\
Examples:
  # Push to a registry that you are logged in to with `docker login`
  swaplet park-image push registry.example/swaplet/park:v1

  # See the digest first; nothing is sent
  swaplet park-image push registry.example/swaplet/park:v1 --dry-run

  # Containers with commands of their own are to be parked
  swaplet park-image push registry.example/swaplet/park:apps --path /opt/app/run
  swaplet run --restart --park-image registry.example/swaplet/park:apps \\
    --park-image-paths /opt/app/run ...";

const EXPORT_EXAMPLES: &str = "\
Examples:
  # One file, to be carried to a node or a registry elsewhere
  swaplet park-image export registry.example/swaplet/park:v1 park.tar
  ctr --namespace k8s.io images import park.tar

  # A folder
  swaplet park-image export registry.example/swaplet/park:v1 park-image/";

impl ParkImage {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Push { push, path } => {
                let image = build_derived(Kind::Park, path).context("--path")?;
                push.run(image).await
            }
            Self::Export(args) => args.run(&build_standard(Kind::Park)?),
        }
    }
}
