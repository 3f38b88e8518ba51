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
/// `writes` has the namespace and the resource for each pod.
pub async fn lacking<'a>(
    client: &Client,
    writes: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<String> {
    let mut counts = BTreeMap::<_, usize>::new();
    for write in writes {
        *counts.entry(write).or_default() += 1;
    }
    let mut lacking = Vec::new();
    for ((namespace, resource), pods) in counts.into_iter().take(MOST) {
        if may_patch(client, namespace, resource).await == Some(false) {
            let pods = counted(pods, "pod");
            lacking.push(format!(
                "your rights do not allow to patch {resource} in namespace {namespace}, which would end {pods}: ask for that right (docs/rights.md), or let a controller do it"
            ));
        }
    }
    lacking
}
