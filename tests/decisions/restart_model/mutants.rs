//! Mistakes that are made in decisions.

use swaplet_core::report::decision::Swap;
use swaplet_core::restart::pod::RestartPod;
use swaplet_core::restart::reconcile::{Action, Change};
use swaplet_core::restart::request::{Journal, RestartRequest};

/// What stands before the number of a fresh name.
const RESTART: &str = "restart-";

/// The same write with two names in turn in place of a new one each time.
pub fn with_old_names(action: Action, request: &RestartRequest, pod: &RestartPod) -> Action {
    let Action::WriteDown(mut journal) = action else {
        return action;
    };
    let intents = journal
        .0
        .values_mut()
        .filter_map(|mark| mark.intent.as_mut());
    intents.for_each(|intent| intent.to = old_name(&intent.to).into());
    // The decision has found another name in the journal than it would choose.
    match change(&journal, pod) {
        Some(change) if request.journal.as_ref() == Some(&journal) => Action::Swap(change),
        _ => Action::WriteDown(journal),
    }
}

fn old_name(image: &str) -> String {
    let parts = image.split_once(RESTART).zip(image.split_once('@'));
    let Some(((name, rest), (_, digest))) = parts else {
        return image.into();
    };
    let number: u32 = rest.split('@').next().unwrap().parse().unwrap();
    format!("{name}{RESTART}{}@{digest}", number % 2 + 1)
}

fn change(journal: &Journal, pod: &RestartPod) -> Option<Change> {
    let intent = journal.0.get("app")?.intent.as_ref()?;
    let swap = Swap {
        index: 0,
        is_native_sidecar: false,
        container: "app".into(),
        from: intent.from.clone(),
        to: intent.to.clone(),
    };
    Some(Change {
        swaps: vec![swap],
        generation: pod.generation,
        note: None,
        coming: 0,
        tried: Vec::new(),
    })
}
