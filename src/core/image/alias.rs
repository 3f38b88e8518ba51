//! Other spellings of the same image bytes. A node that gets one in place of the old spelling
//! restarts exactly that container, with the image that it already has (`docs/measured.md`, rows 17
//! to 19 and "Images by other names").
//!
//! | written | `status.imageID` | alias |
//! |---|---|---|
//! | `repo:tag` | `repo@digest` | `repo:tag@digest` |
//! | `repo` | `repo@digest` | `repo:latest@digest` |
//! | `repo:tag@digest` | | `repo@digest` |
//! | `repo@digest` | | `repo:tag@digest`, with the tag of `status.image` |
//! | `name:tag` | `sha256:...` (imported) or `other@digest`, and `status.image` is `name:tag` | `docker.io/library/name:tag`, and back |
//! | other names | `sha256:...` (imported) | that digest itself |
//! | `name:tag` | empty | `docker.io/library/name:tag`, and back |
//! | `host/name:tag` | `other@digest`, or empty | none |
//! | `sha256:...` | | none |
//!
//! A status can be written by others than nodes. So it may choose a digest of the repository that
//! the spec names, or an image that lies on the node; it never chooses another repository. If an
//! image was imported or tagged by hand, the node may know the digest under another name only: then
//! `repo:tag@digest` cannot be pulled, and is not written.

use super::reference::{ImageReference, Target};

/// The prefixes that complete the short names of Docker Hub.
const DOCKER_HUB: &str = "docker.io/";
const LIBRARY: &str = "docker.io/library/";
/// The prefixes that older container runtimes put before an imageID (Kubernetes:
/// `pkg/kubelet/dockershim`, removed in 1.24; some providers kept it).
const PREFIXES: [&str; 2] = ["docker-pullable://", "docker://"];

/// A spelling to write in place of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    /// The image to write.
    pub image: String,
    /// True if the node itself has reported that it has the image under this name, so that starting
    /// it needs no registry. Otherwise it is the same name in other letters, which can be pulled
    /// where the image can.
    pub is_on_node: bool,
}

/// The image of a container, as a node reports it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reported<'a> {
    /// `status.image`
    pub image: &'a str,
    /// `status.imageID`
    pub image_id: &'a str,
}

impl Alias {
    /// Returns an alias of the image that the spec names; `None` if none is known. A digest is only
    /// taken from the spec and the node's own report.
    #[must_use]
    pub fn of(written: &str, reported: Reported<'_>) -> Option<Self> {
        let id = PREFIXES
            .iter()
            .find_map(|prefix| reported.image_id.strip_prefix(prefix))
            .unwrap_or(reported.image_id);
        let found = if is_bare_digest(written) {
            None
        } else if written.contains('@') {
            other_decoration(written, id, reported.image)
        } else if let Some((_, digest)) = id.split_once('@') {
            if same_repository(written, id) {
                Some(pinned(written, digest))
            } else {
                known_as(written, reported.image)
            }
        } else if is_bare_digest(id) {
            Some(known_as(written, reported.image).unwrap_or_else(|| Self {
                image: id.to_owned(),
                is_on_node: true,
            }))
        } else {
            respelled(written, false)
        };
        found.filter(|alias| alias.image != written && is_writable(&alias.image))
    }
}

/// Returns true if the API server accepts the image: also the bare digest, which is no reference.
fn is_writable(image: &str) -> bool {
    is_bare_digest(image) || ImageReference::parse(image).is_ok()
}

