//! Who denies a write, of which containers, and what somebody can change, by the words of the API
//! server.

use std::collections::BTreeSet;

use super::decision::{Action, Swap};

/// The words before and behind the name of a policy or webhook, and what they name (Kubernetes:
/// `validating.policyDecision`, `webhook.ToStatusErr`, `webhook.NewErrWebhookCallFailed`).
const FORMS: [(&str, &str, &str); 3] = [
    (
        "ValidatingAdmissionPolicy '",
        "' with binding",
        "ValidatingAdmissionPolicy",
    ),
    (
        "admission webhook \"",
        "\" denied the request",
        "admission webhook",
    ),
    ("failed calling webhook \"", "\"", "admission webhook"),
];
/// The words of denials that are no verdict: of a webhook that cannot be reached, of an API server
/// that has just started, of a quota that was not counted yet, and of a namespace whose account comes
/// later (Kubernetes: `WaitForReady` of `admission/initializer`, `checkQuotas` of
/// `resourcequota/controller.go`, `admission/serviceaccount`).
const NO_VERDICT: [&str; 4] = [
    "failed calling webhook",
    "not yet ready to handle request",
    "status unknown for quota",
    "error looking up service account",
];
/// What each admission policy of swaplet has in its name, whatever the release is called.
const LEASH: &str = "-leash-";
/// What swaplet says first of a write that was accepted and set back.
pub const UNDONE: &str = "a webhook of the cluster has undone the change";
/// What is said of an object that has changed whenever a write arrived.
pub const CHANGES: &str = "it keeps changing";

/// Returns true if a denial is one of all writes, and may be gone with the next: it says nothing of
/// what was written.
pub fn is_no_verdict(words: &str) -> bool {
    NO_VERDICT.iter().any(|known| words.contains(known))
}

/// A denied write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial<'a> {
    /// Who denies it.
    pub by: By,
    /// The words without the names of the object and of the policy.
    message: &'a str,
}

/// Who denies a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// The account has no right to make it (Kubernetes: `responsewriters.ForbiddenStatusError`).
    Rights,
    /// An admission policy of swaplet, which holds for its own account alone.
    Leash,
    /// A policy or webhook of somebody else, which may hold for every account: its kind and name.
    Other(String),
    /// Something else, such as the API server's own validation.
    Unknown,
}

impl<'a> Denial<'a> {
    /// Parses the words of the API server, or a note that begins with them.
    pub fn of(words: &'a str) -> Self {
        for (begin, end, kind) in FORMS {
            let found = words
                .split_once(begin)
                .and_then(|(_, rest)| rest.split_once(end));
            if let Some((name, rest)) = found {
                let by = match name.contains(LEASH) {
                    true => By::Leash,
                    false => By::Other(format!("{kind} {name}")),
                };
                let message = rest.split_once(": ").map_or("", |(_, message)| message);
                return Self { by, message };
            }
        }
        let is_right = words.contains("User \"") && words.contains(" resource \"");
        let by = match words.contains(UNDONE) {
            true => By::Other("that webhook".to_owned()),
            false if is_right => By::Rights,
            false => By::Unknown,
        };
        let message = if by == By::Rights { "" } else { words };
        Self { by, message }
    }

