//! The limit of unavailable pods.

use std::str::FromStr;

/// A number of pods, or a percentage of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A fixed number of pods.
    Count(usize),
    /// A percentage of the pods.
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

impl Limit {
    /// Returns the limit for this number of pods. At least one, as in Kubernetes: with none nothing
    /// would ever happen (`pkg/controller/deployment/util`, `ResolveFenceposts`).
    #[must_use]
    pub const fn of(self, pods: usize, rounding: Rounding) -> usize {
        let count = match (self, rounding) {
            (Self::Count(count), _) => count,
            (Self::Percent(percent), Rounding::Down) => percent.saturating_mul(pods) / 100,
            (Self::Percent(percent), Rounding::Up) => percent.saturating_mul(pods).div_ceil(100),
        };
        if count == 0 { 1 } else { count }
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let problem = || {
            format!(
                "\"{text}\" is neither a number of pods, such as 1, nor a percentage, such as 25%"
            )
        };
        let (number, limit): (&str, fn(usize) -> Self) = match text.strip_suffix('%') {
            Some(number) => (number, Self::Percent),
            None => (text, Self::Count),
        };
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let number = number
            .parse()
            .ok()
            .filter(|_| is_number)
            .ok_or_else(problem)?;
        match limit(number) {
            Self::Count(0) | Self::Percent(0) => Err(format!(
                "with {text} no pod could ever be restarted; write at least 1"
            )),
            Self::Percent(101..) => Err(format!("{text} is more than all pods")),
            limit => Ok(limit),
        }
    }
}
