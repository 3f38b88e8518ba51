//! Reads manifests of files, folders and standard input, and finds empty ones.

use std::path::PathBuf;

use anyhow::anyhow;
use swaplet_core::check::form;
use swaplet_core::objects::values::bounds::{MESSAGE, cut};

use crate::cli::manifests::{Document, Manifests};

/// Reads all files, and checks the form of their objects.
pub(super) fn manifests(files: &[PathBuf], allow_empty: bool) -> Manifests {
    let (mut all, empty) = Manifests::read_each(files);
    if !allow_empty {
        let words = empty
            .into_iter()
            .map(|words| anyhow!("{words}; --allow-empty if that is right"));
        all.problems.extend(words);
    }
    let wrong_form = all.documents.iter().flat_map(problems).collect::<Vec<_>>();
    all.problems.extend(wrong_form);
    all
}

fn problems(document: &Document) -> Vec<anyhow::Error> {
    let object = &document.object;
    let text = |field: &str| object["metadata"][field].as_str();
    let name = text("name").or(text("generateName")).unwrap_or("?");
    let kind = object["kind"].as_str().unwrap_or("?");
    let problems = form::problems(object).into_iter();
    problems
        .map(|problem| {
            let words = cut(&format!("{kind}/{name}: {problem}"), MESSAGE);
            anyhow!("{}: {words}", document.file)
        })
        .collect()
}
