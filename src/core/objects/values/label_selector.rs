//! Label selectors: as text, in the syntax of `kubectl -l` and the API server, or as a field of an
//! object.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_core::{Expression, Selector};
use serde::Deserialize as _;
use serde_json::Value;

use super::bounds::{self, cut};

/// Reads a selector such as `app=web,tier in (a, b),!old`; the empty one selects everything.
///
/// # Errors
/// The problem, in the words of the API server.
pub fn parse(text: &str) -> Result<Selector, String> {
    if text.trim().is_empty() {
        return Ok(Selector::default());
    }
    split_terms(text).map(expression).collect()
}

/// Reads a selector that is a field of an object; an absent one selects everything.
///
/// # Errors
/// Like [`bounded`].
pub(crate) fn read(written: &Value, members: usize) -> Result<Selector, String> {
    if written.is_null() {
        return Ok(Selector::default());
    }
    let labels = LabelSelector::deserialize(written).map_err(not_one)?;
    bounded(labels, members, bounds::RECORD)
}

/// Reads a selector with at most this many labels and expressions, each of which is compared with
/// many objects, and this many bytes as text. No schema of a CRD restricts its keys and values, and
/// for wrong ones the API server answers a list with 400.
///
/// # Errors
/// The first problem with it, and what is right.
pub(crate) fn bounded(
    labels: LabelSelector,
    members: usize,
    bytes: usize,
) -> Result<Selector, String> {
    let expressions = labels.match_expressions.as_deref().unwrap_or_default();
    let count = labels.match_labels.as_ref().map_or(0, BTreeMap::len) + expressions.len();
    if count > members {
        return Err(format!(
            "it has {count} labels and expressions: write at most {members}"
        ));
    }
    for (key, value) in labels.match_labels.iter().flatten() {
        check_label(key, [&**value])?;
    }
    for one in expressions {
        check_label(&one.key, one.values.iter().flatten().map(|value| &**value))?;
    }
    let selector = Selector::try_from(labels).map_err(not_one)?;
    match selector.to_string().len() {
        found if found > bytes => Err(format!("it has {found} bytes: write at most {bytes}")),
        _ => Ok(selector),
    }
}

pub(crate) fn not_one(error: impl Display) -> String {
    format!("it is not a label selector: {error}")
}

/// Checks a key with its values.
///
/// # Errors
/// What is wrong with them, and what is right.
fn check_label<'a>(key: &str, values: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
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
fn split_terms(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    let terms = text.split(move |sign| {
        depth += i32::from(sign == '(') - i32::from(sign == ')');
        sign == ',' && depth == 0
    });
    terms.map(str::trim)
}

fn expression(term: &str) -> Result<Expression, String> {
    if term.is_empty() {
        return Err("found ',', expected: identifier after ','".to_owned());
    }
    if let Some(sign) = term.chars().next().filter(|sign| "=<>()".contains(*sign)) {
        return Err(format!(
            "found '{sign}', expected: !, identifier, or 'end of string'"
        ));
    }
    if let Some((key, value)) = term.split_once("!=") {
        return Ok(Expression::NotEqual(name(key)?, of_label(key, value)?));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Ok(Expression::Equal(name(key)?, of_label(key, value)?));
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
    let values = values.split(',').map(|value| of_label(&key, value));
    let values = values.collect::<Result<_, _>>()?;
    Ok(of(key, values))
}

fn of_label(key: &str, value: &str) -> Result<String, String> {
    let value = value.trim();
    check_label(key.trim(), [value]).map(|()| value.to_owned())
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
        for text in ["a,,b", "a,", ",a", ","] {
            assert!(
                error(text).contains("expected: identifier after ','"),
                "{text}"
            );
        }
        for text in [
            "a=b=c",
            "a==b=c",
            "a!=b=c",
            "a=x y",
            "a in (x y)",
            "a=(b)",
            "a=!b",
        ] {
            assert!(error(text).contains("is not a label value"), "{text}");
        }
        assert!(parse("a=,b in (c,)").is_ok(), "a value may be empty");
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
