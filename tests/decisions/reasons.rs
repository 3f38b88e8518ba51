//! The closed list of reasons.

use swaplet_core::report::reason::Reason;

#[test]
fn every_reason_is_listed_once_and_named_as_the_enum_names_it() {
    let mut sorted = Reason::ALL.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted, Reason::ALL);
    for reason in Reason::ALL {
        assert_eq!(format!("{reason:?}"), reason.as_str());
    }
}
