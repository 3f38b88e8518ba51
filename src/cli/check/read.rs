//! Reads manifests of files, folders and standard input, and finds empty ones.

use std::path::{Path, PathBuf};
use std::slice;

use anyhow::anyhow;
use swaplet_core::check::form;
use swaplet_core::objects::values::bounds::{MESSAGE, cut};

use crate::cli::manifests::{Document, Manifests};

/// Reads all files, each separately, so that an empty one can be named.
pub(super) fn manifests(files: &[PathBuf], allow_empty: bool) -> Manifests {
    let mut all = Manifests::default();
    let mut empty = Vec::new();
    for file in files {
        let read = Manifests::read(slice::from_ref(file));
        if read.documents.is_empty() && read.problems.is_empty() {
            empty.push(file);
        }
        all.documents.extend(read.documents);
        all.problems.extend(read.problems);
    }
    let nothing = all.documents.is_empty();
    // A file of comments among others is normal; an empty pipe or folder is not.
    let is_wrong = |file: &&PathBuf| nothing || !file.is_file();
    if !allow_empty {
        let words = empty
            .into_iter()
            .filter(is_wrong)
            .map(|file| nothing_in(file));
        all.problems.extend(words);
    }
    let wrong_form = all.documents.iter().flat_map(problems).collect::<Vec<_>>();
    all.problems.extend(wrong_form);
    all
}

fn nothing_in(file: &Path) -> anyhow::Error {
    let what = if file == Path::new("-") {
        "standard input has no manifest: did the command before it fail? \
         (`set -o pipefail` in bash lets the pipe fail with it)"
            .to_owned()
    } else if file.is_dir() {
        format!(
            "{}: no manifest (.yaml, .yml, .json) in this folder",
            file.display()
        )
    } else {
        format!("{}: no manifest, only comments or nothing", file.display())
    };
    anyhow!("{what}; --allow-empty if that is right")
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
