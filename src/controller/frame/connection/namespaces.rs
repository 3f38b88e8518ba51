//! The namespaces that the controller works in: all of them, or some.

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::NamespaceResourceScope;
use kube::api::ApiResource;
use kube::core::DynamicResourceScope;
use kube::{Api, Client, Resource};

/// The namespaces that the controller works in; all of them where none is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespaces(BTreeSet<String>);

impl Namespaces {
    /// Returns one API of a kind for each namespace, or one for all.
    #[must_use]
    pub fn apis<K>(&self, client: &Client) -> Vec<Api<K>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        if self.0.is_empty() {
            return vec![Api::all(client.clone())];
        }
        self.0
            .iter()
            .map(|namespace| Api::namespaced(client.clone(), namespace))
            .collect()
    }

    /// Returns true if `namespace` is one of them.
    #[must_use]
    pub fn has(&self, namespace: &str) -> bool {
        self.0.is_empty() || self.0.contains(namespace)
    }
}

impl Namespaces {
    /// Like [`apis`](Self::apis), for a kind that is known only at run time.
    #[must_use]
    pub fn dynamic_apis<K>(&self, client: &Client, resource: &ApiResource) -> Vec<Api<K>>
    where
        K: Resource<Scope = DynamicResourceScope, DynamicType = ApiResource>,
    {
        if self.0.is_empty() {
            return vec![Api::all_with(client.clone(), resource)];
        }
        self.0
            .iter()
            .map(|namespace| Api::namespaced_with(client.clone(), namespace, resource))
            .collect()
    }

    /// Returns true if `namespace` is one of them.
    #[must_use]
    pub fn contain(&self, namespace: &str) -> bool {
        self.0.is_empty() || self.0.contains(namespace)
    }

    /// Returns their names; a single empty name means all namespaces.
    #[must_use]
    pub fn places(&self) -> Vec<Box<str>> {
        if self.0.is_empty() {
            return vec![Box::default()];
        }
        self.0.iter().map(|name| name.as_str().into()).collect()
    }

    /// Returns these namespaces and another one; all namespaces stay all.
    #[must_use]
    pub fn and(&self, namespace: &str) -> Self {
        if self.0.is_empty() {
            Self::default()
        } else {
            self.0
                .iter()
                .cloned()
                .chain([namespace.to_owned()])
                .collect()
        }
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
        out.write_str(
            &self
                .0
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(", "),
        )
    }
}
