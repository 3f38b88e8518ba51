//! What a command could not read, and what it goes on with.

use super::list::{is_unparsed, words};

/// Remarks for people: all that their rights do not allow to read is one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remarks {
    lines: Vec<String>,
    forbidden: Vec<String>,
}

impl Remarks {
    /// Adds a line, once.
    pub fn push(&mut self, line: impl Into<String>) {
        let line = line.into();
        if !self.lines.contains(&line) {
            self.lines.push(line);
        }
    }

    /// Records that `what` cannot be read, and the consequence; where rights are missing, all have
    /// the same one.
    pub fn unread(&mut self, what: &str, error: &kube::Error, so: &str) {
        if is_forbidden(error) {
            self.forbidden.push(what.to_owned());
        } else {
            self.push(format!("{what} cannot be read ({}): {so}", words(error)));
        }
    }

    /// Adds the remarks of another one.
    pub fn extend(&mut self, other: &Self) {
        self.lines.extend(other.lines.iter().cloned());
        self.forbidden.extend(other.forbidden.iter().cloned());
    }

    /// Returns the lines.
    pub fn lines(&self) -> Vec<String> {
        let forbidden = (!self.forbidden.is_empty()).then(|| {
            format!(
                "your rights do not allow to read {}: a controller with these rights may decide otherwise; pass its flags, or ask for the rights (docs/rights.md)",
                self.forbidden.join(", ")
            )
        });
        self.lines.iter().cloned().chain(forbidden).collect()
    }
}

/// Returns true if the API server says that the user lacks the right, as it always does by a
/// `Status`; a proxy does not.
pub fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403 && !is_unparsed(status))
}

#[cfg(test)]
mod tests {
    use super::Remarks;

    #[test]
    fn a_line_is_told_once() {
        let mut remarks = Remarks::default();
        ["a", "b", "a"]
            .into_iter()
            .for_each(|line| remarks.push(line));
        assert_eq!(remarks.lines(), ["a", "b"]);
    }
}
