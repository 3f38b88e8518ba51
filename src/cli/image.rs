//! `swaplet image`: the image from which the controller runs.

pub(super) mod exit;
pub(super) mod park;

use std::collections::BTreeSet;
use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use crate::cli::check::verdict;
use crate::cli::check::words::no_container;
use crate::cli::client::proxy_for;
use crate::cli::duration::seconds;
use crate::cli::manifests::Manifests;
use crate::cli::print;
use crate::cli::program::table::{counted, printable, report};
use crate::image::build::{PlatformImage, build_controller, build_derived, build_standard};
use crate::image::docker_config::{Credentials, DockerConfig, DockerConfigError};
use crate::image::export::{layout, write_archive_file, write_folder};
use crate::image::for_controller::push_derived;
use crate::image::program_files::ProgramFiles;
use crate::image::push::{Outcome, check_reference, push};
use crate::image::registry::{Registry, RegistryOptions, is_public};
use crate::image::{BuiltImage, ImageReference, Kind};
use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand};
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::terminate::derive::Push;
use swaplet_controller::terminate::public::AskPublic;
use swaplet_core::check::around::Described;
use swaplet_core::check::scripts::ConfigMaps;
use swaplet_core::image::exit::Platform;
use swaplet_core::image::path_set::PathSet;
use swaplet_core::objects::command::{Executes, Verdict};
use swaplet_core::objects::pod::template::PodTemplate;
use swaplet_core::objects::values::env::WHEN_JOB_EXIT;

/// Push or export the controller image: this program, ready to run in a cluster
///
/// The image holds this very program, for the platform of this machine, and nothing else: no shell,
/// no package manager. If the program is not static, its loader and shared objects come along as
/// this machine has them. It runs as user 65532. For nodes of several platforms name the program of
/// each with --program.
#[derive(Debug, Subcommand)]
pub(super) enum Image {
    /// Build the controller image and push it to a registry
    ///
    /// Nothing is needed but the registry: no Docker, no other image. The same program on the same
    /// machine gives the same digest.
    #[command(after_help = PUSH_EXAMPLES)]
    Push {
        #[command(flatten)]
        push: PushArgs,
        #[command(flatten)]
        contents: ContentsArgs,
    },
    /// Write the controller image to a file or a folder, for machines that reach no registry
    ///
    /// The result is an OCI image layout that `ctr images import`, `docker load`, `skopeo` and
    /// `crane` read.
    #[command(after_help = EXPORT_EXAMPLES)]
    Export {
        #[command(flatten)]
        export: ExportArgs,
        #[command(flatten)]
        contents: ContentsArgs,
    },
}

#[derive(Debug, Args)]
pub(super) struct ContentsArgs {
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
        match self {
            Self::Push { push, contents } => push.run(contents.build()?).await,
            Self::Export { export, contents } => export.run(&contents.build()?),
        }
    }
}

impl ContentsArgs {
    fn build(&self) -> anyhow::Result<BuiltImage> {
        let mut programs = Vec::new();
        let mut files = self.programs.clone();
        if files.is_empty() {
            files.push(std::env::current_exe().context("cannot find the path of this program")?);
        }
        for file in files {
            let mut program = ProgramFiles::of(&file)?;
            let platform = program.platform;
            ensure!(
                programs.iter().all(|(other, _)| *other != platform),
                "two programs are for {platform}: name one for each platform with --program"
            );
            if !program.add_certificates(self.ca_certificates.as_deref())? {
                say!(
                    "note: this machine has no certificates of authorities, so the controller can ask no registry with TLS whether an image is public, nor push derived exit images to one; name some with --ca-certificates FILE"
                );
            }
            programs.push((platform, program));
        }
        programs.sort_by_key(|(platform, _)| Platform::ALL.iter().position(|at| at == platform));
        let programs: Vec<_> = programs.into_iter().map(|(_, program)| program).collect();
        Ok(build_controller(&programs)?)
    }
}

// `export REF PATH`: exports an image of any kind.

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
    fn run(self, image: &BuiltImage) -> anyhow::Result<ExitCode> {
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

// The flags to reach a registry, shared by every command that uses one.

#[derive(Debug, Clone, Args)]
pub struct HostArgs {
    /// Speak to this registry host, with or without port, without TLS (repeatable; never needed for
    /// loopback addresses)
    #[arg(
        hide_short_help = true,
        long,
        value_name = "HOST",
        env = "SWAPLET_PLAIN_HTTP",
        value_delimiter = ',',
        value_parser = host
    )]
    pub plain_http: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub struct RegistryArgs {
    #[command(flatten)]
    pub hosts: HostArgs,

    /// Take the credentials from this file [default: $DOCKER_CONFIG/config.json or
    /// ~/.docker/config.json]
    #[arg(long, value_name = "FILE", env = "SWAPLET_DOCKER_CONFIG")]
    docker_config: Option<PathBuf>,
}

