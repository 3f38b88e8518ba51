//! Reads manifests of files, folders and standard input, and finds empty ones.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Error, anyhow, ensure};
use swaplet_core::check::form;
use swaplet_core::objects::pod::template::object_name;
use swaplet_core::objects::values::bounds::{MESSAGE, cut};

use crate::cli::manifests::{Document, Made, Manifests, patch};

/// Reads all files, and checks the form of their objects.
pub(super) fn manifests(files: &[PathBuf], allow_empty: bool) -> Manifests {
    let (mut all, empty) = Manifests::read_each(files);
    if !allow_empty {
        let words = empty
            .into_iter()
            .map(|words| anyhow!("{words}; --allow-empty if that is right"));
        all.problems.extend(words);
    }
    for document in &all.documents {
        let problems = problems(document);
        match patch(&document.file) {
            Some(words) => {
                let words = |problem| format!("{problem}; {words}");
                all.notes.extend(problems.map(words));
            }
            None => all.problems.extend(problems.map(Error::msg)),
        }
    }
    all
}

/// Returns what kustomize makes of a folder, as standard output of its own program or of kubectl's.
pub(super) fn kustomized(folder: &Path, allow_empty: bool) -> Manifests {
    let run = |program: &str, word: &str| {
        Command::new(program)
            .arg(word)
            .arg(folder)
            .stderr(Stdio::inherit())
            .output()
    };
    let by_kubectl = run("kubectl", "kustomize").map(|ran| (ran, "kubectl kustomize"));
    let by_itself = |_| run("kustomize", "build").map(|ran| (ran, "kustomize build"));
    let ran = by_kubectl.or_else(by_itself);
    let made = ran.context("neither kubectl nor kustomize can be run: install one of them");
    let made = made.and_then(|(ran, by)| {
        ensure!(
            ran.status.success(),
            "kustomize has failed ({})",
            ran.status
        );
        let folder = folder.to_owned();
        let mut made = Manifests::made(&Made { folder, by }, &String::from_utf8(ran.stdout)?);
        let is_empty = made.documents.is_empty() && made.problems.is_empty();
        ensure!(
            allow_empty || !is_empty,
            "kustomize makes nothing of it; --allow-empty if that is right"
        );
        let wrong = made.documents.iter().flat_map(problems).map(Error::msg);
        made.problems.extend(wrong.collect::<Vec<_>>());
        Ok(made)
    });
    let made = made.with_context(|| format!("-k {}", folder.display()));
    made.unwrap_or_else(|problem| {
        let mut none = Manifests::default();
        none.problems.push(problem);
        none
    })
}

fn problems(document: &Document) -> impl Iterator<Item = String> {
    let object = &document.object;
    let name = object_name(object);
    let kind = object["kind"].as_str().unwrap_or("?");
    let problems = form::problems(object).into_iter();
    problems.map(move |problem| {
        let words = cut(&format!("{kind}/{name}: {problem}"), MESSAGE);
        format!("{}: {words}", document.place())
    })
}
