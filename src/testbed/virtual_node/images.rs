//! The images of a node: those it has and those it can pull, their names and their behaviour.
//!
//! There are no bytes: the digest of an image is derived from its name. `repo:tag` and
//! `repo@digest` with that digest are one image, and so are twins.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use swaplet_core::image::exit::standard_paths;
use swaplet_core::image::{ImagePattern, ImageReference};

/// The search path of programs without a path.
const PATH: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// The options of images.
#[derive(Clone, Debug)]
pub struct ImageOptions {
    /// Exit images, besides those of any repository whose last element is `exit`.
    pub exit: Vec<ImagePattern>,
    /// Park images, besides those of any repository whose last element is `park`.
    pub park: Vec<ImagePattern>,
    /// The paths of exit images besides the standard ones.
    pub exit_paths: Vec<String>,
    /// Images that no registry has.
    pub missing: Vec<ImagePattern>,
    /// Images that are on the node without having come from a registry; no registry has them
    /// either.
    pub imported: Vec<ImageReference>,
    /// Images that a registry gives only to pods with one of `secrets`.
    pub private: Vec<ImagePattern>,
    /// The Secrets that exist, with credentials for all private images.
    pub secrets: Vec<String>,
    /// Pairs of images: the second has the bytes of the first.
    pub twins: Vec<(ImageReference, ImageReference)>,
    /// How long a pull takes.
    pub pull: Duration,
    /// Images whose pull takes longer; the first match counts.
    pub slow: Vec<(ImagePattern, Duration)>,
}

impl Default for ImageOptions {
    fn default() -> Self {
        let (exit, park, missing, slow) = Default::default();
        let (private, secrets, twins) = Default::default();
        // The pull of a small image from a registry nearby.
        let pull = Duration::from_millis(300);
        Self {
            exit,
            park,
            exit_paths: Vec::new(),
            missing,
            imported: Vec::new(),
            private,
            secrets,
            twins,
            pull,
            slow,
        }
    }
}

/// The kind of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// Exits at once with 0.
    Exit,
    /// Runs until SIGTERM.
    Park,
    /// Does what the container's arguments specify.
    Workload,
}

/// An image on the node, with the names that a container status shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// `image`: the full name, with a tag if the node knows one.
    pub image: String,
    /// `imageID`: `repo@digest`, or the bare config digest of an imported image.
    pub image_id: String,
}

/// The images of a node.
#[derive(Clone, Debug)]
pub struct Images {
    options: ImageOptions,
    /// The names of each image on the node, by its config digest.
    present: BTreeMap<String, BTreeSet<String>>,
    /// By image and repository, the Secrets with which it was pulled; an empty name for none.
    pulled: BTreeMap<(String, String), BTreeSet<String>>,
}

impl Images {
    /// Returns the images of a node that has pulled nothing yet.
    pub fn new(options: ImageOptions) -> Self {
        let named = |image: &ImageReference| {
            (
                config_digest(&manifest_digest(image)),
                BTreeSet::from([key(image)]),
            )
        };
        let present = options.imported.iter().map(named).collect();
        Self {
            options,
            present,
            pulled: BTreeMap::new(),
        }
    }

    /// Changes the images that registries do not have, from now on.
    pub fn set_missing(&mut self, missing: Vec<ImagePattern>) {
        self.options.missing = missing;
    }

    /// Changes the Secrets that exist.
    pub fn set_secrets(&mut self, secrets: Vec<String>) {
        self.options.secrets = secrets;
    }

    /// Returns the kind of an image.
    pub fn kind(&self, image: &str) -> ImageKind {
        let Ok(reference) = ImageReference::parse(image) else {
            return ImageKind::Workload;
        };
        let last = reference.repository().rsplit('/').next();
        let listed =
            |patterns: &[ImagePattern]| patterns.iter().any(|pattern| pattern.matches(&reference));
        if last == Some("exit") || listed(&self.options.exit) {
            ImageKind::Exit
        } else if last == Some("park") || listed(&self.options.park) {
            ImageKind::Park
        } else {
            ImageKind::Workload
        }
    }

