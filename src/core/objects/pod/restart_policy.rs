//! When the kubelet starts a container again.

/// `restartPolicy` of a pod or of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    /// Every end is followed by a restart.
    Always,
    /// Only an exit code other than 0 is.
    OnFailure,
    /// No end is.
    Never,
    /// A value that this version does not know, or none: nothing is assumed about it.
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

    /// The word of the API.
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
