//! Links within the repository lead to files and headings that are there.

use std::path::{Component, Path, PathBuf};

use crate::markdown::{documents, root};

#[test]
fn links_lead_somewhere() {
    let documents = documents();
    let mut broken = Vec::new();
    for (path, document) in &documents {
        for link in document.links.iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { resolve(path, file) };
            let found = root().join(&target).exists()
                && (anchor.is_empty()
                    || documents.get(&target).is_some_and(|document| document.headings.iter().any(|heading| heading.anchor == anchor)));
            if !found {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_document_can_be_reached_from_the_readme() {
    let documents = documents();
    let mut seen = Vec::new();
    let mut next = vec![PathBuf::from("README.md")];
    while let Some(path) = next.pop() {
        let Some(document) = documents.get(&path) else { continue };
        if !seen.contains(&path) {
            next.extend(document.links.iter().map(|link| resolve(&path, link.split('#').next().unwrap_or_default())));
            seen.push(path);
        }
    }
    let lost: Vec<_> = documents.keys().filter(|path| path.starts_with("docs") && !seen.contains(path)).collect();
    assert!(lost.is_empty(), "no way leads from README.md to {lost:?}");
}

/// `file` as a document at `path` means it, without `..`.
fn resolve(path: &Path, file: &str) -> PathBuf {
    let mut target = path.parent().unwrap().to_owned();
    for part in Path::new(file).components() {
        match part {
            Component::ParentDir => {
                target.pop();
            }
            Component::CurDir => {}
            part => target.push(part),
        }
    }
    target
}
