//! The label that distinguishes images of swaplet from all others, and from each other.

use strum::{Display, EnumString, IntoStaticStr};

use super::exit::Kind;

/// The label whose value is the [`Label`] of an image. A push reads it, so that no image of another
/// kind, and no foreign image, is overwritten.
pub const LABEL: &str = "io.swaplet.image";

/// The kinds of images that swaplet makes. Two kinds never share a reference: a container that was
/// to be parked would end, one that was to end would stay, or a controller would be gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Label {
    /// The exit image, which ends at once.
    Exit,
    /// The park image, which waits for SIGTERM.
    Park,
    /// The image of swaplet itself.
    Controller,
}

impl Label {
    /// Returns the value of the label [`LABEL`].
    pub fn value(self) -> &'static str {
        self.into()
    }
}

impl From<Kind> for Label {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Exit => Self::Exit,
            Kind::Park => Self::Park,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_back() {
        for label in [Label::Exit, Label::Park, Label::Controller] {
            assert_eq!(label.value().parse(), Ok(label));
        }
        assert!("Exit".parse::<Label>().is_err());
    }
}
