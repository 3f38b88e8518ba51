//! The restart policy of pods and containers.

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
    pub(crate) fn read(text: Option<&str>) -> Self {
        match text {
            Some("Always") => Self::Always,
            Some("OnFailure") => Self::OnFailure,
            Some("Never") => Self::Never,
            _ => Self::Unknown(text.unwrap_or_default().into()),
        }
    }

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
