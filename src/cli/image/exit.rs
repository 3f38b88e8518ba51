//! `swaplet exit-image`: the image to which sidecars are swapped.

use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::{ExitPushArgs, ExportArgs};
use crate::cli::print;
use crate::cli::program::table::table;
use crate::image::Kind;
use crate::image::build::build_standard;
use crate::image::exit::{StandardPath, standard_paths};

/// Push or export the exit image, or list the paths that it has
///
/// The exit image ends a sidecar: it holds one static program that exits 0 at once, at every path
/// where a sidecar's command may point.
#[derive(Debug, Subcommand)]
pub enum ExitImage {
    /// Build the exit image and push it to a registry
    ///
    /// Nothing is needed but the registry: no Docker, no other image. The result is an image index
    /// for amd64 and arm64; the same release of swaplet always pushes the same digest for the same
    /// paths. The platforms are also kept under TAG-amd64 and TAG-arm64.
    #[command(after_help = PUSH_EXAMPLES)]
    Push(ExitPushArgs),
    /// Write the exit image to a file or a folder, for machines that reach no registry
    ///
    /// The result is an OCI image layout that `ctr images import`, `docker load`, `skopeo` and
    /// `crane` read.
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(ExportArgs),
    /// List the paths at which the exit image has its program
    #[command(after_help = LIST_EXAMPLES)]
    List(ListArgs),
}

const PUSH_EXAMPLES: &str = "\
Examples:
  # Push to a registry that you are logged in to with `docker login`
  swaplet exit-image push registry.example/swaplet/exit:v1

  # See the digest first; nothing is sent
  swaplet exit-image push registry.example/swaplet/exit:v1 --dry-run

  # Sidecars that `swaplet check` calls NeedsImage: one image that has their paths, too
  swaplet exit-image push registry.example/swaplet/exit:batch --for manifests/ --dry-run
  swaplet exit-image push registry.example/swaplet/exit:batch --for manifests/

  # A registry without TLS in your network (loopback addresses need no flag)
  swaplet exit-image push registry.internal:5000/swaplet/exit:v1 \\
    --plain-http registry.internal:5000";

const EXPORT_EXAMPLES: &str = "\
Examples:
  # One file, to be carried to a node or a registry elsewhere
  swaplet exit-image export registry.example/swaplet/exit:v1 exit.tar
  ctr --namespace k8s.io images import exit.tar

  # A folder
  swaplet exit-image export registry.example/swaplet/exit:v1 exit-image/";

const LIST_EXAMPLES: &str = "\
Examples:
  # Is my sidecar's command there?
  swaplet exit-image list | grep fluent-bit

  # Where does each path come from?
  swaplet exit-image list -o wide";

#[derive(Debug, Args)]
pub struct ListArgs {
    /// How to print: names, a table with the source of each path, or JSON
    #[arg(short, long, value_enum, default_value_t = Output::Name)]
    output: Output,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    Name,
    Wide,
    Json,
}

impl ExitImage {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Push(args) => args.run().await,
            Self::Export(args) => args.run(&build_standard(Kind::Exit)?),
            Self::List(args) => {
                print(&list(standard_paths(), args.output))?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

fn list(paths: &[StandardPath], output: Output) -> String {
    match output {
        Output::Name => paths
            .iter()
            .map(|entry| format!("{}\n", entry.path))
            .collect(),
        Output::Wide => {
            let line = |entry: &StandardPath| {
                vec![
                    ("PATH", entry.path.to_owned()),
                    ("SOURCE", entry.source.to_owned()),
                ]
            };
            table(&paths.iter().map(line).collect::<Vec<_>>())
        }
        Output::Json => {
            let entries: Vec<_> = paths
                .iter()
                .map(|entry| json!({"path": entry.path, "source": entry.source}))
                .collect();
            format!("{:#}\n", json!(entries))
        }
    }
}
