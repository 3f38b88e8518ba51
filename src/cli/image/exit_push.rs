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
use swaplet_core::objects::values::env::WHEN_JOB_EXIT;

use super::push::PushArgs;
use crate::cli::check::words::no_container;
use crate::cli::manifests::Manifests;
use crate::cli::print;
use crate::cli::program::table::{counted, printable};
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
        if needs.ends == 0 && self.path.is_empty() {
            bail!("nothing was pushed: {}", needs.skipped.join("; "));
        }
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
    /// The number of sidecars that the image ends.
    ends: usize,
    /// The sidecars that no image can end.
    skipped: Vec<String>,
}

impl Needs {
    /// Reads manifests. Unreadable ones are an error, because an image for half of them would be
    /// taken for complete, and so are those without a sidecar: most likely they are not the ones
    /// that were meant.
    fn read(files: &[PathBuf], sidecars: &[String]) -> anyhow::Result<Self> {
        let mut needs = Self::default();
        if files.is_empty() {
            return Ok(needs);
        }
        let (
            Manifests {
                documents,
                problems,
                notes,
                ..
            },
            empty,
        ) = Manifests::read_each(files);
        let words: Vec<String> = problems
            .iter()
            .map(|problem| format!("{problem:#}"))
            .chain(empty)
            .chain(notes)
            .collect();
        if !words.is_empty() {
            bail!(
                "nothing was pushed, because not everything can be read: {}",
                words.join("; ")
            );
        }
        let mut maps = ConfigMaps::default();
        for document in &documents {
            maps.add(&document.object, "");
        }
        let mut containers = BTreeSet::new();
        for described in documents
            .iter()
            .flat_map(|document| Described::all(&document.object))
        {
            let spec = &described.template.spec;
            let all = spec.containers.iter().chain(&spec.native_sidecars);
            containers.extend(all.map(|container| container.name.clone()));
            needs.add(&described, sidecars, &maps);
        }
        let missing: Vec<_> = sidecars
            .iter()
            .filter(|name| !containers.contains(name.as_str()))
            .map(|name| no_container(name, &containers))
            .collect();
        if !missing.is_empty() {
            bail!("nothing was pushed: {}", missing.join("; "));
        }
        if needs.ends == 0 && needs.skipped.is_empty() {
            bail!(
                "nothing was pushed, because no container in --for is a sidecar: set env {WHEN_JOB_EXIT}: \"true\", or name it with --sidecar NAME"
            );
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
                Verdict::Runnable { executes } => self.note_end(executes),
                Verdict::NeedsImage { executes, paths } => {
                    self.missing.extend(paths);
                    self.note_end(executes);
                }
                Verdict::NotSwappable { reason, .. } => {
                    let PodTemplate { kind, name, .. } = template;
                    self.skipped.push(format!(
                        "no exit image ends {} of {kind}/{name}: {}; {}",
                        container.name,
                        reason.problem(),
                        reason.fix()
                    ));
                }
            }
        }
    }

    fn note_end(&mut self, executes: Executes) {
        self.ends += 1;
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
        match (self.missing.is_empty(), self.skipped.len()) {
            (true, 0) => "the standard paths are enough for these manifests\n".to_owned(),
            (true, skipped) => format!(
                "it has the standard paths, and does not end {} of these manifests\n",
                counted(skipped, "sidecar")
            ),
            (false, _) => self
                .missing
                .iter()
                .map(|path| format!("  has besides the standard paths: {}\n", printable(path)))
                .collect(),
        }
    }
}
