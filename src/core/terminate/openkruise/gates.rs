//! The feature gates of OpenKruise's manager, as its command line sets them.

/// Returns true if a manager with these flags handles no job that pulls images.
pub(super) fn pull_jobs_are_off(command_line: &[String]) -> bool {
    let gate = |wanted: &str| {
        feature_gates(command_line)
            .filter(|(name, _)| *name == wanted)
            .last()
            .map(|(_, on)| on)
    };
    // A gate of pre-downloads switches that of the jobs on (OpenKruise:
    // `features.SetDefaultFeatureGates`).
    let pre_downloads = [
        "PreDownloadImageForInPlaceUpdate",
        "PreDownloadImageForDaemonSetUpdate",
    ]
    .map(|name| gate(name).or_else(|| gate("AllAlpha")));
    gate("KruiseDaemon").or_else(|| gate("AllBeta")) == Some(false)
        || gate("ImagePullJobGate") == Some(false) && !pre_downloads.contains(&Some(true))
}

/// Returns true if these flags of the manager turn the feature gate `SidecarTerminator` on. It is
/// off by default; `AllAlpha` counts where the gate itself is not named; without `KruiseDaemon` it
/// is forced off (OpenKruise: `features.SetDefaultFeatureGates`).
#[must_use]
pub fn gate_is_on(command_line: &[String]) -> bool {
    let gate = |wanted: &str| {
        feature_gates(command_line)
            .filter(|(name, _)| *name == wanted)
            .last()
            .map(|(_, on)| on)
    };
    let daemon = gate("KruiseDaemon")
        .or_else(|| gate("AllBeta"))
        .unwrap_or(true);
    daemon
        && gate("SidecarTerminator")
            .or_else(|| gate("AllAlpha"))
            .unwrap_or(false)
}

/// Returns each `name=value` of `--feature-gates=...` or `--feature-gates ...`.
fn feature_gates(command_line: &[String]) -> impl Iterator<Item = (&str, bool)> {
    let after_flag = command_line
        .windows(2)
        .filter(|pair| is_flag(&pair[0]))
        .map(|pair| &*pair[1]);
    let in_flag = command_line
        .iter()
        .filter_map(|word| word.split_once('='))
        .filter(|(name, _)| is_flag(name))
        .map(|(_, value)| value);
    let gates = in_flag.chain(after_flag).flat_map(|gates| gates.split(','));
    gates
        .filter_map(|gate| gate.split_once('='))
        .map(|(name, value)| (name.trim(), is_true(value.trim())))
}

fn is_flag(word: &str) -> bool {
    word.trim_start_matches('-') == "feature-gates" && word.starts_with('-')
}

/// Reads a boolean like Go's `strconv.ParseBool`; anything else is false.
fn is_true(value: &str) -> bool {
    matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True")
}
