//! Rules about the end of a container, from a SidecarPolicy or an annotation of its pod.

use std::fmt;
use std::time::Duration;

/// The way in which a container that is no main container is ended, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SidecarRule {
    /// The origin of the rule.
    pub source: RuleSource,
    /// The method that ends the container.
    pub method: RuleMethod,
    /// The exit image that it requests; only an image that the administrator has listed is used.
    pub exit_image: Option<Box<str>>,
    /// The delay after the end of the main containers before which nothing is done.
    pub delay: Duration,
    /// The time after that delay in which it may end by itself.
    pub wait_for_exit: Duration,
    /// The order: lower numbers are ended first, equal numbers together.
    pub order: i32,
    /// True if the container counts as a main container once a main container has failed.
    pub main_must_succeed: bool,
}

/// The origin of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleSource {
    /// An annotation of the pod.
    Annotation,
    /// A rule of a policy.
    Policy(PolicyRule),
}

/// One of the rules of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRule {
    /// The namespace of a NamespacedSidecarPolicy; `None` for a SidecarPolicy.
    pub namespace: Option<Box<str>>,
    /// The name of the policy.
    pub name: Box<str>,
    /// Its position in `spec.sidecars`, from 0 on.
    pub nth: usize,
    /// The preset that it names, if any.
    pub preset: Option<Box<str>>,
}

/// `method` of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleMethod {
    /// The methods of the node's class, as for a container that is marked by its environment.
    #[default]
    Auto,
    /// The image is swapped; the phase of the pod is not written for it.
    Swap,
    /// The phase of the pod is written, after all others have ended.
    Finish,
    /// It is neither ended nor waited for.
    Leave,
}

impl RuleMethod {
    /// Reads the value as the API spells it; `None` if it is unknown.
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        match word {
            "Auto" => Some(Self::Auto),
            "Swap" => Some(Self::Swap),
            "Finish" => Some(Self::Finish),
            "Leave" => Some(Self::Leave),
            _ => None,
        }
    }

    /// Returns the value as the API spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "Auto",
            Self::Swap => "Swap",
            Self::Finish => "Finish",
            Self::Leave => "Leave",
        }
    }
}

impl SidecarRule {
    /// Returns the rule that changes nothing about how a sidecar is ended.
    #[must_use]
    pub const fn of(source: RuleSource) -> Self {
        Self {
            source,
            method: RuleMethod::Auto,
            exit_image: None,
            delay: Duration::ZERO,
            wait_for_exit: Duration::ZERO,
            order: 0,
            main_must_succeed: false,
        }
    }

    /// Returns how long after the end of the main containers its container is ended.
    #[must_use]
    pub const fn after(&self) -> Duration {
        self.delay.saturating_add(self.wait_for_exit)
    }

    /// Returns the policy rule that it comes from; `None` for an annotation.
    #[must_use]
    pub const fn policy(&self) -> Option<&PolicyRule> {
        match &self.source {
            RuleSource::Policy(policy) => Some(policy),
            RuleSource::Annotation => None,
        }
    }
}

/// Formats the origin, and the settings that are not the default.
impl fmt::Display for SidecarRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(out)?;
        if self.method != RuleMethod::Auto {
            write!(out, ", method {}", self.method.as_str())?;
        }
        if self.order != 0 {
            write!(out, ", order {}", self.order)?;
        }
        if !self.delay.is_zero() {
            write!(out, ", delay {} s", self.delay.as_secs())?;
        }
        if !self.wait_for_exit.is_zero() {
            let seconds = self.wait_for_exit.as_secs();
            write!(out, ", may end by itself for {seconds} s")?;
        }
        if self.main_must_succeed {
            out.write_str(", if every main container succeeds")?;
        }
        Ok(())
    }
}

impl fmt::Display for RuleSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Annotation => out.write_str("annotations of the pod"),
            Self::Policy(policy) => policy.fmt(out),
        }
    }
}

impl fmt::Display for PolicyRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            namespace,
            name,
            nth,
            preset,
        } = self;
        match namespace {
            Some(namespace) => write!(out, "NamespacedSidecarPolicy {namespace}/{name}")?,
            None => write!(out, "SidecarPolicy {name}")?,
        }
        write!(out, ", sidecars[{nth}]")?;
        preset
            .iter()
            .try_for_each(|preset| write!(out, " (preset {preset})"))
    }
}
