//! What the API server admits of changed images (`swaplet-leash-pods` in deploy/leash.yaml), for
//! those that restart a container. The tables in `e2e/cases/leash/tables` hold the policy itself to
//! it.

use swaplet::image::ImageReference;
use swaplet::image::alias::{is_bare_digest, original};
use swaplet_core::objects::pod::ContainerState;
use swaplet_core::report::decision::Swap;
use swaplet_core::restart::pod::RestartPod;

use super::world::{PARK, World};

/// Whether it admits a change; `ours` is whether swaplet has written the image that is there.
pub fn admits(world: &World, swap: &Swap, ours: bool) -> bool {
    admits_in(world.pod.as_ref().unwrap(), swap, ours)
}

/// The same of a pod.
pub fn admits_in(pod: &RestartPod, swap: &Swap, ours: bool) -> bool {
    let (from, to) = (&*swap.from, &*swap.to);
    let (_, container, details) = pod.find(&swap.container).unwrap();
    let parked = pod
        .parked
        .as_ref()
        .and_then(|parked| parked.images.get(&swap.container));
    if from == PARK || to == PARK || parked.is_some() {
        return if from == PARK {
            parked.is_some_and(|image| **image == *to)
        } else {
            to == PARK
        };
    }
    let Some(status) = &container.status else {
        return false;
    };
    let (image, id) = (&*status.image, &*details.image_id);
    let is_current = pod.generation == Some(1)
        || from == id
        || repository(from) == repository(image)
            && tag(from).unwrap_or("latest") == tag(image).unwrap_or("latest");
    if is_bare_digest(to) {
        return to == id && is_current;
    }
    if repository(from) != repository(to) {
        return false;
    }
    match (digest(from), digest(to)) {
        (known, Some(digest)) => {
            let is_reported =
                id.ends_with(&format!("@{digest}")) && repository(id) == repository(from);
            let is_known = known == Some(digest) || is_reported && is_current;
            is_known && original(to) == format!("{}@{digest}", tagged(&original(from)))
        }
        (None, None) => tag(from) == tag(to),
        (Some(_), None) => {
            let is_undone =
                original(from) != from && original(from).split('@').next() == Some(&*tagged(to));
            is_undone && ours && !matches!(status.state, ContainerState::Running { .. })
        }
    }
}

fn repository(image: &str) -> Option<String> {
    let reference = ImageReference::parse(image).ok()?;
    Some(format!(
        "{}/{}",
        reference.registry(),
        reference.repository()
    ))
}

/// The name, with the tag that none means where there is no digest either.
fn tagged(image: &str) -> String {
    let name = image.split('@').next().unwrap_or_default();
    if image.contains('@') || tag(image).is_some() {
        name.to_owned()
    } else {
        format!("{name}:latest")
    }
}

/// As it is written.
fn tag(image: &str) -> Option<&str> {
    let name = image.split('@').next()?;
    name.rsplit_once(':')
        .map(|(_, tag)| tag)
        .filter(|tag| !tag.contains('/'))
}

fn digest(image: &str) -> Option<&str> {
    image.split_once('@').map(|(_, digest)| digest)
}
