//! `$(NAME)` in a command and in the environment, as the kubelet expands it (`third_party/forked/golang/expansion` of Kubernetes).

use std::collections::BTreeMap;

use crate::objects::container_spec::{ContainerSpec, EnvValue};

/// What is known of a variable while nothing but the spec is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variable<'a> {
    /// This value.
    Known(&'a str),
    /// It is set, or may be set, to something that the spec does not show.
    Unknown,
    /// It is not set: a reference to it stays as it is written.
    Unset,
}

/// The environment of a container, as far as its spec shows it.
#[derive(Default)]
pub struct Environment<'a> {
    /// `None` where the value is not known.
    values: BTreeMap<&'a str, Option<String>>,
    /// Whether more variables may come by `envFrom`.
    open: bool,
}

impl<'a> Environment<'a> {
    /// In the order of the spec: a value sees the variables before it, and of two entries with one name the later one counts.
    #[must_use]
    pub fn of(container: &'a ContainerSpec) -> Self {
        let mut environment = Self { values: BTreeMap::new(), open: container.has_env_from };
        for entry in &container.env {
            let value = match &entry.value {
                EnvValue::Literal(text) => environment.expand(text),
                EnvValue::Reference { .. } => None,
            };
            environment.values.insert(&entry.name, value);
        }
        environment
    }

    /// What is known of a variable. One that is not in `env` may still come by `envFrom`, or from a Service.
    #[must_use]
    pub fn get(&self, name: &str) -> Variable<'_> {
        match self.values.get(name) {
            Some(Some(value)) => Variable::Known(value),
            Some(None) => Variable::Unknown,
            None if self.open || is_of_a_service(name) => Variable::Unknown,
            None => Variable::Unset,
        }
    }

    /// The PATH that the container sets itself. That `envFrom` brings one is not assumed: it would replace the image's in every container
    /// that uses it.
    #[must_use]
    pub fn search_path(&self) -> Variable<'_> {
        match self.values.get("PATH") {
            Some(Some(value)) => Variable::Known(value),
            Some(None) => Variable::Unknown,
            None => Variable::Unset,
        }
    }

    /// The text with its references replaced; `None` if one of them is not known.
    #[must_use]
    pub fn expand(&self, text: &str) -> Option<String> {
        expand(text, |name| self.get(name))
    }
}

/// The variables that the kubelet sets for each Service (`pkg/kubelet/envvars`).
fn is_of_a_service(name: &str) -> bool {
    ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT"].iter().any(|end| name.ends_with(end))
        || ["_SERVICE_PORT_", "_TCP", "_UDP", "_SCTP"].iter().any(|part| name.contains(part))
}

/// Replaces `$(NAME)` by its value and `$$` by `$`. A reference without a value, and a `$` before anything else, stay as they are.
pub fn expand<'a>(text: &str, lookup: impl Fn(&str) -> Variable<'a>) -> Option<String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        rest = if let Some(escaped) = after.strip_prefix('$') {
            expanded.push('$');
            escaped
        } else if let Some((name, behind)) = after.strip_prefix('(').and_then(|inside| inside.split_once(')')) {
            push_value(&mut expanded, name, lookup(name))?;
            behind
        } else {
            expanded.push('$');
            after
        };
    }
    expanded.push_str(rest);
    Some(expanded)
}

fn push_value(expanded: &mut String, name: &str, value: Variable<'_>) -> Option<()> {
    match value {
        Variable::Known(value) => expanded.push_str(value),
        Variable::Unset => expanded.extend(["$(", name, ")"]),
        Variable::Unknown => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Option<String> {
        expand(text, |name| match name {
            "A" => Variable::Known("a"),
            "B" => Variable::Known("$(A)"),
            "EMPTY" => Variable::Known(""),
            "U" => Variable::Unknown,
            _ => Variable::Unset,
        })
    }

    /// The cases of the kubelet's own test (`expand_test.go`), with the answers that it expects.
    #[test]
    fn as_the_kubelet_does() {
        for (text, expected) in [
            ("", ""),
            ("x", "x"),
            ("$(A)", "a"),
            ("/$(A)/$(A)", "/a/a"),
            ("$(B)", "$(A)"),
            ("$(EMPTY)", ""),
            ("$(MISSING)", "$(MISSING)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$a"),
            ("$$$$(A)", "$$(A)"),
            ("$A", "$A"),
            ("${A}", "${A}"),
            ("$(A", "$(A"),
            ("$", "$"),
            ("a$", "a$"),
            ("$()", "$()"),
            ("\\$(A)", "\\a"),
            ("$(A))", "a)"),
            ("$($(A))", "$($(A))"),
            ("$(A)$$", "a$"),
            ("$?", "$?"),
        ] {
            assert_eq!(expanded(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn one_unknown_reference_makes_the_whole_unknown() {
        assert_eq!(expanded("/bin/$(U)"), None);
        assert_eq!(expanded("/bin/$$(U)").as_deref(), Some("/bin/$(U)"));
    }

    #[test]
    fn variables_of_services_are_not_taken_for_unset() {
        for name in ["KUBERNETES_SERVICE_HOST", "DB_SERVICE_PORT_SQL", "DB_PORT", "DB_PORT_53_UDP_ADDR"] {
            assert!(is_of_a_service(name), "{name}");
        }
        assert!(!is_of_a_service("HOME"));
    }
}
