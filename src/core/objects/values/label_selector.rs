//! A label selector as text, as `kubectl -l` takes it and the API server reads it.

use std::collections::BTreeSet;

use kube_core::{Expression, Selector};

/// Reads a selector such as `app=web,tier in (a, b),!old`; the empty one selects everything.
///
/// # Errors
/// What is wrong with it, in the words of the API server.
pub fn parse(text: &str) -> Result<Selector, String> {
    split_terms(text).into_iter().map(expression).collect()
}

/// Splits at the commas that are not inside parentheses.
fn split_terms(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let terms = text.split(move |sign| {
        depth += i32::from(sign == '(') - i32::from(sign == ')');
        sign == ',' && depth == 0
    });
    terms.map(str::trim).filter(|term| !term.is_empty()).collect()
}

fn expression(term: &str) -> Result<Expression, String> {
    if let Some(sign) = term.chars().next().filter(|sign| "=<>()".contains(*sign)) {
        return Err(format!("found '{sign}', expected: !, identifier, or 'end of string'"));
    }
    if let Some((key, value)) = term.split_once("!=") {
        return Ok(Expression::NotEqual(name(key)?, value.trim().to_owned()));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Ok(Expression::Equal(name(key)?, value.trim().to_owned()));
    }
    if let Some(key) = term.strip_prefix('!') {
        return Ok(Expression::DoesNotExist(name(key)?));
    }
    match term.split_once(char::is_whitespace) {
        Some((key, set)) => one_of(name(key)?, set.trim()),
        None => Ok(Expression::Exists(name(term)?)),
    }
}

fn one_of(key: String, set: &str) -> Result<Expression, String> {
    let (operator, values) = set.split_once('(').unwrap_or((set, ""));
    let values: BTreeSet<String> = values.trim_end_matches(')').split(',').map(|value| value.trim().to_owned()).collect();
    match operator.trim() {
        "in" => Ok(Expression::In(key, values)),
        "notin" => Ok(Expression::NotIn(key, values)),
        other => Err(unparsable(&format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt"))),
    }
}

fn name(key: &str) -> Result<String, String> {
    let key = key.trim();
    let legal = |sign: char| sign.is_ascii_alphanumeric() || "-_./".contains(sign);
    if key.is_empty() || !key.chars().all(legal) {
        return Err(unparsable(&format!("found '{key}', expected: identifier")));
    }
    Ok(key.to_owned())
}

fn unparsable(why: &str) -> String {
    format!("unable to parse requirement: {why}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube_core::SelectorExt as _;

    use super::*;

    fn selects(selector: &str) -> bool {
        let labels: BTreeMap<_, _> = [("app", "x"), ("tier", "a")].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        parse(selector).unwrap().matches(&labels)
    }

    #[test]
    fn labels_by_equality_and_by_sets() {
        for yes in ["app=x", "app==x", "app!=y", "no!=y", "app in (x, y),tier", "no notin (z)", "!no", ""] {
            assert!(selects(yes), "{yes}");
        }
        for no in ["app=y", "app!=x", "!app", "app notin (x,y)", "no", "no in (x)", "app=x,tier=b"] {
            assert!(!selects(no), "{no}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_in_the_words_of_the_real_server() {
        let error = |text| parse(text).unwrap_err();
        assert_eq!(error("a b"), "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt");
        assert_eq!(error("=a"), "found '=', expected: !, identifier, or 'end of string'");
        assert_eq!(error("a$"), "unable to parse requirement: found 'a$', expected: identifier");
    }
}
