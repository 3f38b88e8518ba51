//! Every reason has its entry in the troubleshooting guide.

use std::collections::BTreeSet;

use pulldown_cmark::HeadingLevel;
use swaplet_core::report::reason::Reason;

use crate::markdown::{Document, root};

#[test]
fn every_reason_has_an_entry_and_no_entry_is_stale() {
    let document = Document::read(&root().join("docs/troubleshooting.md"));
    let entries: BTreeSet<_> = document
        .headings
        .iter()
        .filter(|heading| heading.level == HeadingLevel::H3)
        .map(|heading| &*heading.text)
        .collect();
    let reasons = BTreeSet::from(Reason::ALL.map(Reason::as_str));
    let missing: Vec<_> = reasons.difference(&entries).collect();
    let stale: Vec<_> = entries.difference(&reasons).collect();
    assert!(
        missing.is_empty() && stale.is_empty(),
        "docs/troubleshooting.md: no entry for {missing:?}; no such reason: {stale:?}"
    );
}
