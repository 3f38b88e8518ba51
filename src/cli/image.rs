//! `swaplet image`: the image from which the controller runs.

pub(super) mod exit;
mod exit_push;
mod export;
pub(super) mod park;
mod push;
pub(super) mod registry_args;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::{Args, Subcommand};

use self::export::ExportArgs;
use self::push::PushArgs;
use swaplet_core::image::exit::Platform;

use crate::image::BuiltImage;
use crate::image::build::build_controller;
use crate::image::program_files::ProgramFiles;

/// Push or export the controller image: this program, ready to run in a cluster
///
/// The image holds this very program, for the platform of this machine, and nothing else: no shell,
/// no package manager. If the program is not static, its loader and shared objects come along as
/// this machine has them. It runs as user 65532. For nodes of several platforms name the program of
/// each with --program.
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
    /// Pack this swaplet instead of the one that you call; repeatable, one for each platform. Of
    /// another platform than this machine's, the shared objects are taken from the folder of Debian's
    /// cross compiler
    #[arg(long = "program", value_name = "FILE")]
    programs: Vec<PathBuf>,
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

  # For nodes of both platforms, with the programs of a release
  swaplet image push registry.example/swaplet/controller:v1 --program amd64/swaplet \\
    --program arm64/swaplet

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
        let mut programs = Vec::new();
        for file in self.files()? {
            let program = ProgramFiles::of(&file)?;
            let platform = program.platform;
            ensure!(
                programs.iter().all(|(other, _)| *other != platform),
                "two programs are for {platform}: name one for each platform with --program"
            );
            programs.push((platform, self.with_certificates(program)?));
        }
        programs.sort_by_key(|(platform, _)| Platform::ALL.iter().position(|at| at == platform));
        let programs: Vec<_> = programs.into_iter().map(|(_, program)| program).collect();
        Ok(build_controller(&programs)?)
    }

    fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        if !self.programs.is_empty() {
            return Ok(self.programs.clone());
        }
        let this = std::env::current_exe().context("cannot find the path of this program")?;
        Ok(vec![this])
    }

    fn with_certificates(&self, mut program: ProgramFiles) -> anyhow::Result<ProgramFiles> {
        if !program.add_certificates(self.ca_certificates.as_deref())? {
            eprintln!(
                "note: this machine has no certificates of authorities, so the controller cannot push derived exit images to registries with TLS; name some with --ca-certificates FILE"
            );
        }
        Ok(program)
    }
}
