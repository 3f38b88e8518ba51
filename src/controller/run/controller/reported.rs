//! The troubles of watches that were logged: one that recurs with every try, or on all watches at
//! once, is logged once.

use std::collections::HashSet;

use crate::frame::connection::UNREACHABLE;
use crate::frame::writer::is_missing_right;

/// The most missing rights that are remembered. A denial names its object, and tenants create
/// objects with ever new names.
const MOST_RIGHTS: usize = 1024;

/// The troubles that were logged.
#[derive(Debug, Default)]
pub(super) struct Reported {
    /// Missing rights, with what each is needed for.
    rights: HashSet<String>,
    /// The error that the API server cannot be reached; `None` once it has answered.
    unreachable: Option<String>,
}

/// A line to log: the error, and what fails because of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) error: &'a str,
    pub(super) what: &'a str,
}

impl Reported {
    /// Returns the line to log for a trouble, or `None` if it was logged before.
    pub(super) fn news<'a>(&mut self, error: &'a str, what: &'a str) -> Option<Line<'a>> {
        if let Some(at) = error.find(UNREACHABLE) {
            let error = &error[at..];
            let known = self.unreachable.as_deref() == Some(error);
            self.unreachable = Some(error.to_owned());
            let what = "nothing can be observed or done; trying again";
            return (!known).then_some(Line { error, what });
        }
        if self.rights.len() >= MOST_RIGHTS {
            self.rights.clear();
        }
        let is_new = !is_missing_right(error) || self.rights.insert(format!("{what}: {error}"));
        is_new.then_some(Line { error, what })
    }

    /// Records that the API server has answered.
    pub(super) fn reached(&mut self) {
        self.unreachable = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "list: ServiceError: cannot connect to the API server a:1: no way";
    const ASK: &str = "cannot ask: cannot connect to the API server a:1: no way";

    #[test]
    fn a13_what_keeps_from_the_api_server_is_told_once_for_all_until_it_answers() {
        let mut reported = Reported::default();
        let first = reported.news(LIST, "cannot watch pods").unwrap();
        assert_eq!(first.error, "cannot connect to the API server a:1: no way");
        assert_eq!(reported.news(ASK, "cannot watch nodes"), None);
        assert_eq!(reported.news(LIST, "cannot watch pods"), None);
        let another = LIST.replace("no way", "refused");
        assert!(reported.news(&another, "cannot watch pods").is_some());
        reported.reached();
        assert!(reported.news(&another, "cannot watch pods").is_some());
    }

    #[test]
    fn a_missing_right_is_told_once_for_each_thing_and_other_troubles_always() {
        const RIGHT: &str = "pods is forbidden: User \"u\" cannot list resource";
        let mut reported = Reported::default();
        for (error, what, is_news) in [
            (RIGHT, "pods", true),
            (RIGHT, "pods", false),
            (RIGHT, "jobs", true),
            ("no answer", "pods", true),
            ("no answer", "pods", true),
        ] {
            assert_eq!(
                reported.news(error, what).is_some(),
                is_news,
                "{error} {what}"
            );
        }
    }

    #[test]
    fn missing_rights_that_name_ever_new_objects_take_bounded_memory() {
        let mut reported = Reported::default();
        for number in 0..3 * MOST_RIGHTS {
            let right = format!("pods \"p{number}\" is forbidden: User \"u\" cannot patch");
            assert!(reported.news(&right, "pods").is_some());
        }
        assert!(reported.rights.len() <= MOST_RIGHTS);
    }
}