    /// Returns those of these containers, each after its place in the pod, that the message names, by
    /// name or place; all if it names none, or more than it says.
    pub fn those<'n>(&self, containers: &[(usize, &'n str)]) -> Vec<&'n str> {
        let is_between = |sign: char| !sign.is_ascii_alphanumeric() && sign != '-';
        let is_named = |(index, name): &&(usize, &str)| {
            let places = [format!("ontainers/{index}/"), format!("ontainers[{index}]")];
            self.message.split(is_between).any(|part| part == *name)
                || places.iter().any(|place| self.message.contains(place))
        };
        let mut named: Vec<_> = containers.iter().filter(is_named).collect();
        let has_more = self.message.ends_with(" more") || self.message.contains(" more (");
        if named.is_empty() || has_more {
            named = containers.iter().collect();
        }
        named.into_iter().map(|(_, name)| *name).collect()
    }

    /// Returns the names of the containers whose change is denied; none for other writes.
    pub fn containers<'s>(&self, action: &'s Action) -> Vec<&'s str> {
        let Action::Swap(swaps) = action else {
            return Vec::new();
        };
        let all = swaps.iter().map(|swap| (swap.index, &*swap.container));
        self.those(&all.collect::<Vec<_>>())
    }

    /// Returns what to change where somebody else's policy denies this write; `None` elsewhere.
    pub fn advice(&self, action: &Action) -> Option<String> {
        let By::Other(who) = &self.by else {
            return None;
        };
        let Action::Swap(swaps) = action else {
            return Some(format!("exempt the account of swaplet from {who}"));
        };
        let names = self.containers(action);
        let denied = |swap: &&Swap| names.contains(&&*swap.container);
        let images: BTreeSet<_> = swaps.iter().filter(denied).map(|swap| &*swap.to).collect();
        let images: Vec<_> = images.into_iter().collect();
        let waiting = match names.len() < swaps.len() {
            true => "; until then the other sidecars of the pod are not swapped either",
            false => "",
        };
        let (images, names) = (images.join(", "), names.join(", "));
        Some(format!(
            "let {who} allow {images} for {names}, or exempt the account of swaplet from it{waiting}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGISTRIES: &str = "pods \"p-my-agent\" is forbidden: ValidatingAdmissionPolicy 'registries' with binding 'registries' denied request: images of my-agent must come from registry.corp";

    fn swaps() -> Action {
        let swap = |index, name: &str| Swap {
            index,
            is_native_sidecar: false,
            container: name.into(),
            from: "agent:1".into(),
            to: "exit:v1".into(),
        };
        Action::Swap(vec![swap(1, "fluent-bit"), swap(2, "my-agent")])
    }

    #[test]
    fn who_denies_a_write_is_known_by_the_words_of_the_api_server() {
        let other = |words: &str| By::Other(words.to_owned());
        for (words, by) in [
            (REGISTRIES, other("ValidatingAdmissionPolicy registries")),
            (
                "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'x-leash-pods' with binding 'x-leash-pods' denied request: no",
                By::Leash,
            ),
            (
                "admission webhook \"w.example\" denied the request: no",
                other("admission webhook w.example"),
            ),
            (
                "admission webhook \"w.example\" denied the request without explanation",
                other("admission webhook w.example"),
            ),
            (
                "Internal error occurred: failed calling webhook \"w.example\": Post \"https://w\": timeout",
                other("admission webhook w.example"),
            ),
            (
                "a webhook of the cluster has undone the change: spec.containers.1.image is a, where b was written",
                other("that webhook"),
            ),
            (
                "pods \"p\" is forbidden: User \"swaplet\" cannot patch resource \"pods\" in API group \"\" in the namespace \"batch\"",
                By::Rights,
            ),
            ("Pod \"p\" is invalid: spec: Forbidden", By::Unknown),
        ] {
            assert_eq!(Denial::of(words).by, by, "{words}");
        }
    }

    #[test]
    fn only_containers_that_the_message_names_are_denied() {
        let webhook =
            |message: &str| format!("admission webhook \"w\" denied the request: {message}");
        for (words, denied) in [
            (REGISTRIES.to_owned(), "my-agent"),
            (
                webhook("container <fluent-bit> has an image of <exit:v1>"),
                "fluent-bit",
            ),
            (
                webhook("rule registries failed at path /spec/containers/2/image/"),
                "my-agent",
            ),
            (webhook("spec.containers[1].image: exit:v1"), "fluent-bit"),
            (webhook("exit:v1 is not signed"), "fluent-bit, my-agent"),
            (
                webhook("not for my-agent and 1 more"),
                "fluent-bit, my-agent",
            ),
        ] {
            let names = Denial::of(&words).containers(&swaps()).join(", ");
            assert_eq!(names, denied, "{words}");
        }
        assert_eq!(
            Denial::of(REGISTRIES).advice(&swaps()).unwrap(),
            "let ValidatingAdmissionPolicy registries allow exit:v1 for my-agent, or exempt the account of swaplet from it; until then the other sidecars of the pod are not swapped either"
        );
    }
}
