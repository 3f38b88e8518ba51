//! What of the troubles of watches has been told: one that is met again with every try, or by all
//! watches at once, is told once.

use std::collections::HashSet;

use crate::frame::connection::UNREACHABLE;
use crate::frame::writer::is_missing_right;

/// What has been told.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Missing rights, with what each is needed for.
    rights: HashSet<String>,
    /// Why the API server was not reached, since it was last reached.
    unreachable: Option<String>,
}

/// What there is to tell, and of what.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) error: &'a str,
    pub(super) what: &'a str,
}

impl Told {
    /// A trouble that kept from doing something; nothing where all of it has been told.
    pub(super) fn news<'a>(&mut self, error: &'a str, what: &'a str) -> Option<Line<'a>> {
        if let Some(at) = error.find(UNREACHABLE) {
            let error = &error[at..];
            let known = self.unreachable.as_deref() == Some(error);
            self.unreachable = Some(error.to_owned());
            let what = "nothing can be seen or done; trying again";
            return (!known).then_some(Line { error, what });
        }
        let is_new = !is_missing_right(error) || self.rights.insert(format!("{what}: {error}"));
        is_new.then_some(Line { error, what })
    }

    /// The API server has answered.
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
        let mut told = Told::default();
        let first = told.news(LIST, "cannot watch pods").unwrap();
        assert_eq!(first.error, "cannot connect to the API server a:1: no way");
        assert_eq!(told.news(ASK, "cannot watch nodes"), None);
        assert_eq!(told.news(LIST, "cannot watch pods"), None);
        let another = LIST.replace("no way", "refused");
        assert!(told.news(&another, "cannot watch pods").is_some());
        told.reached();
        assert!(told.news(&another, "cannot watch pods").is_some());
    }

    #[test]
    fn a_missing_right_is_told_once_for_each_thing_and_other_troubles_always() {
        const RIGHT: &str = "pods is forbidden: User \"u\" cannot list resource";
        let mut told = Told::default();
        for (error, what, is_news) in [
            (RIGHT, "pods", true),
            (RIGHT, "pods", false),
            (RIGHT, "jobs", true),
            ("no answer", "pods", true),
            ("no answer", "pods", true),
        ] {
            assert_eq!(told.news(error, what).is_some(), is_news, "{error} {what}");
        }
    }
}
