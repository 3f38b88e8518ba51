//! What of a sidecar's log may stand in an Event, whoever has written it.

use proptest::prelude::*;
use swaplet_core::report::log_tail::{LogTail, MOST_BYTES, clean, with_logs};

fn lines(text: &str) -> LogTail {
    LogTail::Lines(clean(text.as_bytes()))
}

#[test]
fn a_log_is_one_line_that_prints() {
    for (written, read) in [
        ("one\ntwo\r\n\n  three\n", "one | two | three"),
        ("\u{1b}[31mred\u{1b}[0m\u{1b}[2J end", "red end"),
        (
            "\u{1b}]0;title\u{7}shown \u{1b}Pq#0\u{1b}\\too",
            "shown too",
        ),
        ("\u{1b}]never ended\nnext", "next"),
        ("a\0b\u{8}\tc\u{7f}", "ab c"),
        ("user\u{202e}txt.exe \u{200b}x\u{feff}", "usertxt.exe x"),
        ("say \"done\"; forged: x", "say 'done'; forged: x"),
        ("\u{2028}a\u{2029}b\u{85}c", "a | b | c"),
        ("\u{1b}", ""),
        ("\u{1b}[", ""),
    ] {
        assert_eq!(clean(written.as_bytes()), read, "{written:?}");
    }
    assert_eq!(clean(b"\xffok\xc3"), "\u{fffd}ok\u{fffd}");
}

#[test]
fn it_stands_behind_all_else_and_is_cut_from_its_begin() {
    let logs = [("log".into(), lines("first\nsecond\nthird"))];
    assert_eq!(
        with_logs("the pod is Succeeded", &logs, 1024),
        "the pod is Succeeded; last of the log of log: \"first | second | third\""
    );
    assert_eq!(
        with_logs("ended", &logs, 10),
        "ended; last of the log of log: \"...| third\""
    );
    let others = [
        ("a".into(), lines("")),
        (
            "b".into(),
            LogTail::Unread("its node\nsays \u{1b}[1mno".to_owned()),
        ),
    ];
    assert_eq!(
        with_logs("ended", &others, 64),
        "ended; a has logged nothing; the log of b was not read: its node | says no"
    );
}

/// What swaplet says is never cut for a log.
#[test]
fn logs_share_the_room_that_is_left() {
    let note = "n".repeat(700);
    let long: Vec<(Box<str>, LogTail)> = ["a", "b"]
        .map(|name| (name.into(), lines(&"x".repeat(4000))))
        .into();
    let told = with_logs(&note, &long, MOST_BYTES.into());
    assert!(told.starts_with(&note) && told.len() <= 1024, "{told}");
    assert_eq!(told.matches("last of the log of").count(), 2, "{told}");
    let full = "n".repeat(1020);
    assert_eq!(with_logs(&full, &long, MOST_BYTES.into()), full);
}

proptest! {
    #[test]
    fn whatever_is_written_is_bounded_and_prints(
        written in proptest::collection::vec(any::<u8>(), 0..4096),
        note in "[a-z ]{0,1400}",
        bytes in 1..=MOST_BYTES,
    ) {
        let read = clean(&written);
        let is_plain = |c: char| !c.is_control() && c != '"' && c != '\u{202e}';
        prop_assert!(read.chars().all(is_plain), "{read:?}");
        prop_assert_eq!(clean(read.as_bytes()), read.clone());
        let logs = [("log".into(), LogTail::Lines(read))];
        prop_assert!(with_logs(&note, &logs, bytes.into()).len() <= 1024);
    }
}
