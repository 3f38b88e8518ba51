//! The effects of faults.

use std::time::Duration;

use serde_json::json;

use crate::apiserver::objects::status::ApiError;

/// The effect of a fault on a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Sends this answer and does nothing.
    Reply(Reply),
    /// Does what was requested after a delay.
    Delay(Duration),
    /// Never answers.
    Hang,
    /// Breaks the connection and does nothing.
    Drop,
    /// Does what was requested, then breaks the connection.
    ApplyThenDrop,
    /// Does what was requested and answers after a delay: watches may show the result before.
    ApplyThenDelay(Duration),
    /// Does what was requested, then sends another answer.
    ApplyThenReply(Reply),
    /// Answers a list as of an older revision.
    ReplayList(u64),
    /// Keeps a watch open without events until [`Faults::clear`](super::Faults::clear) or
    /// [`Faults::remove`](super::Faults::remove); then it catches up.
    HoldWatch,
    /// Loses the events of a watch from the first index up to, not including, the second.
    SkipEvents(usize, usize),
    /// Ends a watch after this many lines.
    CloseWatch(usize),
    /// Holds back the events of a watch, and ends it after this time.
    CutWatch(Duration),
    /// Sends a line that is not JSON in a watch, after this many lines.
    Garbage(usize),
    /// Reports 410 in the stream of a watch after this many lines, and ends it.
    ExpireWatch(usize),
}

/// A made-up answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    code: u16,
    retry_after: Option<u64>,
    message: Option<String>,
}

impl Effect {
    /// Returns an answer with this code and the usual reason and text.
    pub fn reply(code: u16) -> Reply {
        Reply {
            code,
            retry_after: None,
            message: None,
        }
    }

    /// Returns true if the effect can also hit a running watch.
    pub(crate) fn is_of_watches(&self) -> bool {
        matches!(
            self,
            Self::HoldWatch
                | Self::SkipEvents(..)
                | Self::CloseWatch(_)
                | Self::CutWatch(_)
                | Self::Garbage(_)
                | Self::ExpireWatch(_)
        )
    }
}

impl Reply {
    /// Sets the `Retry-After` header, in seconds. A 429 with it and without a message is one of the
    /// API server's flow control, which answers in plain text; any other has the time in its body too.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Sets the message.
    #[must_use]
    pub fn message(mut self, message: &str) -> Self {
        self.message = Some(message.to_owned());
        self
    }

    /// Returns the seconds of the `Retry-After` header.
    pub(crate) fn seconds(&self) -> Option<u64> {
        self.retry_after
    }

    /// Returns true for an answer of flow control.
    pub(crate) fn is_of_flow_control(&self) -> bool {
        self.code == 429 && self.retry_after.is_some() && self.message.is_none()
    }

    /// Returns the reply as an error of the server.
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
        let said = self.message.clone();
        let message = said.unwrap_or_else(|| format!("injected {}", self.code));
        let mut error = ApiError::new(self.code, reason, message);
        if let Some(seconds) = self.retry_after {
            error.details = json!({"retryAfterSeconds": seconds});
        }
        error
    }
}

impl From<Reply> for Effect {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}
