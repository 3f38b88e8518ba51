//! The three environment variables by which OpenKruise marks a sidecar, and the one of Alibaba ECI, read while decoding; every other
//! variable is skipped.
//!
//! The rules are OpenKruise's (`pkg/controller/sidecarterminator/utils.go`): only a literal `value` counts, `true` in any
//! case turns a flag on, any non-empty image marks, and one matching entry of several is enough.

use serde::Deserialize;

use super::lenient::{Lenient, Present};

/// Marks the container as a sidecar, ended by the configured exit image.
pub const WHEN_JOB_EXIT: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT";
/// Marks the container as a sidecar and names the exit image.
pub const WITH_IMAGE: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE";
/// Asks that the exit code of a marked sidecar does not count for the pod.
pub const IGNORE_EXIT_CODE: &str = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE";

/// Says [`ECI_SIDECAR`] of a container that Alibaba ECI is to end by itself when the others are done (ECI, "Declare container types").
pub const ECI_CONTAINER_TYPE: &str = "ECI_CONTAINER_TYPE";
/// The value of [`ECI_CONTAINER_TYPE`] that counts.
pub const ECI_SIDECAR: &str = "sidecar";

/// What the environment of a container says about its role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// [`WHEN_JOB_EXIT`] is on.
    pub when_job_exit: bool,
    /// The image of [`WITH_IMAGE`], as written; never empty.
    pub with_image: Option<Box<str>>,
    /// [`IGNORE_EXIT_CODE`] is on (it has a meaning only beside [`WHEN_JOB_EXIT`]).
    pub ignore_exit_code: bool,
    /// [`ECI_CONTAINER_TYPE`] is [`ECI_SIDECAR`]: on ECI, and nowhere else, the platform ends the container.
    pub eci_sidecar: bool,
    /// What is wrong with one of the variables, if anything.
    pub problem: Option<MarkProblem>,
}

/// A marking variable that has no effect as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkProblem {
    /// The variable comes by `valueFrom`, which OpenKruise does not read.
    FromReference {
        /// The variable.
        variable: &'static str,
    },
    /// A flag has a value other than `true` or `false`.
    NotAFlag {
        /// The variable.
        variable: &'static str,
    },
    /// [`WITH_IMAGE`] is there with an empty value.
    EmptyImage,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EnvWire {
    name: Lenient<Option<EnvName>>,
    value: Lenient<Option<Box<str>>>,
    value_from: Lenient<Present>,
}

/// Only the names of ours are kept: the value of any other variable is none of our business, and must never reach a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EnvName {
    WhenJobExit,
    WithImage,
    IgnoreExitCode,
    EciContainerType,
}

impl EnvName {
    const fn text(self) -> &'static str {
        match self {
            Self::WhenJobExit => WHEN_JOB_EXIT,
            Self::WithImage => WITH_IMAGE,
            Self::IgnoreExitCode => IGNORE_EXIT_CODE,
            Self::EciContainerType => ECI_CONTAINER_TYPE,
        }
    }
}

impl super::lenient::Shape for Option<EnvName> {
    fn from_text(text: &str) -> Option<Self> {
        let name = [EnvName::WhenJobExit, EnvName::WithImage, EnvName::IgnoreExitCode, EnvName::EciContainerType]
            .into_iter()
            .find(|n| n.text() == text);
        Some(name)
    }
}

impl Mark {
    pub(super) fn read(entries: &[Lenient<super::lenient::Object<EnvWire>>]) -> Self {
        let mut mark = Self::default();
        for entry in entries {
            mark.add(&entry.value.0);
        }
        mark
    }

    fn add(&mut self, entry: &EnvWire) {
        let Some(name) = entry.name.value else { return };
        let value = entry.value.value.as_deref().unwrap_or_default();
        // What ECI does not read as a sidecar is no mistake that we could name.
        if entry.value_from.value.0 && value.is_empty() && name != EnvName::EciContainerType {
            self.problem.get_or_insert(MarkProblem::FromReference { variable: name.text() });
            return;
        }
        match name {
            EnvName::WhenJobExit => self.when_job_exit |= self.flag(name, &entry.value),
            EnvName::IgnoreExitCode => self.ignore_exit_code |= self.flag(name, &entry.value),
            EnvName::WithImage => self.image(value),
            EnvName::EciContainerType => self.eci_sidecar |= value == ECI_SIDECAR,
        }
    }

    fn flag(&mut self, name: EnvName, value: &Lenient<Option<Box<str>>>) -> bool {
        let text = value.value.as_deref().unwrap_or_default();
        let on = text.eq_ignore_ascii_case("true");
        if value.malformed || !(on || text.is_empty() || text.eq_ignore_ascii_case("false")) {
            self.problem.get_or_insert(MarkProblem::NotAFlag { variable: name.text() });
        }
        on
    }

    fn image(&mut self, value: &str) {
        if value.is_empty() {
            self.problem.get_or_insert(MarkProblem::EmptyImage);
        } else {
            self.with_image.get_or_insert_with(|| value.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(json: serde_json::Value) -> Mark {
        let entries: Lenient<Vec<_>> = serde_json::from_value(json).unwrap();
        Mark::read(&entries.value)
    }

    #[test]
    fn true_counts_in_any_case() {
        for value in ["true", "True", "TRUE", "tRuE"] {
            assert!(mark(serde_json::json!([{"name": WHEN_JOB_EXIT, "value": value}])).when_job_exit, "{value}");
        }
    }

    #[test]
    fn other_values_are_off_and_named_as_a_problem() {
        for value in ["yes", "1", " true", "on"] {
            let mark = mark(serde_json::json!([{"name": WHEN_JOB_EXIT, "value": value}]));
            assert!(!mark.when_job_exit, "{value}");
            assert_eq!(mark.problem, Some(MarkProblem::NotAFlag { variable: WHEN_JOB_EXIT }), "{value}");
        }
        for value in ["", "false", "False"] {
            assert_eq!(mark(serde_json::json!([{"name": WHEN_JOB_EXIT, "value": value}])), Mark::default(), "{value}");
        }
    }

    #[test]
    fn an_empty_image_does_not_mark() {
        let mark = mark(serde_json::json!([{"name": WITH_IMAGE, "value": ""}]));
        assert_eq!(mark.with_image, None);
        assert_eq!(mark.problem, Some(MarkProblem::EmptyImage));
    }

    #[test]
    fn the_mark_of_eci_is_read_and_is_none_of_ours() {
        for (entry, read) in [
            (serde_json::json!({"name": ECI_CONTAINER_TYPE, "value": "sidecar"}), true),
            (serde_json::json!({"name": ECI_CONTAINER_TYPE, "value": "main"}), false),
            (serde_json::json!({"name": ECI_CONTAINER_TYPE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}), false),
        ] {
            assert_eq!(mark(serde_json::json!([entry])), Mark { eci_sidecar: read, ..Mark::default() });
        }
    }

    #[test]
    fn a_reference_does_not_mark() {
        let mark = mark(serde_json::json!([{"name": WITH_IMAGE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]));
        assert_eq!(mark.with_image, None);
        assert_eq!(mark.problem, Some(MarkProblem::FromReference { variable: WITH_IMAGE }));
    }

    #[test]
    fn one_entry_of_several_is_enough() {
        let mark = mark(serde_json::json!([
            {"name": WHEN_JOB_EXIT, "value": "false"},
            {"name": "OTHER", "value": "secret"},
            {"name": WHEN_JOB_EXIT, "value": "true"},
        ]));
        assert!(mark.when_job_exit);
        assert_eq!(mark.problem, None);
    }
}
