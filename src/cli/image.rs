//! `swaplet image`: the image that the controller runs from.

pub(super) mod exit;
mod exit_push;
mod export;
pub(super) mod park;
pub(super) mod pins;
mod push;
pub(super) mod registry_args;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};

use self::export::ExportArgs;
use self::push::PushArgs;
use crate::image::BuiltImage;
use crate::image::build::build_controller;
use crate::image::program_files::ProgramFiles;

/// Push or export the controller image: this program, ready to run in a cluster
///
/// The image holds this very program, for the platform of this machine, and nothing else: no shell,
/// no package manager. If the program is not static, its loader and shared objects come along as
/// this machine has them. It runs as user 65532.
#[derive(Debug, Args)]
pub(super) struct Image {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build the controller image and push it to a registry
    ///
    /// Nothing is needed but the registry: no Docker, no other image. The same program on the same
    /// machine gives the same digest.
    #[command(after_help = PUSH_EXAMPLES)]
    Push(ImagePushArgs),
    /// Write the controller image to a file or a folder, for machines that reach no registry
    ///
    /// The result is an OCI image layout that `ctr images import`, `docker load`, `skopeo` and
    /// `crane` read.
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(ImageExportArgs),
}

#[derive(Debug, Args)]
struct ImagePushArgs {
    #[command(flatten)]
    push: PushArgs,
    #[command(flatten)]
    contents: ContentsArgs,
}

#[derive(Debug, Args)]
struct ImageExportArgs {
    #[command(flatten)]
    export: ExportArgs,
    #[command(flatten)]
    contents: ContentsArgs,
}

#[derive(Debug, Args)]
struct ContentsArgs {
    /// The certificates of authorities, as PEM, that the controller trusts when it pushes derived
    /// exit images [default: those of this machine]
    #[arg(long, value_name = "FILE")]
    ca_certificates: Option<PathBuf>,
}

const PUSH_EXAMPLES: &str = "\
Examples:
  # Push to a registry that you are logged in to with `docker login`
  swaplet image push registry.example/swaplet/controller:v1

  # See the digest first; nothing is sent
  swaplet image push registry.example/swaplet/controller:v1 --dry-run

  # The registry for derived exit images has a certificate of the company's own authority
  swaplet image push registry.example/swaplet/controller:v1 --ca-certificates company.pem";

const EXPORT_EXAMPLES: &str = "\
Examples:
  # One file, to be carried to a node or a registry elsewhere
  swaplet image export registry.example/swaplet/controller:v1 controller.tar
  ctr --namespace k8s.io images import controller.tar";

impl Image {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Push(ImagePushArgs { push, contents }) => {
                push.run_with(contents.build()?).await
            }
            Command::Export(ImageExportArgs { export, contents }) => {
                export.run_with(&contents.build()?)
            }
        }
    }
}

impl ContentsArgs {
    fn build(&self) -> anyhow::Result<BuiltImage> {
        let mut program = ProgramFiles::of(
            &std::env::current_exe().context("cannot tell where this program lies")?,
        )?;
        if !program.add_certificates(self.ca_certificates.as_deref())? {
            eprintln!(
                "note: this machine has no certificates of authorities, so the controller cannot push derived exit images to registries with TLS; name some with --ca-certificates FILE"
            );
        }
        Ok(build_controller(&program)?)
    }
}
