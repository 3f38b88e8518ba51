//! Fault injection by rules: what goes wrong in a test, and when.
//!
//! ```
//! use swaplet_testbed::apiserver::{Effect, Rule, Verb};
//! // The first PATCH on a pod is applied, but the answer is lost.
//! Rule::new(Effect::ApplyThenDrop).verb(Verb::Patch).resource("pods").times(1);
//! // All other requests get 429 with a retry in two seconds, from the third one on.
//! Rule::new(Effect::reply(429).retry_after(2)).after(2);
//! ```

mod effect;
mod rule;
mod rules;
mod stream;

pub use effect::{Effect, Reply};
pub use rule::Rule;
pub use rules::{Faults, RuleId};
pub use stream::WatchFaults;
