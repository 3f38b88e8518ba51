//! The three environment variables by which OpenKruise marks a sidecar, and those of Alibaba ECI and ACS.
//!
//! The rules are OpenKruise's (`pkg/controller/sidecarterminator/utils.go`): only a literal `value`
//! counts, `true` in any case turns a flag on, any non-empty image marks, and one matching entry of
//! several is enough.

use std::fmt;

use super::bounds;
use super::fields::FromText;

/// Marks the container as a sidecar, ended by the configured exit image.
pub const WHEN_JOB_EXIT: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT";
/// Marks the container as a sidecar and names the exit image.
pub const WITH_IMAGE: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE";
/// Makes the exit code of a marked sidecar not count for the pod.
pub const IGNORE_EXIT_CODE: &str = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE";

/// Is [`ECI_SIDECAR`] for a container that Alibaba ECI is to end by itself when the others are done
/// (ECI, "Declare container types").
pub const ECI_CONTAINER_TYPE: &str = "ECI_CONTAINER_TYPE";
/// The value of [`ECI_CONTAINER_TYPE`] that counts.
pub const ECI_SIDECAR: &str = "sidecar";
/// Is [`ACS_SIDECAR`] for a container that Alibaba ACS is to end by itself when the others are done
/// (ACS, "Configure sidecar startup and shutdown").
pub const ACS_IS_SIDECAR: &str = "__IS_SIDECAR__";
/// The value of [`ACS_IS_SIDECAR`] that counts.
pub const ACS_SIDECAR: &str = "true";

/// This many bytes of a text are too long for an image reference, even when cut before a character
/// of four bytes.
const LONG_IMAGE: usize = bounds::TEXT + 4;

/// The role of a container that its environment sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// True if [`WHEN_JOB_EXIT`] is on.
    pub when_job_exit: bool,
    /// The image of [`WITH_IMAGE`], as written; never empty.
    pub with_image: Option<Box<str>>,
    /// True if [`IGNORE_EXIT_CODE`] is on (it has a meaning only beside [`WHEN_JOB_EXIT`]).
    pub ignore_exit_code: bool,
    /// True if [`ECI_CONTAINER_TYPE`] is [`ECI_SIDECAR`]: on ECI, and nowhere else, the platform
    /// ends the container.
    pub eci_sidecar: bool,
    /// The same for [`ACS_IS_SIDECAR`] on ACS.
    pub acs_sidecar: bool,
    /// The problem with one of the variables, if any.
    pub problem: Option<MarkProblem>,
}

/// A marking variable that has no effect as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkProblem {
    /// The value is set by `valueFrom`, which OpenKruise does not read.
    FromReference {
        /// The name of the variable.
        variable: &'static str,
    },
    /// A flag has a value other than `true` or `false`.
    NotAFlag {
        /// The name of the variable.
        variable: &'static str,
    },
    /// [`WITH_IMAGE`] has an empty value.
    EmptyImage,
}

/// The value of a variable while it is decoded: it may be a secret, and is never printed. Of a
/// value that is too long only the start is kept, which is still too long for an image reference.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Hidden {
    text: Box<str>,
    pub is_too_long: bool,
}

impl Hidden {
    pub(crate) fn expose(&self) -> &str {
        &self.text
    }

    pub(crate) fn open(self) -> Box<str> {
        self.text
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("..")
    }
}

impl FromText for Hidden {
    fn from_text(text: &str) -> Self {
        let is_too_long = text.len() > bounds::ARGUMENT;
        let kept = if is_too_long {
            &text[..text.floor_char_boundary(LONG_IMAGE)]
        } else {
            text
        };
        Self {
            text: kept.into(),
            is_too_long,
        }
    }
}

pub(crate) struct Entry<'a> {
    pub name: &'a str,
    /// Empty if there is none.
    pub value: &'a str,
    /// True if there is a `valueFrom`.
    pub is_reference: bool,
}

