//! `export REF PATH`: exports an image of any kind.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use crate::cli::print;
use crate::image::build::build_standard;
use crate::image::export::{layout, write_archive_file, write_folder};
use crate::image::push::check_reference;
use crate::image::{BuiltImage, ImageReference, Kind};

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The name that the image gets: [REGISTRY/]REPOSITORY:TAG
    #[arg(value_name = "REF")]
    reference: ImageReference,

    /// Where to write: a file if the name ends in .tar, a folder otherwise
    #[arg(value_name = "PATH")]
    path: PathBuf,
}

impl ExportArgs {
    pub(super) fn run(self, kind: Kind) -> anyhow::Result<ExitCode> {
        self.run_with(&build_standard(kind)?)
    }

    pub(super) fn run_with(self, image: &BuiltImage) -> anyhow::Result<ExitCode> {
        let Self { reference, path } = self;
        check_reference(&reference, image)?;
        let files = layout(image, &reference);
        let written = if path.extension().is_some_and(|extension| extension == "tar") {
            write_archive_file(&files, &path)
        } else {
            write_folder(&files, &path)
        };
        written.with_context(|| format!("cannot write {}", path.display()))?;
        print(&format!(
            "{reference}  {}  written to {}\n",
            image.digest(),
            path.display()
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}
