//! What the user of a command may do.

use std::collections::BTreeMap;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use swaplet_core::report::decision::{Action, Decision};
use swaplet_core::report::reason::Reason;

use crate::cli::program::table::counted;

/// The most kinds of writes that are asked about.
const MOST: usize = 20;

/// Returns whether the user may do this; `None` if that cannot be asked.
pub async fn may(client: &Client, what: ResourceAttributes) -> Option<bool> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(what),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await.ok()?;
    Some(answer.status?.allowed)
}

/// Returns whether the user may patch this resource, such as `pods/status`; `None` if that cannot be
/// asked.
pub async fn may_patch(client: &Client, namespace: &str, resource: &str) -> Option<bool> {
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
        None => (resource, None),
    };
    let what = ResourceAttributes {
        verb: Some("patch".to_owned()),
        namespace: Some(namespace.to_owned()),
        resource: Some(resource.to_owned()),
        subresource,
        ..ResourceAttributes::default()
    };
    may(client, what).await
}

/// Returns the resource that is patched by what is decided, such as `pods/status`.
pub fn patched_by(decision: &Decision) -> Option<&'static str> {
    match &decision.action {
        Some(Action::Recreate(_)) => None,
        Some(action) => Some(action.resource()),
        None => (decision.reason == Reason::FinishWaits).then_some("pods/status"),
    }
}

/// Returns a remark for each kind of write that would end pods and that the user may not make;
/// `decided` has the namespace and the resource for each pod. `unmarked` has the namespace of each
/// pod that waits for containers that nothing marks: which write ends it is decided when they are
/// marked. Phases are written only where that `may_finish` pods.
pub async fn lacking<'a>(
    client: &Client,
    decided: impl IntoIterator<Item = (&'a str, &'a str)>,
    unmarked: impl IntoIterator<Item = &'a str>,
    may_finish: bool,
) -> Vec<String> {
    let mut counts = BTreeMap::<_, (usize, usize)>::new();
    for write in decided {
        counts.entry(write).or_default().0 += 1;
    }
    let phases = may_finish.then_some("pods/status");
    for namespace in unmarked {
        for resource in ["pods"].into_iter().chain(phases) {
            counts.entry((namespace, resource)).or_default().1 += 1;
        }
    }
    let mut lacking = Vec::new();
    for ((namespace, resource), (decided, unmarked)) in counts.into_iter().take(MOST) {
        if may_patch(client, namespace, resource).await == Some(false) {
            let does = effect(decided, unmarked);
            lacking.push(format!(
                "your rights do not allow to patch {resource} in namespace {namespace}, which {does}: ask for that right (docs/rights.md), or let a controller do it"
            ));
        }
    }
    lacking
}

/// Says what a write does that ends so many pods, and that may be what ends so many whose sidecars
/// nothing marks.
fn effect(decided: usize, unmarked: usize) -> String {
    let ends = format!("would end {}", counted(decided, "pod"));
    let may = format!(
        "may be needed to end {} with unmarked sidecars",
        counted(unmarked, "pod")
    );
    match (decided, unmarked) {
        (_, 0) => ends,
        (0, _) => may,
        _ => format!("{ends} and {may}"),
    }
}
