//! The requested rules: explicit flags take precedence, and all others come from the installation.

use std::collections::BTreeMap;

use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches};
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::frame::remarks::Remarks;
use swaplet_core::cluster::exit_images::public::Public;

use super::{ASSUMED_EXIT_IMAGE, RulesArgs};
use crate::cli::status::installation::{Found, Installation};
use crate::image::pattern::ImagePattern;
use crate::image::reference::ImageReference;

/// A flag that belongs to the image of `--exit-image`, whichever side sets that.
const OF_EXIT_IMAGE: &str = "exit-image-paths";

/// The flags of [`RulesArgs`] that were set explicitly, with their values.
#[derive(Debug)]
pub(in crate::cli) struct AskedRules(BTreeMap<String, Vec<String>>);

impl Args for AskedRules {
    fn augment_args(command: Command) -> Command {
        RulesArgs::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        RulesArgs::augment_args_for_update(command)
    }
}

impl FromArgMatches for AskedRules {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut said = BTreeMap::new();
        for flag in RulesArgs::augment_args(Command::new("rules")).get_arguments() {
            let id = flag.get_id().as_str();
            let by_hand = matches!(
                matches.value_source(id),
                Some(ValueSource::CommandLine | ValueSource::EnvVariable)
            );
            if let (true, Some(long), Some(raw)) = (by_hand, flag.get_long(), matches.get_raw(id)) {
                let raw = raw.map(|raw| raw.to_string_lossy().into_owned());
                said.insert(long.to_owned(), raw.collect());
            }
        }
        Ok(Self(said))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl AskedRules {
    /// Returns true if an exit image is set explicitly.
    pub(in crate::cli) fn names_exit_image(&self) -> bool {
        self.0.contains_key("exit-image")
    }

    /// Returns all flags together, and where they come from. An exit image of the installation
    /// stays one if another is set explicitly, because its controller writes it.
    ///
    /// # Errors
    /// The flags contradict each other.
    pub(in crate::cli) fn with(&self, found: &Found) -> anyhow::Result<(RulesArgs, Remarks)> {
        let mut remarks = found.remarks.clone();
        let command = RulesArgs::augment_args(Command::new("rules"))
            .mut_args(|flag| flag.env(Resettable::Reset));
        let (mut line, mut taken) = (vec!["rules".to_owned()], Vec::new());
        for flag in command.get_arguments() {
            let Some(long) = flag.get_long() else {
                continue;
            };
            let mine = self.0.get(long).map(Vec::as_slice);
            let theirs = found.flags().filter(|_| self.takes(long));
            let theirs = theirs.map(|flags| flags.said(long)).unwrap_or_default();
            let words = written(long, flag.get_action(), mine.unwrap_or(theirs));
            if mine.is_none() {
                taken.extend(words.iter().cloned());
            }
            line.extend(words);
        }
        let mut rules = RulesArgs::from_arg_matches(&command.try_get_matches_from(line)?)?;
        if !self.0.contains_key("node-classes") {
            rules.nodes.text = found.flags().and_then(|flags| flags.node_classes.clone());
        }
        if self.names_exit_image() {
            let theirs = found.flags().map(|flags| flags.said("exit-image"));
            for image in theirs.unwrap_or_default() {
                rules.exit_images.push(ImagePattern::parse(image)?);
            }
        }
        if let Some(installation) = found.installation.as_ref().filter(|_| !taken.is_empty()) {
            remarks.push(format!(
                "flags of Deployment {}: {}",
                installation.place(),
                taken.join(" ")
            ));
        }
        Ok((rules, remarks))
    }

    fn takes(&self, flag: &str) -> bool {
        !(self.names_exit_image() && flag == OF_EXIT_IMAGE)
    }
}

fn written(long: &str, action: &ArgAction, values: &[String]) -> Vec<String> {
    let one = |value: &String| match action {
        ArgAction::SetTrue => (value == "true").then(|| format!("--{long}")),
        _ => Some(format!("--{long}={value}")),
    };
    values.iter().filter_map(one).collect()
}

impl RulesArgs {
    /// Returns the rules of an installation; if it or its flags are unknown, those of a new one.
    pub(in crate::cli) fn of_installation(
        installation: Option<&Installation>,
    ) -> anyhow::Result<Rules> {
        let found = Found {
            installation: installation.cloned(),
            ..Found::default()
        };
        let (mut rules, _) = AskedRules(BTreeMap::new()).with(&found)?;
        rules.assume()?;
        let mut rules = rules.rules()?;
        if let Some(image) = rules.exit_images.default_image().cloned()
            && rules.exit_images.is_public(image.as_str()) == Public::Unknown
        {
            // Its controller knows, and most are.
            rules.exit_images.answered_public(&image, Public::Yes);
        }
        Ok(rules)
    }

    /// Assumes an exit image with the standard paths, if one is needed and none will be written.
    /// Returns a remark about it.
    ///
    /// # Errors
    /// None that depends on the flags.
    pub(in crate::cli) fn assume(&mut self) -> anyhow::Result<Option<String>> {
        if !self.needs_exit_image() {
            return Ok(None);
        }
        self.assume_exit_image(ImageReference::parse(ASSUMED_EXIT_IMAGE)?);
        Ok(Some(format!(
            "no --exit-image is given: one with the standard paths is assumed, and called {ASSUMED_EXIT_IMAGE} here; pass the flags that swaplet run has"
        )))
    }
}
