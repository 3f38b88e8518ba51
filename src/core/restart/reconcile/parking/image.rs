//! The park image, and the decision which containers can be parked in it.

use std::fmt;

use super::before;
use crate::image::Kind;
use crate::image::alias::is_bare_digest;
use crate::image::path_set::PathSet;
use crate::image::reference::ImageReference;
use crate::objects::command::{ExitPaths, Note, Verdict, resolve_on};
use crate::objects::pod::Container;
use crate::objects::runs_on::RunsOn;
use crate::restart::pod::Details;

/// The image in which containers wait while they are parked.
#[derive(Clone, Debug)]
pub struct ParkImage {
    image: ImageReference,
    paths: PathSet,
}

impl ParkImage {
    /// Creates a park image that has its program at these paths.
    pub const fn new(image: ImageReference, paths: PathSet) -> Self {
        Self { image, paths }
    }

    /// Returns the reference of the image.
    pub const fn image(&self) -> &ImageReference {
        &self.image
    }

    /// Returns true if `image` is the park image, also if an admission webhook has added a digest.
    pub fn is(&self, image: &str) -> bool {
        image == self.image.as_str()
            || ImageReference::parse(image).is_ok_and(|other| self.image.is_alias_of(&other))
    }
}

impl fmt::Display for ParkImage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.image, out)
    }
}

impl ExitPaths for ParkImage {
    fn has(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    fn entrypoint(&self) -> &str {
        Kind::Park.program_path()
    }
}

/// Returns why the container's image has no alias.
fn no_alias(container: &Container, details: &Details) -> String {
    let (image, id) = (&container.image, before::shown(&details.image_id));
    if is_bare_digest(image) {
        format!("{image} is not a name, and the names in its status may be from anyone")
    } else if is_bare_digest(&details.image_id) {
        format!(
            "the node knows its image by the bare digest {id}, which no registry that imagePullPolicy Always queries has, and {image} has no other spelling"
        )
    } else if details.image_id.contains('@') {
        format!(
            "the node reports its image as {id}, so it may not have {image} by its digest, and {image} has no other spelling"
        )
    } else {
        format!("the node reports no digest of its image, and {image} has no other spelling")
    }
}

/// Returns the reference to park a container without an alias, on a node that says this of itself.
pub(crate) fn park(
    container: &Container,
    details: &Details,
    park: Option<&ParkImage>,
    node: RunsOn,
) -> Result<String, String> {
    let no_alias = no_alias(container, details);
    if details.is_native_sidecar {
        return Err(format!("{no_alias}; a native sidecar is not parked"));
    }
    let park = park.ok_or_else(|| {
        format!("{no_alias}; a controller with --park-image could park it instead")
    })?;
    let facts = details
        .facts
        .as_deref()
        .ok_or_else(|| format!("{no_alias}, and its spec cannot be read"))?;
    if facts.notes().has(Note::PostStartFails) {
        return Err(format!(
            "{no_alias}; it is not parked, because its postStart hook would run in the park image and fail"
        ));
    }
    match resolve_on(node, facts, park) {
        Verdict::Runnable { .. } => Ok(park.image.to_string()),
        Verdict::NeedsImage { paths, .. } => {
            let flags: String = paths.iter().map(|path| format!(" --path {path}")).collect();
            let paths = paths.join(",");
            Err(format!(
                "{no_alias}; the park image {park} does not have {paths}: push one that has it (swaplet park-image push REF{flags}), and start the controller with --park-image REF --park-image-paths {paths}"
            ))
        }
        Verdict::NotSwappable { reason, .. } => Err(format!(
            "{no_alias}; it cannot be parked: {}",
            reason.problem()
        )),
    }
}
