//! `push REF`: pushes an image of any kind.

use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::registry_args::RegistryArgs;
use crate::cli::duration::seconds;
use crate::cli::print;
use crate::cli::program::table::report;
use crate::image::build::{PlatformImage, build_standard};
use crate::image::push::{Outcome, check_reference, push};
use crate::image::registry::{Registry, RegistryOptions};
use crate::image::{BuiltImage, ImageReference, Kind};

/// The time until the first progress message.
const FIRST_WORD: Duration = Duration::from_secs(1);

/// The interval of further progress messages.
const NEXT_WORD: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub(super) struct PushArgs {
    /// Where to push: [REGISTRY/]REPOSITORY:TAG
    #[arg(value_name = "REF")]
    reference: ImageReference,

    /// Print the digests and send nothing
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    registry: RegistryArgs,

    /// Overwrite an image that swaplet did not make (an image of swaplet of another kind is never
    /// overwritten)
    #[arg(long)]
    force: bool,

    /// How long one request to the registry may take, plus a second for each MiB of a layer
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = seconds(1..=600))]
    timeout: u32,
}

impl PushArgs {
    pub(super) async fn run(self, kind: Kind) -> anyhow::Result<ExitCode> {
        self.run_with(build_standard(kind)?).await
    }

    pub(super) async fn run_with(self, image: BuiltImage) -> anyhow::Result<ExitCode> {
        check_reference(&self.reference, &image)?;
        if self.dry_run {
            print(&dry_run(&self.reference, &image))?;
            return Ok(ExitCode::SUCCESS);
        }
        let waiting = format!("still pushing to {}", self.reference.registry());
        let outcome = with_progress(&waiting, self.push(&image)).await?;
        print(&pushed(&self.reference, &image, outcome))?;
        Ok(ExitCode::SUCCESS)
    }

    async fn push(&self, image: &BuiltImage) -> anyhow::Result<Outcome> {
        let credentials = self.registry.credentials(&self.reference)?;
        let registry =
            Registry::connect(&self.reference, &credentials, self.options(image)).await?;
        Ok(push(&registry, &self.reference, image, self.force).await?)
    }

    fn options(&self, image: &BuiltImage) -> RegistryOptions {
        let largest = image
            .platforms
            .iter()
            .map(|platform| platform.layer.bytes.len() as u64)
            .max()
            .unwrap_or_default();
        let timeout = Duration::from_secs(u64::from(self.timeout) + (largest >> 20));
        RegistryOptions {
            timeout,
            note: report,
            ..self.registry.hosts.options()
        }
    }
}

async fn with_progress<T>(waiting: &str, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    let mut pause = FIRST_WORD;
    loop {
        match tokio::time::timeout(pause, &mut work).await {
            Ok(done) => return done,
            Err(_) => eprintln!("{waiting} ..."),
        }
        pause = NEXT_WORD;
    }
}

fn pushed(reference: &ImageReference, image: &BuiltImage, outcome: Outcome) -> String {
    let word = match outcome {
        Outcome::Pushed => "pushed",
        Outcome::Unchanged => "unchanged",
    };
    line(reference, image, word)
}

fn dry_run(reference: &ImageReference, image: &BuiltImage) -> String {
    let platform = |built: &PlatformImage| {
        format!(
            "  {:8} {}  program {} B, layer {} B{}\n",
            format!("{}:", built.platform),
            built.manifest.digest,
            built.program_size,
            built.layer.bytes.len(),
            if image.paths.is_empty() {
                String::new()
            } else {
                format!(", all but the paths {} B", built.size_without_links())
            }
        )
    };
    let platforms: String = image.platforms.iter().map(platform).collect();
    line(reference, image, "would be pushed (dry run)") + &platforms
}

fn line(reference: &ImageReference, image: &BuiltImage, word: &str) -> String {
    let size = |built: &PlatformImage| format!("{} {} B", built.platform, built.size());
    let mut facts: Vec<String> = image.platforms.iter().map(size).collect();
    if !image.paths.is_empty() {
        facts.push(format!("{} paths", image.paths.len()));
    }
    format!(
        "{}  {}  {word} ({})\n",
        with_tag(reference),
        image.digest(),
        facts.join(", ")
    )
}

/// Returns the reference with its implied tag, if none is written.
fn with_tag(reference: &ImageReference) -> String {
    let written = reference.as_str();
    match reference.tag() {
        Some(tag) if reference.digest().is_none() && !written.ends_with(&format!(":{tag}")) => {
            format!("{written}:{tag}")
        }
        _ => written.to_owned(),
    }
}
