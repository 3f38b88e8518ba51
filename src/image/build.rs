//! Images as bytes: layer, configuration, manifest per platform, and the index over them. No clock,
//! no registry, no file: the same kind and paths give the same digests on every machine, so a
//! digest is known before anything is pushed.

use serde_json::{Value, json};
use sha2::{Digest, Sha256, Sha384, Sha512};

use swaplet_core::image::exit::{Kind, PATH, Platform, standard_paths};
use swaplet_core::image::label::{LABEL, Label};
use swaplet_core::image::path_set::{PathError, PathSet};
use swaplet_core::objects::values::short_digest::short_hex;

use super::layer::{self, BLOCK, LayerError};
use super::program_files::{LIBRARIES, PROGRAM, ProgramFiles};

/// The user of the images, which has no rights and which no distribution assigns. It is a number,
/// because with `runAsNonRoot` the kubelet accepts no names.
const USER: &str = "65532:65532";

/// The limit of freed memory that glibc keeps, as an environment variable, set to glibc's default.
/// Unless it is set, glibc raises it by itself up to 64 MiB, and the program keeps what pages of
/// lists took once (`docs/scale.md`).
const MALLOC: &str = "MALLOC_TRIM_THRESHOLD_=131072";

/// Media types of the OCI image specification.
pub mod media_type {
    /// The image index, one entry per platform.
    pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
    /// The manifest of one platform.
    pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    /// The configuration of one platform.
    pub const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
    /// A layer without compression: its digest is also its diff ID, and at this size compression
    /// saves nothing that a registry would notice.
    pub const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
}

/// Bytes with their digest and media type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// The media type under which a registry keeps the bytes.
    pub media_type: &'static str,
    /// The content of the blob.
    pub bytes: Vec<u8>,
    /// `sha256:` and the hexadecimal digest of the bytes.
    pub digest: String,
}

impl Blob {
    fn new(media_type: &'static str, bytes: Vec<u8>) -> Self {
        let digest = digest_of(&bytes);
        Self {
            media_type,
            bytes,
            digest,
        }
    }

    /// Returns a blob of JSON. `serde_json` sorts object keys, so the bytes depend on the value
    /// only.
    fn json(media_type: &'static str, value: &Value) -> Self {
        Self::new(media_type, value.to_string().into_bytes())
    }

    /// Returns the descriptor of the bytes, as manifests and indexes hold it.
    pub(crate) fn descriptor(&self) -> Value {
        json!({"mediaType": self.media_type, "digest": self.digest, "size": self.bytes.len()})
    }
}

/// The image of one platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformImage {
    /// The platform of the image.
    pub platform: Platform,
    /// The only layer of the image.
    pub layer: Blob,
    /// The configuration of the image.
    pub config: Blob,
    /// The manifest of the image.
    pub manifest: Blob,
    /// The size of the program in bytes.
    pub program_size: usize,
    /// The bytes of the tar headers of links, and of the directories that they need: the cost of
    /// the paths, and nothing else.
    link_headers: usize,
}

impl PlatformImage {
    /// Returns the size of everything that a node pulls for this platform, in bytes.
    pub fn size(&self) -> usize {
        self.layer.bytes.len() + self.config.bytes.len() + self.manifest.bytes.len()
    }

    /// Returns [`size`](Self::size) without the tar headers (one block of 512 bytes each) of links
    /// and their directories.
    pub fn size_without_links(&self) -> usize {
        self.size() - self.link_headers
    }
}

/// An image for one platform or more, ready to be pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltImage {
    /// The label that tells which image it is.
    pub label: Label,
    /// The paths of its program, besides the program's own.
    pub paths: PathSet,
    /// One image per platform, in the order of [`Platform::ALL`].
    pub platforms: Vec<PlatformImage>,
    /// The index over the platforms.
    pub index: Blob,
}

impl BuiltImage {
    /// Returns the digest of the image, which is that of its index.
    pub fn digest(&self) -> &str {
        &self.index.digest
    }
}

/// Builds the image of a kind with these paths; a derived image has more than the standard paths.
///
/// # Errors
/// [`LayerError`] if a path cannot be in an image.
pub fn build<S: AsRef<str>>(
    kind: Kind,
    paths: impl IntoIterator<Item = S>,
) -> Result<BuiltImage, LayerError> {
    let paths = PathSet::new(paths)?;
    let platforms = Platform::ALL
        .into_iter()
        .map(|platform| build_platform(kind, platform, &paths))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(over(kind.into(), paths, platforms))
}

/// Builds the image of the controller, for the platforms that the programs are built for.
///
/// # Errors
/// [`LayerError`] if one of the paths cannot be in an image.
pub fn build_controller(programs: &[ProgramFiles]) -> Result<BuiltImage, LayerError> {
    let platforms = programs
        .iter()
        .map(controller_platform)
        .collect::<Result<_, _>>()?;
    Ok(over(Label::Controller, PathSet::new([""; 0])?, platforms))
}

fn controller_platform(program: &ProgramFiles) -> Result<PlatformImage, LayerError> {
    let layer = Blob::new(
        media_type::LAYER,
        layer::layer_of_files(&program.files)?.bytes,
    );
    let (label, platform) = (Label::Controller, program.platform);
    let libraries = program.has_libraries().then_some(LIBRARIES);
    let config = config(label, platform, PROGRAM, libraries, &layer.digest);
    let size = program.program_size;
    Ok(platform_image(label, platform, layer, &config, size, 0))
}

