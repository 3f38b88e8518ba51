//! What a webhook makes of the images that are written.

use crate::restart::world::{DIGEST, PARK, images};

/// The registry that a webhook puts before every image.
const MIRROR: &str = "mirror.example/";
/// The repositories of a cache.
const CACHE: &str = "cache.example/";
/// The digest of the park image.
const OF_PARK: &str = "sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc";

/// A webhook of the cluster, for changes of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Webhook {
    None,
    /// It gives images the name of a mirror, which has the same bytes.
    Renames,
    /// It gives images the name of a cache, which says nothing of the one before.
    Replaces,
    /// It gives tags the digest of the same bytes.
    Pins,
    /// It puts back the image that was there, and stores what the pod is to say of parked
    /// containers.
    UndoesImages,
    /// It puts back all that was there.
    UndoesAll,
}

impl Webhook {
    /// Whether it stores the image that was there.
    pub const fn undoes(self) -> bool {
        matches!(self, Self::UndoesImages | Self::UndoesAll)
    }

    /// The image that is stored; `None` for the one that was there.
    pub fn stores(self, image: &str) -> Option<String> {
        match self {
            Self::UndoesImages | Self::UndoesAll => None,
            Self::Renames if !image.starts_with(MIRROR) => Some(format!("{MIRROR}{image}")),
            Self::Pins if image == images("app").0 => Some(format!("{image}@{DIGEST}")),
            Self::Pins if image == PARK => Some(format!("{image}@{OF_PARK}")),
            Self::Replaces if !image.starts_with(CACHE) => Some(cached(image)),
            Self::None | Self::Renames | Self::Replaces | Self::Pins => Some(image.into()),
        }
    }
}

fn cached(image: &str) -> String {
    let name: String = image.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("{CACHE}{name}:v1")
}

fn uncached(image: &str) -> Option<String> {
    let name = image.strip_prefix(CACHE)?.strip_suffix(":v1")?;
    let pairs = name.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    Some(String::from_utf8(pairs.map(byte).collect()).unwrap())
}

/// The image that was written where a webhook has stored this one. Its digest tells of an image of
/// the user's what it is.
pub fn plain(image: &str) -> String {
    let image = uncached(image).unwrap_or_else(|| image.into());
    let image = image.strip_prefix(MIRROR).unwrap_or(&image);
    let unpinned = image.strip_suffix(OF_PARK);
    let unpinned = unpinned.and_then(|image| image.strip_suffix('@'));
    unpinned.unwrap_or(image).into()
}

/// The name by which a node reports the digest of what it has started as this image, if that is
/// another one than it has reported: by the mirror, or by the registry itself.
pub fn renamed(reported: &str, image: &str) -> Option<String> {
    match (
        reported.strip_prefix(MIRROR),
        image.strip_prefix(MIRROR).is_some(),
    ) {
        (None, true) if !reported.is_empty() => Some(format!("{MIRROR}{reported}")),
        (Some(reported), false) => Some(reported.into()),
        _ => None,
    }
}
