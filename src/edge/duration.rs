//! Times on the command line: `90s`, `5m`, `1h30m`, and a plain number for seconds.

use std::ops::RangeInclusive;
use std::time::Duration;

use swaplet_core::objects::values::go_duration;

/// The accepted form of a time.
const FORM: &str = "write a time such as 90s, 5m or 1h30m; a plain number is seconds";

/// Reads a time, for `value_parser`.
///
/// # Errors
/// Returns the accepted form of a time.
pub fn duration(text: &str) -> Result<Duration, String> {
    match text.parse::<u32>() {
        Ok(seconds) => Ok(Duration::from_secs(seconds.into())),
        Err(_) => go_duration::duration(text).ok_or_else(|| FORM.to_owned()),
    }
}

/// Returns a parser of whole seconds within these bounds, for `value_parser`.
///
/// # Errors
/// The parser returns the accepted form, or that the time is out of bounds.
pub fn seconds(
    bounds: RangeInclusive<u32>,
) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync + 'static {
    move |text| {
        let time = duration(text)?;
        let seconds = u32::try_from(time.as_secs())
            .ok()
            .filter(|_| time.subsec_nanos() == 0)
            .ok_or("give whole seconds")?;
        if bounds.contains(&seconds) {
            return Ok(seconds);
        }
        let (least, most) = bounds.clone().into_inner();
        Err(if most == u32::MAX {
            format!("{seconds} s is not at least {least} s")
        } else {
            format!("{seconds} s is not in {least}..={most}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_for_kubectl_or_as_seconds() {
        let read = seconds(5..=3600);
        for (text, expected) in [
            ("90s", 90),
            ("5m", 300),
            ("1h", 3600),
            ("1m30s", 90),
            ("7", 7),
        ] {
            assert_eq!(read(text), Ok(expected), "{text}");
        }
        for (text, words) in [
            ("4", "5..=3600"),
            ("2h", "5..=3600"),
            ("5500ms", "whole seconds"),
            ("soon", "90s, 5m"),
            ("", "90s, 5m"),
            ("-1", "90s, 5m"),
        ] {
            assert!(read(text).unwrap_err().contains(words), "{text}");
        }
        assert_eq!(duration("300ms"), Ok(Duration::from_millis(300)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
    }
}