impl Mark {
    pub(crate) fn read<'a>(entries: impl Iterator<Item = Entry<'a>>) -> Self {
        let mut mark = Self::default();
        entries.for_each(|entry| mark.add(&entry));
        mark
    }

    fn add(&mut self, entry: &Entry<'_>) {
        let ours = [WHEN_JOB_EXIT, WITH_IMAGE, IGNORE_EXIT_CODE];
        if entry.is_reference && entry.value.is_empty() {
            // A value that a platform does not read as a sidecar is no mistake that we could name.
            if let Some(variable) = ours.into_iter().find(|name| *name == entry.name) {
                let problem = MarkProblem::FromReference { variable };
                self.problem.get_or_insert(problem);
            }
            return;
        }
        match entry.name {
            WHEN_JOB_EXIT => self.when_job_exit |= self.flag(WHEN_JOB_EXIT, entry.value),
            IGNORE_EXIT_CODE => self.ignore_exit_code |= self.flag(IGNORE_EXIT_CODE, entry.value),
            WITH_IMAGE => self.image(entry.value),
            ECI_CONTAINER_TYPE => self.eci_sidecar |= entry.value == ECI_SIDECAR,
            ACS_IS_SIDECAR => self.acs_sidecar |= entry.value == ACS_SIDECAR,
            _ => (),
        }
    }

    fn flag(&mut self, variable: &'static str, text: &str) -> bool {
        let on = text.eq_ignore_ascii_case("true");
        if !(on || text.is_empty() || text.eq_ignore_ascii_case("false")) {
            self.problem
                .get_or_insert(MarkProblem::NotAFlag { variable });
        }
        on
    }

    fn image(&mut self, value: &str) {
        if value.is_empty() {
            self.problem.get_or_insert(MarkProblem::EmptyImage);
        } else {
            // A value that is too long for a reference stays too long, and is refused as one.
            self.with_image
                .get_or_insert_with(|| value[..value.floor_char_boundary(LONG_IMAGE)].into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::pod::view::ContainerView;

    fn mark(env: serde_json::Value) -> Mark {
        serde_json::from_value::<ContainerView>(serde_json::json!({"env": env}))
            .unwrap()
            .mark()
    }

    #[test]
    fn values_are_not_printed() {
        let container: ContainerView =
            serde_json::from_value(serde_json::json!({"env": [{"name": "A", "value": "hunter2"}]}))
                .unwrap();
        assert!(!format!("{container:?}").contains("hunter2"));
    }

    #[test]
    fn true_counts_in_any_case() {
        for value in ["true", "True", "TRUE", "tRuE"] {
            assert!(
                mark(serde_json::json!([{"name": WHEN_JOB_EXIT, "value": value}])).when_job_exit,
                "{value}"
            );
        }
    }

    #[test]
    fn other_values_are_off_and_named_as_a_problem() {
        for value in ["yes", "1", " true", "on"] {
            let mark = mark(serde_json::json!([{"name": WHEN_JOB_EXIT, "value": value}]));
            assert!(!mark.when_job_exit, "{value}");
            assert_eq!(
                mark.problem,
                Some(MarkProblem::NotAFlag {
                    variable: WHEN_JOB_EXIT
                }),
                "{value}"
            );
        }
        for value in ["", "false", "False"] {
            assert_eq!(
                mark(serde_json::json!([{"name": WHEN_JOB_EXIT, "value": value}])),
                Mark::default(),
                "{value}"
            );
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
            (
                serde_json::json!({"name": ECI_CONTAINER_TYPE, "value": "sidecar"}),
                true,
            ),
            (
                serde_json::json!({"name": ECI_CONTAINER_TYPE, "value": "main"}),
                false,
            ),
            (
                serde_json::json!({"name": ECI_CONTAINER_TYPE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
                false,
            ),
        ] {
            assert_eq!(
                mark(serde_json::json!([entry])),
                Mark {
                    eci_sidecar: read,
                    ..Mark::default()
                }
            );
        }
    }

    #[test]
    fn a_reference_does_not_mark() {
        let mark = mark(
            serde_json::json!([{"name": WITH_IMAGE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
        );
        assert_eq!(mark.with_image, None);
        assert_eq!(
            mark.problem,
            Some(MarkProblem::FromReference {
                variable: WITH_IMAGE
            })
        );
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
