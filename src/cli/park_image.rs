//! `swaplet park-image`: the image that containers wait in.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::image_export::ExportArgs;
use super::image_push::PushArgs;
use crate::image::Kind;

/// Push or export the park image
///
/// The park image keeps a container waiting: its program stays until SIGTERM and then exits 0. It is used where a container is restarted without a known digest, and to warm images.
#[derive(Debug, Args)]
pub(super) struct ParkImage {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build the park image and push it to a registry
    ///
    /// It never shares a reference with the exit image: swaplet refuses to push one over the other.
    #[command(after_help = EXAMPLES)]
    Push(PushArgs),
    /// Write the park image to a file or a folder, for machines that reach no registry
    ///
    /// The result is an OCI image layout that `ctr images import`, `docker load`, `skopeo` and `crane` read.
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(ExportArgs),
}

const EXAMPLES: &str = "\
Examples:
  # Push to a registry that you are logged in to with `docker login`
  swaplet park-image push registry.example/swaplet/park:v1

  # See the digest first; nothing is sent
  swaplet park-image push registry.example/swaplet/park:v1 --dry-run";

const EXPORT_EXAMPLES: &str = "\
Examples:
  # One file, to be carried to a node or a registry elsewhere
  swaplet park-image export registry.example/swaplet/park:v1 park.tar
  ctr --namespace k8s.io images import park.tar

  # A folder
  swaplet park-image export registry.example/swaplet/park:v1 park-image/";

impl ParkImage {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Push(args) => args.run(Kind::Park).await,
            Command::Export(args) => args.run(Kind::Park),
        }
    }
}
