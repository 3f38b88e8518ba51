//! Links within the repository lead to files and headings that are there.

use std::path::{Component, Path, PathBuf};

use crate::markdown::{collect, documents, root};

#[test]
fn links_lead_somewhere() {
    let documents = documents();
    let mut broken = Vec::new();
    for (path, document) in &documents {
        for link in document
            .links
            .iter()
            .filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
        {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() {
                path.clone()
            } else {
                resolve(path, file)
            };
            let found = root().join(&target).exists()
                && (anchor.is_empty()
                    || documents.get(&target).is_some_and(|document| {
                        document
                            .headings
                            .iter()
                            .any(|heading| heading.anchor == anchor)
                    }));
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
        let Some(document) = documents.get(&path) else {
            continue;
        };
        if !seen.contains(&path) {
            next.extend(
                document
                    .links
                    .iter()
                    .map(|link| resolve(&path, link.split('#').next().unwrap_or_default())),
            );
            seen.push(path);
        }
    }
    let lost: Vec<_> = documents
        .keys()
        .filter(|path| path.starts_with("docs") && !seen.contains(path))
        .collect();
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

/// Comments cite rows and headings of docs/measured.md.
#[test]
fn what_comments_cite_of_the_measurements_is_there() {
    let text = std::fs::read_to_string(root().join("docs/measured.md")).unwrap();
    let is_row = |number: &str| {
        text.lines()
            .any(|line| line.starts_with(&format!("| {number} |")))
    };
    let mut cited = 0;
    let mut files = Vec::new();
    ["src", "tests", "e2e"]
        .iter()
        .for_each(|folder| collect(&root().join(folder), ".rs", &mut files));
    for path in files {
        let source = std::fs::read_to_string(&path).unwrap();
        // A citation may stand on two lines.
        let flat = source
            .split_whitespace()
            .filter(|word| !word.starts_with("//"))
            .collect::<Vec<_>>()
            .join(" ");
        for citation in flat.split(concat!("`docs/", "measured.md`, ")).skip(1) {
            cited += 1;
            let found = match citation.strip_prefix('"') {
                Some(heading) => text.contains(&format!(
                    "\n## {}\n",
                    heading.split('"').next().unwrap_or_default()
                )),
                None => {
                    let number = citation
                        .trim_start_matches("rows ")
                        .trim_start_matches("row ");
                    number
                        .split([' ', ',', ')', '.', ':', ';'])
                        .next()
                        .is_some_and(is_row)
                }
            };
            assert!(
                found,
                "{}: {}",
                path.display(),
                citation.chars().take(60).collect::<String>()
            );
        }
    }
    assert!(cited > 10, "{cited}");
}
