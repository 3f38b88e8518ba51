//! Objects that belong to no namespace: they count for other cases too.

use std::process::Command;

/// An object of the cluster with its binding, if it has one. It goes with this, also where its case
/// fails.
pub struct OfCluster {
    kinds: &'static [&'static str],
    name: String,
}

impl OfCluster {
    /// Of these kinds, in the order in which they go.
    pub fn new(kinds: &'static [&'static str], name: &str) -> Self {
        Self {
            kinds,
            name: name.to_owned(),
        }
    }
}

impl Drop for OfCluster {
    fn drop(&mut self) {
        for kind in self.kinds {
            let delete = ["delete", kind, &self.name, "--ignore-not-found"];
            let status = Command::new("kubectl").args(delete).status();
            println!("kubectl {delete:?}: {status:?}");
        }
    }
}