/// Builds the image of a kind with the standard paths. Both kinds have them: a container that is
/// parked is started with its own command.
///
/// # Errors
/// None in practice: a test checks that an image can hold the standard paths.
pub fn build_standard(kind: Kind) -> Result<BuiltImage, LayerError> {
    build(kind, standard_paths().iter().map(|entry| entry.path))
}

/// Builds a derived image of a kind: the standard paths and `more`.
///
/// # Errors
/// [`LayerError`] if a path of `more` cannot be in an image.
pub fn build_derived<S: AsRef<str>>(
    kind: Kind,
    more: impl IntoIterator<Item = S>,
) -> Result<BuiltImage, LayerError> {
    build(kind, derived_paths(more)?.iter())
}

/// Returns the paths of a derived image. A standard path is left out where one of `more` needs it
/// to be a directory, or is a directory of it: requested paths come first.
///
/// # Errors
/// [`PathError`] if a path of `more` cannot be in an image.
pub fn derived_paths<S: AsRef<str>>(
    more: impl IntoIterator<Item = S>,
) -> Result<PathSet, PathError> {
    let more = PathSet::new(more)?;
    let standard = standard_paths()
        .iter()
        .map(|entry| entry.path)
        .filter(|path| !more.conflicts_with(path));
    PathSet::new(standard.chain(more.iter()))
}

/// Returns `sha256:` and the hexadecimal digest of these bytes.
pub fn digest_of(bytes: &[u8]) -> String {
    written("sha256", &Sha256::digest(bytes))
}

/// Returns the digest of these bytes by an algorithm; `None` if no image reference can name it.
pub(crate) fn digest_by(algorithm: &str, bytes: &[u8]) -> Option<String> {
    match algorithm {
        "sha256" => Some(digest_of(bytes)),
        "sha384" => Some(written(algorithm, &Sha384::digest(bytes))),
        "sha512" => Some(written(algorithm, &Sha512::digest(bytes))),
        _ => None,
    }
}

fn written(algorithm: &str, digest: &[u8]) -> String {
    format!("{algorithm}:{}", short_hex(digest, digest.len()))
}

fn build_platform(
    kind: Kind,
    platform: Platform,
    paths: &PathSet,
) -> Result<PlatformImage, LayerError> {
    let program = kind.program(platform);
    let tar = layer::layer(program, kind.program_path(), paths)?;
    // The directory of the program exists without any link.
    let link_headers = (tar.links + tar.directories - 1) * BLOCK;
    let layer = Blob::new(media_type::LAYER, tar.bytes);
    let (label, size) = (kind.into(), program.len());
    let config = config(label, platform, kind.program_path(), None, &layer.digest);
    Ok(platform_image(
        label,
        platform,
        layer,
        &config,
        size,
        link_headers,
    ))
}

fn platform_image(
    label: Label,
    platform: Platform,
    layer: Blob,
    config: &Value,
    program_size: usize,
    link_headers: usize,
) -> PlatformImage {
    let config = Blob::json(media_type::CONFIG, config);
    let manifest = Blob::json(media_type::MANIFEST, &manifest(label, &config, &layer));
    PlatformImage {
        platform,
        layer,
        config,
        manifest,
        program_size,
        link_headers,
    }
}

fn over(label: Label, paths: PathSet, platforms: Vec<PlatformImage>) -> BuiltImage {
    let index = Blob::json(media_type::INDEX, &index(label, &platforms));
    BuiltImage {
        label,
        paths,
        platforms,
        index,
    }
}

fn labels(label: Label) -> Value {
    json!({
        LABEL: label.value(),
        "org.opencontainers.image.title": format!("swaplet {label} image"),
        "org.opencontainers.image.version": env!("CARGO_PKG_VERSION"),
        "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
    })
}

/// `libraries` is the folder in which the loader finds shared objects, if the program needs any.
fn config(
    label: Label,
    platform: Platform,
    program: &str,
    libraries: Option<&str>,
    diff_id: &str,
) -> Value {
    let of_libraries = libraries
        .into_iter()
        .flat_map(|folder| [format!("LD_LIBRARY_PATH={folder}"), MALLOC.to_owned()]);
    json!({
        "architecture": platform.architecture(),
        "os": "linux",
        // Fixed, so that the same input gives the same digest.
        "created": "1970-01-01T00:00:00Z",
        "config": {
            "User": USER,
            "Env": std::iter::once(format!("PATH={PATH}")).chain(of_libraries).collect::<Vec<_>>(),
            "Entrypoint": [program],
            "WorkingDir": "/",
            "Labels": labels(label),
        },
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "swaplet"}],
    })
}

fn manifest(label: Label, config: &Blob, layer: &Blob) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": media_type::MANIFEST,
        "config": config.descriptor(),
        "layers": [layer.descriptor()],
        "annotations": labels(label),
    })
}

fn index(label: Label, platforms: &[PlatformImage]) -> Value {
    let entry = |image: &PlatformImage| {
        let mut entry = image.manifest.descriptor();
        entry["platform"] = json!({"architecture": image.platform.architecture(), "os": "linux"});
        entry
    };
    json!({
        "schemaVersion": 2,
        // Without it a registry would keep the index as a Docker manifest list, under another
        // digest.
        "mediaType": media_type::INDEX,
        "manifests": platforms.iter().map(entry).collect::<Vec<_>>(),
        "annotations": labels(label),
    })
}

#[cfg(test)]
mod tests;
