//! Where our fakes differ from the real things, and why that may stay.
//!
//! Every entry is as narrow as it can be: it must not hide another difference.

use crate::shared::known::Known;

const GO: &str = "the text of Go's JSON decoder; ours is serde's. Code, reason and the place in the answer are the same";
const PATCHED: &str =
    "shows the patched object in the order of Go's fields and with managedFields, which we do not keep, and Go's decoder's text";
const INTERNAL: &str = "shows the value as Go's internal type, with all its empty fields";

/// The embedded API server, compared with kube-apiserver 1.34.
pub const API_SERVER: &[Known] = &[
    Known {
        operation: "create *",
        path: "body.message",
        real: "cannot be handled as a * json: *",
        fake: "cannot be handled as a *",
        why: GO,
    },
    Known {
        operation: "update *",
        path: "body.message",
        real: "cannot be handled as a * json: *",
        fake: "cannot be handled as a *",
        why: GO,
    },
    Known {
        operation: "*-patch *",
        path: "body.*message",
        real: "Invalid value: *apiVersion*json: *",
        fake: "Invalid value: *apiVersion*invalid type: *",
        why: PATCHED,
    },
    Known {
        operation: "*-patch jobs",
        path: "body.*message",
        real: "Invalid value: *Spec*Containers*field is immutable",
        fake: "Invalid value: *spec*containers*field is immutable",
        why: INTERNAL,
    },
];
