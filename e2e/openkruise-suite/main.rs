//! OpenKruise's own end-to-end tests of what swaplet does too, on a real node with swaplet as Helm
//! installs it and without OpenKruise.
//!
//! They are OpenKruise's program, changed by the patches in `e2e/modules/openkruise-suite`, which
//! say what and why. It runs twice: as it is, and then those tests that failed, without the
//! assertions on what swaplet does otherwise on purpose. How they ended is compared with
//! `result.json`, of which `docs/parity.md` is made (`tests/docs/suite.rs`). With
//! `SWAPLET_UPDATE_DOCS=1` that file is written. With `SWAPLET_E2E_SUITE_ONLY` only the tests of
//! those files are run whose names contain it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken helper is a failed case"
)]

#[path = "../cases/images.rs"]
#[allow(dead_code, reason = "shared with the other cases; each uses a part")]
mod images;
mod installation;
mod report;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use serde_json::Value;

use self::installation::Installation;
use self::report::{Outcome, outcomes, result};

const RESULT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/e2e/openkruise-suite/result.json"
);
/// Of the files of OpenKruise's tests those that are about what swaplet does.
const FILES: [&str; 6] = [
    "v1alpha1/containerrecreate.go",
    "v1alpha1/imagelistpulljobs.go",
    "v1alpha1/pullimages.go",
    "v1alpha1/sidecarterminator.go",
    "v1beta1/imagelistpulljobs.go",
    "v1beta1/pullimages.go",
];

#[tokio::test]
async fn openkruises_own_tests_end_as_is_written_down() {
    let only = std::env::var("SWAPLET_E2E_SUITE_ONLY").unwrap_or_default();
    let is_wanted = |file: &str| file.contains(&only);
    let files: Vec<_> = FILES
        .into_iter()
        .filter(|file| is_wanted(file))
        .map(str::to_owned)
        .collect();
    let installation = Installation::new().await;
    let strict = run(&installation, "strict", &files);
    let failed = strict.iter().filter(|outcome| !outcome.passed);
    let failed: Vec<_> = failed
        .map(|outcome| format!("{}:{}", outcome.file, outcome.line))
        .collect();
    let lenient = if failed.is_empty() {
        Vec::new()
    } else {
        run(&installation, "lenient", &failed)
    };
    drop(installation);
    let ended = result(&strict, &lenient);
    if only.is_empty() && std::env::var_os("SWAPLET_UPDATE_DOCS").is_some() {
        fs::write(RESULT, format!("{:#}\n", Value::from(ended))).unwrap();
        return;
    }
    let mut known: Vec<Value> = serde_json::from_str(&fs::read_to_string(RESULT).unwrap()).unwrap();
    known.retain(|test| is_wanted(test["file"].as_str().unwrap()));
    let differences = differences(&known, &ended);
    assert!(
        differences.is_empty(),
        "not as in {RESULT}; reports and logs are in {}:\n{differences}",
        installation::FOLDER
    );
}

/// Runs tests by their files, or by file and line; `mode` says which assertions are left out.
fn run(installation: &Installation, mode: &str, tests: &[String]) -> Vec<Outcome> {
    let report = Path::new(installation::FOLDER).join(format!("{mode}.json"));
    installation.run(mode, tests, &report);
    let outcomes = outcomes(
        &fs::read_to_string(&report)
            .unwrap_or_else(|error| panic!("{}: {error}", report.display())),
    );
    assert!(
        outcomes.len() >= tests.len(),
        "{} tests were run of {tests:?}",
        outcomes.len()
    );
    for outcome in &outcomes {
        let Outcome {
            file,
            name,
            seconds,
            message,
            ..
        } = outcome;
        println!(
            "{mode}: {} after {seconds} s: {file}: {name}",
            if outcome.passed { "passed" } else { "failed" }
        );
        if mode == "lenient" && !outcome.passed {
            println!("{message}");
        }
        took(&format!(
            "{seconds} openkruise-suite::{mode}::{file}: {name}"
        ));
    }
    outcomes
}

/// A line in the file that `SWAPLET_E2E_TIMES` names.
fn took(line: &str) {
    let Some(file) = std::env::var_os("SWAPLET_E2E_TIMES") else {
        return;
    };
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(file)
        .unwrap();
    writeln!(file, "{line}").unwrap();
}

fn differences(known: &[Value], ended: &[Value]) -> String {
    let lines = |tests: &[Value]| tests.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (known, ended) = (lines(known), lines(ended));
    let only = |mark: &str, of: &[String], not: &[String]| {
        of.iter()
            .filter(|line| !not.contains(line))
            .map(|line| format!("{mark} {line}\n"))
            .collect::<String>()
    };
    only("-", &known, &ended) + &only("+", &ended, &known)
}
