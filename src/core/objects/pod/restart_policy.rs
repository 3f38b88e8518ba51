//! The restart policy of pods and containers.

use crate::objects::values::lenient::Shape;

/// `restartPolicy` of a pod or of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    /// The kubelet restarts the container after every end.
    Always,
    /// The kubelet restarts it after exit codes other than 0.
    OnFailure,
    /// The kubelet does not restart it.
    Never,
    /// A value that this version does not know, or none (empty): nothing is assumed about it.
    Unknown(Box<str>),
}

impl RestartPolicy {
    /// Returns the value as the API spells it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Always => "Always",
            Self::OnFailure => "OnFailure",
            Self::Never => "Never",
            Self::Unknown(word) => word,
        }
    }
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self::Unknown(Box::default())
    }
}

impl Shape for Option<RestartPolicy> {
    fn from_text(text: &str, most: usize) -> Option<Self> {
        let policy = match text {
            "Always" => RestartPolicy::Always,
            "OnFailure" => RestartPolicy::OnFailure,
            "Never" => RestartPolicy::Never,
            _ if text.len() > most => return None,
            _ => RestartPolicy::Unknown(text.into()),
        };
        Some(Some(policy))
    }
}
