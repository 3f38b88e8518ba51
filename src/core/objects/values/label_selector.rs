//! Label selectors: as text, in the syntax of `kubectl -l` and the API server, or as a field of an
//! object.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_core::{Expression, Selector};
use serde::Deserialize as _;
use serde_json::Value;

use super::bounds::cut;

/// Reads a selector such as `app=web,tier in (a, b),!old`; the empty one selects everything.
///
/// # Errors
/// The problem, in the words of the API server.
pub fn parse(text: &str) -> Result<Selector, String> {
    split_terms(text).into_iter().map(expression).collect()
}

/// Reads a selector that is a field of an object, with at most `most` labels and values; an absent
/// one selects everything.
///
/// # Errors
/// The problem with it.
pub(crate) fn read(written: &Value, most: usize) -> Result<Selector, String> {
    if written.is_null() {
        return Ok(Selector::default());
    }
    let labels = LabelSelector::deserialize(written)
        .map_err(|error| format!("it is not a label selector: {error}"))?;
    let values = labels
        .match_expressions
        .iter()
        .flatten()
        .map(|requirement| 1 + requirement.values.as_ref().map_or(0, Vec::len));
    let size = values.sum::<usize>() + labels.match_labels.as_ref().map_or(0, |map| map.len());
    if size > most {
        return Err(format!(
            "it has {size} labels and values: write at most {most}"
        ));
    }
    check(&labels)?;
    Selector::try_from(labels).map_err(|error| format!("it is not a label selector: {error}"))
}

/// Checks the keys and values of a selector, which no schema of a CRD restricts, and for which the
/// API server answers a list with 400.
///
/// # Errors
/// The first one that is wrong, and what is right.
pub(crate) fn check(labels: &LabelSelector) -> Result<(), String> {
    let pairs = labels.match_labels.iter().flatten();
    for (key, value) in pairs {
        check_label(key, [&**value])?;
    }
    for one in labels.match_expressions.iter().flatten() {
        check_label(&one.key, one.values.iter().flatten().map(|value| &**value))?;
    }
    Ok(())
}

/// Checks a key with its values.
///
/// # Errors
/// What is wrong with them, and what is right.
pub(crate) fn check_label<'a>(
    key: &str,
    values: impl IntoIterator<Item = &'a str>,
) -> Result<(), String> {
    let shown = |text: &str| cut(text, SHOWN);
    if !is_label_key(key) {
        return Err(format!(
            "{:?} is not a label key: write one like app or example.com/app",
            shown(key)
        ));
    }
    match values.into_iter().find(|value| !is_label_value(value)) {
        Some(value) => Err(format!(
            "{:?} is not a label value: write at most {NAME} letters and digits, with - _ . between them",
            shown(value)
        )),
        None => Ok(()),
    }
}

/// Splits at the commas that are not inside parentheses.
fn split_terms(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let terms = text.split(move |sign| {
        depth += i32::from(sign == '(') - i32::from(sign == ')');
        sign == ',' && depth == 0
    });
    terms
        .map(str::trim)
        .filter(|term| !term.is_empty())
        .collect()
}

fn expression(term: &str) -> Result<Expression, String> {
    if let Some(sign) = term.chars().next().filter(|sign| "=<>()".contains(*sign)) {
        return Err(format!(
            "found '{sign}', expected: !, identifier, or 'end of string'"
        ));
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
    let of: fn(String, BTreeSet<String>) -> Expression = match operator.trim() {
        "in" => Expression::In,
        "notin" => Expression::NotIn,
        other => {
            return Err(unparsable(&format!(
                "found '{other}', expected: in, notin, =, ==, !=, gt, lt"
            )));
        }
    };
    if !set.contains('(') {
        return Err(unparsable("found '', expected: '('"));
    }
    let Some(values) = values.strip_suffix(')') else {
        return Err(unparsable("found '', expected: ',' or ')'"));
    };
    let values = values.split(',').map(|value| value.trim().to_owned());
    Ok(of(key, values.collect()))
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

/// The longest name of a label and the longest value.
const NAME: usize = 63;
/// The bytes of a key or value that are shown to recognise it.
const SHOWN: usize = 64;
/// The longest DNS subdomain.
const SUBDOMAIN: usize = 253;

/// Returns true if the API server accepts this as the key of a label: a name, perhaps after a
/// lower-case domain and a slash.
pub fn is_label_key(key: &str) -> bool {
    let (domain, name) = key
        .split_once('/')
        .map_or((None, key), |(domain, name)| (Some(domain), name));
    domain.is_none_or(is_subdomain) && !name.is_empty() && is_label_value(name)
}

/// Returns true for a DNS-1123 subdomain, as the names of most objects have to be
/// (`apimachinery/pkg/util/validation`).
pub(crate) fn is_subdomain(name: &str) -> bool {
    let is_part = |part: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !part.is_empty()
            && part.bytes().all(inner)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    name.len() <= SUBDOMAIN && name.split('.').all(is_part)
}

/// Returns true if the API server accepts this as the value of a label.
pub fn is_label_value(value: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_end = |byte: Option<u8>| byte.is_none_or(|byte| byte.is_ascii_alphanumeric());
    value.len() <= NAME
        && value.bytes().all(is_inner)
        && is_end(value.bytes().next())
        && is_end(value.bytes().last())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube_core::SelectorExt as _;

    use super::*;

    fn selects(selector: &str) -> bool {
        let labels: BTreeMap<_, _> = [("app", "x"), ("tier", "a")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        parse(selector).unwrap().matches(&labels)
    }

    #[test]
    fn labels_by_equality_and_by_sets() {
        for yes in [
            "app=x",
            "app==x",
            "app!=y",
            "no!=y",
            "app in (x, y),tier",
            "no notin (z)",
            "!no",
            "",
        ] {
            assert!(selects(yes), "{yes}");
        }
        for no in [
            "app=y",
            "app!=x",
            "!app",
            "app notin (x,y)",
            "no",
            "no in (x)",
            "app=x,tier=b",
        ] {
            assert!(!selects(no), "{no}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_in_the_words_of_the_real_server() {
        let error = |text| parse(text).unwrap_err();
        assert_eq!(
            error("a b"),
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"
        );
        assert_eq!(
            error("=a"),
            "found '=', expected: !, identifier, or 'end of string'"
        );
        assert_eq!(
            error("a$"),
            "unable to parse requirement: found 'a$', expected: identifier"
        );
    }

    #[test]
    fn d3_keys_and_values_of_labels_are_known_as_the_api_server_knows_them() {
        for yes in [
            "app",
            "a.b_c-D",
            "example.com/app",
            "x-1.io/A",
            &"a".repeat(63),
        ] {
            assert!(is_label_key(yes), "{yes}");
        }
        for no in [
            "",
            "a b!!",
            "-a",
            "a-",
            "a/",
            "/a",
            "A.com/a",
            "a/b/c",
            "a..b/c",
            "-a/b",
            "a=b",
            "a,b",
            "\u{e4}",
            &"a".repeat(64),
        ] {
            assert!(!is_label_key(no), "{no}");
        }
        for (value, is_one) in [
            ("", true),
            ("v1.2_x-Y", true),
            ("a,b) ", false),
            ("-", false),
            ("a b", false),
        ] {
            assert_eq!(is_label_value(value), is_one, "{value}");
        }
    }
}