/// Parses a host: a URL would match no registry.
fn host(text: &str) -> Result<String, &'static str> {
    let words = "write the host alone, such as registry.example:5000";
    (!text.contains('/')).then(|| text.to_owned()).ok_or(words)
}

impl HostArgs {
    /// Returns options with these hosts, and defaults for everything else.
    pub fn options(&self) -> RegistryOptions {
        RegistryOptions {
            plain_http: self.plain_http.clone(),
            proxy: proxy_for,
            ..RegistryOptions::default()
        }
    }

    /// Returns how registries are asked whether an image can be pulled without credentials.
    pub fn ask_public(&self) -> AskPublic {
        let options = self.options();
        AskPublic::by(move |image| {
            let options = options.clone();
            async move {
                let answer = is_public(&image, options).await;
                answer.map_err(|error| error.to_string())
            }
        })
    }
}

impl RegistryArgs {
    /// Returns how exit images are pushed; `None` if the rules need no pushes. Credentials are read
    /// before each push, because they may have been renewed.
    pub fn push(self, rules: &Rules) -> Option<Push> {
        let repository = rules.exit_images.derived()?.repository().clone();
        Some(Push::by(move |paths| {
            let (repository, options, credentials) = (
                repository.clone(),
                self.hosts.options(),
                self.credentials(&repository),
            );
            async move { push_derived(&repository, credentials, options, &paths).await }
        }))
    }

    /// Reads the credentials for the repository of `reference`, each time again: a file may have
    /// been renewed since.
    pub fn credentials(
        &self,
        reference: &ImageReference,
    ) -> Result<Credentials, DockerConfigError> {
        match &self.docker_config {
            Some(file) => DockerConfig::load_from(file)?.credentials(reference),
            None => DockerConfig::load()?.credentials(reference),
        }
    }
}

// `push REF`: pushes an image of any kind.

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

    /// How long one request to the registry may take, plus a second for each MiB of a layer; one
    /// that stores something, six times as long
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = seconds(1..=600))]
    timeout: u32,
}

impl PushArgs {
    async fn run(self, image: BuiltImage) -> anyhow::Result<ExitCode> {
        check_reference(&self.reference, &image)?;
        if self.dry_run {
            print(&dry_run(&self.reference, &image))?;
            return Ok(ExitCode::SUCCESS);
        }
        let host = self.reference.registry();
        let waiting = format!("still pushing to {host} (--timeout bounds each request)");
        let word = match with_progress(&waiting, self.push(&image)).await? {
            Outcome::Pushed => "pushed",
            Outcome::Unchanged => "unchanged",
        };
        print(&line(&self.reference, &image, word))?;
        Ok(ExitCode::SUCCESS)
    }

    async fn push(&self, image: &BuiltImage) -> anyhow::Result<Outcome> {
        let credentials = self.registry.credentials(&self.reference)?;
        let registry =
            Registry::connect(&self.reference, &credentials, self.options(image)).await?;
        Ok(push(&registry, &self.reference, image, self.force).await?)
    }

    fn options(&self, image: &BuiltImage) -> RegistryOptions {
        let platforms = image.platforms.iter();
        let largest = platforms.map(|platform| platform.layer.bytes.len() as u64);
        let seconds = u64::from(self.timeout) + (largest.max().unwrap_or_default() >> 20);
        RegistryOptions {
            timeout: Duration::from_secs(seconds),
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
            Err(_) => say!("{waiting} ..."),
        }
        pause = NEXT_WORD;
    }
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

// `exit-image push REF`, with `--for` and `--path`: the paths besides the standard ones.

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
    async fn run(self) -> anyhow::Result<ExitCode> {
        if self.manifests.is_empty() && self.path.is_empty() {
            return self.push.run(build_standard(Kind::Exit)?).await;
        }
        let mut needs = Needs::read(&self.manifests, &self.sidecar)?;
        if needs.ends == 0 && self.path.is_empty() {
            bail!("nothing was pushed: {}", needs.skipped.join("; "));
        }
        needs.missing.extend(self.path);
        let image = needs.build()?;
        for skipped in &needs.skipped {
            say!("warning: {}", printable(skipped));
        }
        let code = self.push.run(image).await?;
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
        let (read, empty) = Manifests::read_each(files);
        let problems = read.problems.iter();
        let words: Vec<String> = problems
            .map(|problem| format!("{problem:#}"))
            .chain(empty)
            .chain(read.notes)
            .collect();
        if !words.is_empty() {
            bail!(
                "nothing was pushed, because not everything can be read: {}",
                words.join("; ")
            );
        }
        let mut maps = ConfigMaps::default();
        for document in &read.documents {
            maps.add(&document.object, "");
        }
        let mut containers = BTreeSet::new();
        for described in read
            .documents
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
        for container in template.sidecars(sidecars) {
            match verdict(described, container, maps) {
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
        for path in self.missing.union(&self.executed) {
            PathSet::new([path])?;
        }
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
