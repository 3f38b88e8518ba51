//! A number of things, or a percentage of them, as fields like `maxUnavailable` have it.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// A number of pods or nodes, or a percentage of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A fixed number.
    Count(usize),
    /// A percentage.
    Percent(usize),
}

/// The rounding of a percentage, which differs from kind to kind in Kubernetes' own
/// `maxUnavailable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Rounds down, as for a `Deployment`.
    Down,
    /// Rounds up, as for a `StatefulSet` and a `DaemonSet`.
    Up,
}

impl Amount {
    /// Reads digits, with or without `%`; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let (digits, amount): (&str, fn(usize) -> Self) = match text.strip_suffix('%') {
            Some(digits) => (digits, Self::Percent),
            None => (text, Self::Count),
        };
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|_| is_number).map(amount)
    }

    /// Reads a field that holds an integer or a text; `None` for negative numbers and other texts.
    pub fn read(written: &IntOrString) -> Option<Self> {
        match written {
            IntOrString::Int(count) => usize::try_from(*count).ok().map(Self::Count),
            IntOrString::String(text) => Self::parse(text),
        }
    }

    /// Returns how many of `all` it is.
    pub const fn of(self, all: usize, rounding: Rounding) -> usize {
        match (self, rounding) {
            (Self::Count(count), _) => count,
            (Self::Percent(percent), Rounding::Down) => percent.saturating_mul(all) / 100,
            (Self::Percent(percent), Rounding::Up) => percent.saturating_mul(all).div_ceil(100),
        }
    }

    /// Returns true for none at all, however many there are.
    pub const fn is_none(self) -> bool {
        matches!(self, Self::Count(0) | Self::Percent(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_number_or_a_percentage_is_refused() {
        assert_eq!(Amount::parse("3"), Some(Amount::Count(3)));
        assert_eq!(Amount::parse("25%"), Some(Amount::Percent(25)));
        for text in [
            "",
            "%",
            "-1",
            "+1",
            "1.5",
            "1 %",
            "25%%",
            "99999999999999999999",
        ] {
            assert_eq!(Amount::parse(text), None, "{text}");
        }
        assert_eq!(Amount::read(&IntOrString::Int(-1)), None);
    }

    #[test]
    fn a_percentage_is_rounded_as_asked() {
        let of = |percent, all| {
            let amount = Amount::Percent(percent);
            (amount.of(all, Rounding::Down), amount.of(all, Rounding::Up))
        };
        let found = [of(0, 9), of(1, 9), of(50, 9), of(100, 9), of(10, 0)];
        assert_eq!(found, [(0, 0), (0, 1), (4, 5), (9, 9), (0, 0)]);
        assert_eq!(Amount::Count(7).of(3, Rounding::Up), 7);
    }
}
