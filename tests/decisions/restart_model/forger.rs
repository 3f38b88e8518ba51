//! Somebody who writes what is not theirs: journals of requests, and what pods say of parked
//! containers.

use serde_json::{Value, json};
use swaplet_core::restart::parked::Parked;
use swaplet_core::restart::request::{ACTIVE, Intent, JOURNAL, Journal, Mark, POD_UID, Parking};

use super::state::{ABSENT, State, Step};
use crate::restart::world::{PARK, images, request};

const EVIL: &str = "evil.example/backdoor:1";
/// The same repository and tag, and a digest that no node reports.
const OTHER: &str =
    "r.example/app:1@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

/// Who writes what is not theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forger {
    Nobody,
    /// Who may make and change requests.
    OfRequests,
    /// Who may change statuses of pods.
    OfNotes,
}

const JOURNALS: u8 = 8;
const NOTES: u8 = 3;

impl Forger {
    /// What they can do here.
    pub fn steps(self, state: &State) -> Vec<Step> {
        match self {
            Self::Nobody => Vec::new(),
            Self::OfRequests if state.requests > 0 => (0..JOURNALS)
                .flat_map(|form| [false, true].map(|labels| Step::ForgeRequest(form, labels)))
                .collect(),
            Self::OfRequests if state.request == ABSENT => Vec::new(),
            Self::OfRequests => (0..JOURNALS).map(Step::ForgeJournal).collect(),
            Self::OfNotes => (0..NOTES).map(Step::ForgeNote).collect(),
        }
    }
}

/// A journal of one of the forms.
pub fn forged_journal(form: u8) -> Journal {
    let (original, alias) = images("app");
    let intent = |from: &str, to: &str, back: bool, parking: Option<Parking>| {
        Some(Intent {
            from: from.into(),
            to: to.into(),
            generation: None,
            back: back.then(|| "x".into()),
            parking,
        })
    };
    let intent = match form {
        0 => intent(EVIL, &original, false, Some(Parking::Back)),
        1 => intent(EVIL, PARK, false, Some(Parking::Back)),
        2 => intent(EVIL, PARK, false, Some(Parking::Out)),
        3 => intent(OTHER, &original, true, None),
        4 => intent(EVIL, &alias, true, None),
        5 => intent(&original, EVIL, false, None),
        6 => intent(&original, &original, false, Some(Parking::Out)),
        _ => None,
    };
    Journal(
        [(
            "app".into(),
            Mark {
                container_id: "x".into(),
                intent,
                ..Mark::default()
            },
        )]
        .into(),
    )
}

/// A request that has one when it is made.
pub fn forged_request(form: u8, labels: bool) -> Value {
    let mut object = request(&["app"], &json!({"forceRecreate": true}));
    object["metadata"]["annotations"] = json!({JOURNAL: forged_journal(form).as_text()});
    if labels {
        object["metadata"]["labels"] = json!({POD_UID: "pu", ACTIVE: "true"});
    }
    object
}

/// What a pod says: that of the request, or another one, had an image which it never had; or
/// nothing, as where it names another pod.
pub fn forged_note(form: u8) -> Option<Parked> {
    let images = [("app".into(), EVIL.into())].into();
    let request = if form == 0 { "ru" } else { "another" };
    (form < 2).then(|| Parked {
        pod: "pu".into(),
        name: "r".into(),
        request: request.into(),
        park: PARK.into(),
        images,
    })
}
