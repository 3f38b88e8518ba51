//! `exit-image push REF`, with `--for` and `--path`: the paths besides the standard ones.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use swaplet_core::check::around::Described;
use swaplet_core::check::scripts::ConfigMaps;
use swaplet_core::objects::command::{
    ContainerFacts, Executes, StandardPaths, Verdict, resolve_read,
};
use swaplet_core::objects::pod::template::PodTemplate;

use super::push::PushArgs;
use crate::cli::manifests::Manifests;
use crate::cli::print;
use crate::cli::program::table::printable;
use crate::image::build::build_derived;
use crate::image::{BuiltImage, Kind};

#[derive(Debug, Args)]
pub(super) struct ExitPushArgs {
    #[command(flatten)]
    push: PushArgs,

    /// Manifests, or folders of them, whose sidecars the image is to end: adds the paths that the
    /// standard image does not have; - is standard input
    #[arg(long = "for", value_name = "FILE", num_args = 1..)]
    manifests: Vec<PathBuf>,

    /// Add the program at this path, as an Event of reason NeedsImage requests (repeatable)
    #[arg(long, value_name = "PATH")]
    path: Vec<String>,

    /// With --for, count containers of this name as sidecars, marked or not (repeatable)
    #[arg(long, value_name = "NAME", requires = "manifests")]
    sidecar: Vec<String>,
}

impl ExitPushArgs {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        if self.manifests.is_empty() && self.path.is_empty() {
            return self.push.run(Kind::Exit).await;
        }
        let mut needs = Needs::read(&self.manifests, &self.sidecar)?;
        needs.missing.extend(self.path);
        let image = needs.build()?;
        for skipped in &needs.skipped {
            eprintln!("warning: {}", printable(skipped));
        }
        let code = self.push.run_with(image).await?;
        print(&needs.list())?;
        Ok(code)
    }
}

/// The paths that the sidecars of some manifests need.
#[derive(Default)]
struct Needs {
    /// The paths that the standard image lacks.
    missing: BTreeSet<String>,
    /// All executed paths: none of them may be replaced by one of `missing`.
    executed: BTreeSet<String>,
    /// The sidecars that no image can end.
    skipped: Vec<String>,
}

impl Needs {
    /// Reads manifests. Unreadable ones are an error, because an image for half of them would be
    /// taken for complete.
    fn read(files: &[PathBuf], sidecars: &[String]) -> anyhow::Result<Self> {
        let Manifests {
            documents,
            problems,
        } = Manifests::read(files);
        if !problems.is_empty() {
            let words: Vec<String> = problems
                .iter()
                .map(|problem| format!("{problem:#}"))
                .collect();
            bail!(
                "nothing was pushed, because not everything can be read: {}",
                words.join("; ")
            );
        }
        let mut needs = Self::default();
        let mut maps = ConfigMaps::default();
        for document in &documents {
            maps.add(&document.object, "");
        }
        for described in documents
            .iter()
            .flat_map(|document| Described::all(&document.object))
        {
            needs.add(&described, sidecars, &maps);
        }
        Ok(needs)
    }

    fn add(&mut self, described: &Described, sidecars: &[String], maps: &ConfigMaps) {
        let template = &described.template;
        let namespace = template.namespace.as_deref().unwrap_or_default();
        for container in template.sidecars(sidecars) {
            let facts = ContainerFacts::of(&template.spec, container);
            let read = |path: &str| {
                maps.first_line(namespace, &described.config_files.at(&container.name, path))
            };
            match resolve_read(&facts, &StandardPaths, &read) {
                Verdict::Runnable { executes } => self.executes(executes),
                Verdict::NeedsImage { executes, paths } => {
                    self.missing.extend(paths);
                    self.executes(executes);
                }
                Verdict::NotSwappable { reason, .. } => {
                    let PodTemplate { kind, name, .. } = template;
                    self.skipped.push(format!(
                        "no exit image ends {} of {kind}/{name}: {}",
                        container.name,
                        reason.problem()
                    ));
                }
            }
        }
    }

    fn executes(&mut self, executes: Executes) {
        if let Executes::Program(path)
        | Executes::ReadScript {
            interpreter: path, ..
        } = executes
            && path != Kind::Exit.program_path()
        {
            self.executed.insert(path);
        }
    }

    fn build(&self) -> anyhow::Result<BuiltImage> {
        build_derived(Kind::Exit, self.missing.union(&self.executed))
            .context("these paths need two images: push one for each")
    }

    fn list(&self) -> String {
        if self.missing.is_empty() {
            return "the standard paths are enough for these manifests\n".to_owned();
        }
        self.missing
            .iter()
            .map(|path| format!("  has besides the standard paths: {path}\n"))
            .collect()
    }
}
