//! Where our fakes differ from the real things, and why that may stay.
//!
//! Every entry is as narrow as it can be: it must not hide another difference.

use crate::shared::known::Known;

/// The embedded API server, compared with kube-apiserver 1.34.
pub const API_SERVER: &[Known] = &[];
