//! Where our fakes differ from the real things, and why that may stay.
//!
//! Every entry is as narrow as it can be: it must not hide another difference.

use crate::shared::known::Known;

const GO: &str = "the text of Go's JSON decoder; ours is serde's. Code, reason and the place in the answer are the same";
const GO_CREATE: &str = r#"in version \"v1\" cannot be handled as a * json: *"#;
const GO_BASE64: &str = r#"in version \"v1\" cannot be handled as a * illegal base64 data"#;
const GO_TIME: &str = r#"in version \"v1\" cannot be handled as a * parsing time"#;
const CREATE: &str = r#"in version \"v1\" cannot be handled as a *"#;
const PATCHED: &str = "shows the patched object in the order of Go's fields and with managedFields, which we do not keep, and Go's decoder's text";
const INTERNAL: &str = "shows the value as Go's internal type, with all its empty fields";
const FIELDS: &str = "Forbidden: pod updates may not change fields other than *(allow it to be set to 1 if it was previously negative)\\n";
const DIFF: &str =
    "after the rule follows a textual diff of Go's internal type; ours lists the changed paths";

/// The embedded API server, compared with kube-apiserver 1.37.
pub const API_SERVER: &[Known] = &[
    Known {
        operation: "create *",
        path: "body.message",
        real: GO_CREATE,
        fake: CREATE,
        why: GO,
    },
    Known {
        operation: "create configmaps",
        path: "body.message",
        real: GO_BASE64,
        fake: CREATE,
        why: GO,
    },
    Known {
        operation: "create leases",
        path: "body.message",
        real: GO_TIME,
        fake: GO_TIME,
        why: GO,
    },
    Known {
        operation: "*-patch *",
        path: "body.*message",
        real: "Invalid value: *apiVersion*managedFields*",
        fake: "Invalid value: *apiVersion*",
        why: PATCHED,
    },
    Known {
        operation: "*-patch leases",
        path: "body.*message",
        real: "Invalid value: *apiVersion*parsing time * cannot parse *",
        fake: "Invalid value: *apiVersion*parsing time * cannot parse it as such",
        why: PATCHED,
    },
    Known {
        operation: "create pods",
        path: "body.message",
        real: "no kind \\\"*\\\" is registered for version *",
        fake: "unknown conversion",
        why: "the text names a line of the real server's source",
    },
    Known {
        operation: "*-patch pods",
        path: "body.*message",
        real: FIELDS,
        fake: FIELDS,
        why: DIFF,
    },
    Known {
        operation: "update pods",
        path: "body.*message",
        real: FIELDS,
        fake: FIELDS,
        why: DIFF,
    },
    Known {
        operation: "*-patch jobs",
        path: "body.*message",
        real: "Invalid value: *Containers*field is immutable",
        fake: "Invalid value: *containers*field is immutable",
        why: INTERNAL,
    },
    Known {
        operation: "update jobs",
        path: "body.*message",
        real: "Invalid value: *Containers*field is immutable",
        fake: "Invalid value: *containers*field is immutable",
        why: INTERNAL,
    },
];

/// The mock node's kubelet profile, compared with a kubelet 1.37.
pub const KUBELET: &[Known] = &[];
