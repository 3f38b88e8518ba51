//! What goes wrong.

use std::time::Duration;

use crate::apiserver::objects::status::ApiError;

/// What happens instead of, or besides, what should.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Answer this without doing anything.
    Reply(Reply),
    /// Do it after a while.
    Delay(Duration),
    /// Never answer.
    Hang,
    /// Break the connection without doing anything.
    Drop,
    /// Do it, then break the connection.
    ApplyThenDrop,
    /// Do it, and answer after a while: what comes of it may be seen before.
    ApplyThenDelay(Duration),
    /// Do it, then answer something else.
    ApplyThenReply(Reply),
    /// Answer a list as it was at an older revision.
    ReplayList(u64),
    /// A watch goes on but delivers nothing until [`Faults::clear`](super::Faults::clear) or
    /// [`Faults::remove`](super::Faults::remove); then it catches up.
    HoldWatch,
    /// A watch does not deliver the events from one index up to, not including, another.
    SkipEvents(usize, usize),
    /// A watch ends after so many lines.
    CloseWatch(usize),
    /// A watch sends a line that is no JSON after so many lines.
    Garbage(usize),
    /// A watch reports 410 in the stream after so many lines, and ends.
    ExpireWatch(usize),
}

/// A made-up answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    code: u16,
    retry_after: Option<u64>,
    message: String,
}

impl Effect {
    /// An answer of this code with the usual reason and text.
    #[must_use]
    pub fn reply(code: u16) -> Reply {
        Reply {
            code,
            retry_after: None,
            message: format!("injected {code}"),
        }
    }

    /// Whether it can also befall a watch that runs already.
    pub(crate) fn is_of_watches(&self) -> bool {
        matches!(
            self,
            Self::HoldWatch
                | Self::SkipEvents(..)
                | Self::CloseWatch(_)
                | Self::Garbage(_)
                | Self::ExpireWatch(_)
        )
    }
}

impl Reply {
    /// Sets the `Retry-After` header, in seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Sets the message.
    #[must_use]
    pub fn message(mut self, message: &str) -> Self {
        message.clone_into(&mut self.message);
        self
    }

    /// Seconds for the header.
    pub(crate) fn seconds(&self) -> Option<u64> {
        self.retry_after
    }

    /// As an error of the server.
    pub(crate) fn error(&self) -> ApiError {
        let reason = match self.code {
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            409 => "Conflict",
            410 => "Expired",
            422 => "Invalid",
            429 => "TooManyRequests",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "InternalError",
        };
        ApiError::new(self.code, reason, self.message.clone())
    }
}

impl From<Reply> for Effect {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}