    /// Returns true if an exit image has a program at this command.
    pub fn exit_image_has(&self, command: &str) -> bool {
        let own = self.options.exit_paths.iter().map(String::as_str);
        let mut paths = own.chain(standard_paths().iter().map(|entry| entry.path));
        if command.contains('/') {
            return paths.any(|path| path == command);
        }
        paths.any(|path| {
            path.rsplit_once('/')
                .is_some_and(|(folder, name)| name == command && PATH.contains(&folder))
        })
    }

    /// Returns the image, if the node has it under this name.
    pub fn local(&self, image: &str) -> Option<Local> {
        if self.present.contains_key(image) {
            return self.named(image);
        }
        self.named(self.config(&ImageReference::parse(image).ok()?)?)
    }

    fn config(&self, reference: &ImageReference) -> Option<&str> {
        let wanted = key(reference);
        let mut present = self.present.iter();
        let (config, _) = present.find(|(_, names)| names.contains(&wanted))?;
        Some(config)
    }

    /// Returns true if a pod with these Secrets may use an image that is on the node: it was not
    /// pulled, or somebody has pulled it from its repository with one of them, or with none.
    pub fn may_use(&self, image: &str, secrets: &[String]) -> bool {
        let Ok(reference) = ImageReference::parse(image) else {
            return true;
        };
        let bare = self.present.contains_key(image).then_some(image);
        let Some(config) = bare.or_else(|| self.config(&reference)) else {
            return false;
        };
        let own = (config.to_owned(), repository(&reference));
        let mut all = self.pulled.keys();
        !all.any(|(pulled, _)| *pulled == *config)
            || self.pulled.get(&own).is_some_and(|with| {
                with.contains("") || self.usable(secrets).any(|name| with.contains(name))
            })
    }

    /// Returns those of a pod's Secrets that exist.
    fn usable<'a>(&'a self, secrets: &'a [String]) -> impl Iterator<Item = &'a String> {
        let exists = |name: &&String| self.options.secrets.contains(name);
        secrets.iter().filter(exists)
    }

    /// Returns how long a pull takes, whether it succeeds or not.
    pub fn pull_time(&self, image: &str) -> Duration {
        let Ok(reference) = ImageReference::parse(image) else {
            return Duration::ZERO;
        };
        let slow = self
            .options
            .slow
            .iter()
            .find(|(pattern, _)| pattern.matches(&reference));
        slow.map_or(self.options.pull, |(_, time)| *time)
    }

    /// Pulls an image; returns true if a registry has it, and the node has it from now on.
    pub fn pull(&mut self, image: &str) -> bool {
        self.pull_with(image, &[])
    }

    /// The same for a pod with these Secrets.
    pub fn pull_with(&mut self, image: &str, secrets: &[String]) -> bool {
        let Ok(reference) = ImageReference::parse(image) else {
            return false;
        };
        let is_private = self
            .options
            .private
            .iter()
            .any(|pattern| pattern.matches(&reference));
        let with: Vec<_> = if is_private {
            self.usable(secrets).cloned().collect()
        } else {
            vec![String::new()]
        };
        if self.is_missing(&reference) || with.is_empty() {
            return false;
        }
        let twin = self.options.twins.iter().find(|(_, twin)| {
            reference.digest().is_none() && twin.normalized() == reference.normalized()
        });
        let digest = manifest_digest(twin.map_or(&reference, |(first, _)| first));
        let (config, repository) = (config_digest(&digest), repository(&reference));
        let names = self.present.entry(config.clone()).or_default();
        names.extend([key(&reference), format!("{repository}@{digest}")]);
        let pulled = self.pulled.entry((config, repository)).or_default();
        pulled.extend(with);
        true
    }