/// Returns true for the digest of an imported image, which some nodes have under no other name.
#[must_use]
pub fn is_bare_digest(image: &str) -> bool {
    let hex = image.strip_prefix("sha256:");
    hex.is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Splits into `name:tag` or `name`, and the digest without the `@`.
fn split(written: &str) -> (&str, Option<&str>) {
    written
        .split_once('@')
        .map_or((written, None), |(name, digest)| (name, Some(digest)))
}

/// Splits a name from its tag: a colon before a slash belongs to a port.
fn without_tag(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once(':') {
        Some((rest, tag)) if !tag.contains('/') => (rest, Some(tag)),
        _ => (name, None),
    }
}

fn same_repository(one: &str, other: &str) -> bool {
    match (ImageReference::parse(one), ImageReference::parse(other)) {
        (Ok(one), Ok(other)) => one.same_repository(&other),
        _ => false,
    }
}

/// Adds a digest. The tag is kept, or set to the one that none means: so the image before can be
/// derived, and only the digest has to be dropped to restore it.
fn pinned(written: &str, digest: &str) -> Alias {
    let tag = without_tag(written).1.map_or(":latest", |_| "");
    Alias {
        image: format!("{written}{tag}@{digest}"),
        is_on_node: true,
    }
}

/// Returns the other spelling of a short name if the node has the bytes by another name, and
/// reports that it has this one as well.
fn known_as(written: &str, reported: &str) -> Option<Alias> {
    let normalized = |image: &str| {
        ImageReference::parse(image)
            .ok()
            .map(|image| image.normalized())
    };
    respelled(written, true).filter(|_| normalized(written) == normalized(reported))
}

/// Drops the tag, or adds one: beside a digest no runtime reads it.
fn other_decoration(written: &str, id: &str, reported: &str) -> Option<Alias> {
    let (name, digest) = split(written);
    let digest = digest?;
    let is_on_node = id.split_once('@').is_some_and(|(_, known)| known == digest)
        && same_repository(written, id);
    let image = match without_tag(name) {
        (name, Some(_)) => format!("{name}@{digest}"),
        (name, None) => {
            let reported_tag = without_tag(split(reported).0)
                .1
                .filter(|_| same_repository(written, reported));
            // The tag that a reference without tag and digest means.
            format!("{name}:{}@{digest}", reported_tag.unwrap_or("latest"))
        }
    };
    Some(Alias { image, is_on_node })
}

/// Returns the same name of Docker Hub in its other length; `None` for other registries.
fn respelled(written: &str, is_on_node: bool) -> Option<Alias> {
    let reference = ImageReference::parse(written).ok()?;
    let is_docker_hub = reference.registry() == "docker.io";
    let image = if let Some(short) = written
        .strip_prefix(LIBRARY)
        .or_else(|| written.strip_prefix(DOCKER_HUB))
    {
        short.to_owned()
    } else {
        format!(
            "{}{written}",
            if written.contains('/') {
                DOCKER_HUB
            } else {
                LIBRARY
            }
        )
    };
    let same = ImageReference::parse(&image)
        .is_ok_and(|other| other.normalized() == reference.normalized());
    (is_docker_hub && same).then_some(Alias { image, is_on_node })
}

/// Returns true if two images are one to every runtime: the digest decides, and a tag before it has
/// no effect.
pub(crate) fn is_same_digest(one: &str, other: &str) -> bool {
    match (ImageReference::parse(one), ImageReference::parse(other)) {
        (Ok(one), Ok(other)) => one.same_target(&other) == Target::Same,
        _ => false,
    }
}

/// Returns true for the same image; a webhook may have changed the spelling that was written.
pub(crate) fn is_same_image(image: &str, written: &str) -> bool {
    if image == written {
        return true;
    }
    match (ImageReference::parse(image), ImageReference::parse(written)) {
        (Ok(image), Ok(written)) => image.is_alias_of(&written),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn alias(written: &str, image: &str, image_id: &str) -> Option<(String, bool)> {
        Alias::of(written, Reported { image, image_id })
            .map(|alias| (alias.image, alias.is_on_node))
    }

    #[test]
    fn an_image_that_was_pulled_goes_from_tag_to_digest_and_back_without_ever_trusting_the_tag_again()
     {
        let id = format!("r.example:5000/x@{A}");
        let first = alias("r.example:5000/x:t", "r.example:5000/x:t", &id).unwrap();
        assert_eq!(first, (format!("r.example:5000/x:t@{A}"), true));
        let second = alias(&first.0, "r.example:5000/x:t", &id).unwrap();
        assert_eq!(second, (format!("r.example:5000/x@{A}"), true));
        assert_eq!(alias(&second.0, "r.example:5000/x:t", &id), Some(first));
        assert_eq!(
            alias(&second.0, "", &id),
            Some((format!("r.example:5000/x:latest@{A}"), true))
        );
    }

    #[test]
    fn the_name_stays_as_it_was_written() {
        assert_eq!(
            alias("busybox", "", &format!("docker.io/library/busybox@{A}")),
            Some((format!("busybox:latest@{A}"), true))
        );
        assert_eq!(
            alias("busybox:1", "", &format!("docker-pullable://busybox@{A}")),
            Some((format!("busybox:1@{A}"), true))
        );
    }

    #[test]
    fn a_digest_that_the_node_does_not_report_for_this_repository_is_not_known_to_be_there() {
        assert_eq!(
            alias(
                &format!("r.example/x:t@{A}"),
                "",
                &format!("r.example/x@{B}")
            ),
            Some((format!("r.example/x@{A}"), false))
        );
        assert_eq!(
            alias(&format!("r.example/x:t@{A}"), "", ""),
            Some((format!("r.example/x@{A}"), false))
        );
    }

    #[test]
    fn an_imported_image_never_gets_a_digest_behind_its_name() {
        let named = "docker.io/library/localwork:1";
        assert_eq!(
            alias("localwork:1", named, A),
            Some((named.to_owned(), true))
        );
        assert_eq!(
            alias(named, named, A),
            Some(("localwork:1".to_owned(), true))
        );
        assert_eq!(
            alias("me/work:1", "docker.io/me/work:1", A),
            Some(("docker.io/me/work:1".to_owned(), true))
        );
        assert_eq!(
            alias("localwork:1", "docker.io/library/localwork:2", A),
            Some((A.to_owned(), true))
        );
        assert_eq!(alias("r.example/work:1", "", A), Some((A.to_owned(), true)));
    }

    /// What `kind load` leaves (a), and a second tag (b).
    #[test]
    fn d1a_d1b_a_digest_of_another_repository_is_not_put_behind_the_name() {
        let imported = format!("docker.io/library/import-2026-11-22@{A}");
        let named = "docker.io/library/my-app2:dev";
        assert_eq!(
            alias("my-app2:dev", named, &imported),
            Some((named.to_owned(), true))
        );
        assert_eq!(
            alias(named, named, &imported),
            Some(("my-app2:dev".to_owned(), true))
        );
        for (written, image) in [
            ("my-app2:dev", ""),
            ("my-app2:dev", "docker.io/library/my-app2:other"),
            ("r.example/x:t", "r.example/x:t"),
            ("r.example/x:t", ""),
            ("local.test/app:1", "127.0.0.1:30573/work:1"),
        ] {
            assert_eq!(alias(written, image, &imported), None, "{written} {image}");
        }
    }

    #[test]
    fn d1_the_names_of_a_bare_digest_are_those_of_the_status_alone_and_none_is_written() {
        assert_eq!(alias(A, "docker.io/library/localwork:1", A), None);
        assert_eq!(
            alias(A, "evil.example/x:1", &format!("evil.example/x@{B}")),
            None
        );
    }

    proptest! {
        /// Whatever the status says, it does not choose a repository.
        #[test]
        fn d1_no_status_has_another_repository_written(
            written in "([a-z]{1,4}\\.example/)?[a-z]{1,4}(:[a-z]{1,3})?",
            image in "([a-z]{1,4}\\.example/)?[a-z]{1,4}(:[a-z]{1,3})?",
            name in "([a-z]{1,4}\\.example/)?[a-z]{1,4}@",
            bare in any::<bool>(),
        ) {
            let id = if bare { A.to_owned() } else { format!("{name}{A}") };
            if let Some(alias) = Alias::of(&written, Reported { image: &image, image_id: &id }) {
                prop_assert!(alias.image == A && id == A || same_repository(&alias.image, &written), "{alias:?}");
            }
        }
    }

    #[test]
    fn without_a_report_only_docker_hub_has_two_names() {
        assert_eq!(
            alias("busybox:1", "", ""),
            Some(("docker.io/library/busybox:1".to_owned(), false))
        );
        assert_eq!(alias("r.example/x:1", "", ""), None);
        assert_eq!(alias(A, "", A), None);
        assert_eq!(alias("not an image", "", &format!("x@{A}")), None);
    }

    proptest! {
        #[test]
        fn an_alias_is_another_string_for_the_same_image(
            name in "([a-z]{1,5}\\.example(:[1-9][0-9]{0,3})?/)?[a-z]{1,8}(/[a-z0-9]{1,8}){0,2}",
            tag in "[a-z0-9]{1,6}",
            steps in 1..6_usize,
        ) {
            let id = format!("{name}@{A}");
            let reported = format!("{name}:{tag}");
            let mut written = reported.clone();
            for _ in 0..steps {
                let next = Alias::of(&written, Reported { image: &reported, image_id: &id }).unwrap();
                prop_assert!(next.is_on_node && next.image != written);
                let (one, other) = (ImageReference::parse(&written).unwrap(), ImageReference::parse(&next.image).unwrap());
                prop_assert!(one.is_alias_of(&other), "{} {}", written, next.image);
                written = next.image;
            }
        }

        #[test]
        fn reading_is_total(written in ".{0,80}", image in ".{0,80}", image_id in ".{0,80}") {
            if let Some(alias) = Alias::of(&written, Reported { image: &image, image_id: &image_id }) {
                prop_assert!(alias.image != written);
            }
        }
    }
}
