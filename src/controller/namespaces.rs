//! Where the controller works: in all namespaces, or in some.

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource};

/// The namespaces that the controller works in; all of them where none is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespaces(BTreeSet<String>);

impl Namespaces {
    /// One access to the objects of a kind for each namespace, or one for all.
    #[must_use]
    pub fn apis<K>(&self, client: &Client) -> Vec<Api<K>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        if self.0.is_empty() {
            return vec![Api::all(client.clone())];
        }
        self.0.iter().map(|namespace| Api::namespaced(client.clone(), namespace)).collect()
    }

    /// Whether this is one of them.
    #[must_use]
    pub fn has(&self, namespace: &str) -> bool {
        self.0.is_empty() || self.0.contains(namespace)
    }
}

impl<N: Into<String>> FromIterator<N> for Namespaces {
    fn from_iter<I: IntoIterator<Item = N>>(names: I) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}

impl fmt::Display for Namespaces {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return out.write_str("all namespaces");
        }
        out.write_str(&self.0.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
    }
}