    fn is_missing(&self, reference: &ImageReference) -> bool {
        let imported = self
            .options
            .imported
            .iter()
            .any(|image| image.same_repository(reference));
        imported
            || self
                .options
                .missing
                .iter()
                .any(|pattern| pattern.matches(reference))
    }

    /// Returns the names that the runtime reports: it prefers a tag to a digest, and a digest of
    /// the repository to the bare one.
    fn named(&self, config: &str) -> Option<Local> {
        let names = self.present.get(config)?;
        let tagged = names.iter().find(|name| !name.contains('@'));
        let by_digest = names.iter().find(|name| name.contains('@'));
        let image = tagged.or(by_digest)?.clone();
        Some(Local {
            image,
            image_id: by_digest.map_or_else(|| config.to_owned(), Clone::clone),
        })
    }
}

fn repository(image: &ImageReference) -> String {
    format!("{}/{}", image.registry(), image.repository())
}

/// Returns the name under which the runtime keeps a reference: a tag beside a digest is ignored.
fn key(image: &ImageReference) -> String {
    match image.digest() {
        Some(digest) => format!("{}@{digest}", repository(image)),
        None => image.normalized(),
    }
}

fn manifest_digest(image: &ImageReference) -> String {
    image.digest().map_or_else(
        || format!("sha256:{}", hash(&image.normalized())),
        str::to_owned,
    )
}

fn config_digest(manifest: &str) -> String {
    format!("sha256:{}", hash(&format!("config of {manifest}")))
}

/// Returns the made-up digest of an image that is named without one: `imageID` has it after the
/// `@`.
pub fn digest_of(image: &ImageReference) -> String {
    manifest_digest(image)
}

/// Returns a hexadecimal id derived from a text.
pub fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_needs_no_pull_and_is_reported_by_its_tag() {
        let mut images = Images::new(ImageOptions::default());
        assert!(images.local("work:1").is_none());
        assert!(images.pull("work:1"));
        let local = images.local("work:1").unwrap();
        assert_eq!(local.image, "docker.io/library/work:1");
        let digest = local
            .image_id
            .strip_prefix("docker.io/library/work")
            .unwrap();
        for alias in [
            format!("work:1{digest}"),
            format!("work{digest}"),
            "docker.io/work:1".replace("/work", "/library/work"),
        ] {
            assert_eq!(images.local(&alias).as_ref(), Some(&local), "{alias}");
        }
        assert!(images.local("work:2").is_none());
    }

    #[test]
    fn row_3b_an_imported_image_has_a_bare_digest_that_is_a_name_of_it() {
        let options = ImageOptions {
            imported: vec![ImageReference::parse("localwork:1").unwrap()],
            ..ImageOptions::default()
        };
        let mut images = Images::new(options);
        let local = images.local("docker.io/library/localwork:1").unwrap();
        assert!(local.image_id.starts_with("sha256:"), "{local:?}");
        assert_eq!(images.local(&local.image_id), Some(local.clone()));
        let wrong = format!(
            "localwork:1@{}",
            digest_of(&ImageReference::parse("localwork:1").unwrap())
        );
        assert!(images.local(&wrong).is_none() && !images.pull(&wrong));
    }

    #[test]
    fn kinds_and_paths() {
        let images = Images::new(ImageOptions {
            exit: vec!["registry.example/quick:*".parse().unwrap()],
            exit_paths: vec!["/work".into()],
            ..ImageOptions::default()
        });
        assert_eq!(
            images.kind("registry.example/swaplet/exit:v1"),
            ImageKind::Exit
        );
        assert_eq!(images.kind("registry.example/quick:1"), ImageKind::Exit);
        assert_eq!(images.kind("park"), ImageKind::Park);
        assert_eq!(images.kind("work:1"), ImageKind::Workload);
        assert!(
            images.exit_image_has("/work")
                && images.exit_image_has("sh")
                && images.exit_image_has("/bin/sh")
        );
        assert!(!images.exit_image_has("/no/such") && !images.exit_image_has("work"));
    }
}
