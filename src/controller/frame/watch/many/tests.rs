use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::time::advance;

use super::*;

type Senders = Vec<mpsc::Sender<Event<ConfigMap>>>;

/// The object `name`, or of `name/uid`.
fn object(text: &str) -> ConfigMap {
    let (name, uid) = text.split_once('/').unwrap_or((text, "u"));
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.into()),
            uid: Some(uid.into()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

/// A round of two watches, the ends on which to play them, and what it tells.
fn round(
    unlisted: Unlisted,
) -> (
    tokio::task::JoinHandle<bool>,
    Senders,
    mpsc::Receiver<Event<ConfigMap>>,
) {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..2).map(|_| mpsc::channel(8)).unzip();
    let (events, reported) = mpsc::channel(32);
    let round = tokio::spawn(async move {
        Round::new(receivers, &events, unlisted, ConfigMap::clone)
            .run()
            .await
            .is_ok()
    });
    (round, senders, reported)
}

async fn play(watch: &mpsc::Sender<Event<ConfigMap>>, events: Vec<Event<ConfigMap>>) {
    for event in events {
        watch.send(event).await.unwrap();
    }
    // The round takes them before anything else is played.
    while watch.capacity() < watch.max_capacity() {
        tokio::task::yield_now().await;
    }
    tokio::task::yield_now().await;
}

fn all(reported: &mut mpsc::Receiver<Event<ConfigMap>>) -> Vec<String> {
    let words = |event: Event<ConfigMap>| match event {
        Event::Current(_) => "Current".to_owned(),
        event => {
            format!("{:?}", event.map(|object| object.metadata.name.unwrap())).replace('"', "")
        }
    };
    std::iter::from_fn(|| reported.try_recv().ok())
        .map(words)
        .collect()
}

fn listed(names: &[&str]) -> Vec<Event<ConfigMap>> {
    let objects = names.iter().map(|name| Event::Listed(object(name)));
    std::iter::once(Event::ListStart)
        .chain(objects)
        .chain([Event::ListEnd])
        .collect()
}

fn trouble() -> Event<ConfigMap> {
    Event::Trouble("500".to_owned())
}

fn forbidden() -> Event<ConfigMap> {
    Event::Forbidden("no".to_owned())
}

#[tokio::test]
async fn a_list_is_complete_when_each_namespace_was_listed() {
    let (_round, watches, mut told) = round(Unlisted::AreWaitedFor);
    play(&watches[0], listed(&["a"])).await;
    play(&watches[0], vec![Event::Applied(object("a2"))]).await;
    assert_eq!(all(&mut told), ["ListStart", "Listed(a)", "Listed(a2)"]);
    play(&watches[1], listed(&["b"])).await;
    play(
        &watches[1],
        vec![Event::Applied(object("b2")), Event::Deleted(object("b"))],
    )
    .await;
    assert_eq!(
        all(&mut told),
        ["Listed(b)", "ListEnd", "Applied(b2)", "Deleted(b)"]
    );
}

#[tokio::test]
async fn watch_one_namespace_that_is_listed_again_is_told_by_what_has_changed_in_it() {
    let (_round, watches, mut told) = round(Unlisted::AreWaitedFor);
    play(&watches[0], listed(&["a", "gone", "other/1"])).await;
    play(&watches[1], listed(&["b"])).await;
    all(&mut told);
    play(&watches[0], listed(&["a", "new", "other/2"])).await;
    assert_eq!(
        all(&mut told),
        [
            "Relists(true)",
            "Applied(a)",
            "Applied(new)",
            "Deleted(other)",
            "Applied(other)",
            "Deleted(gone)",
            "Relists(false)"
        ]
    );
    play(&watches[0], vec![Event::Deleted(object("new"))]).await;
    play(&watches[0], listed(&["a", "other/2"])).await;
    assert_eq!(
        all(&mut told),
        [
            "Deleted(new)",
            "Relists(true)",
            "Applied(a)",
            "Applied(other)",
            "Relists(false)"
        ],
        "nothing ends twice"
    );
}

/// What was missed in it is not known before.
#[tokio::test]
async fn watch_a_list_does_not_end_while_a_namespace_is_listed_again_that_may_be_hidden() {
    let table: [(Unlisted, &[&str], &[&str]); 2] = [
        (Unlisted::AreHidden, &[], &["Listed(a)", "ListEnd"]),
        (
            Unlisted::AreWaitedFor,
            &["ListEnd", "Relists(true)"],
            &["Applied(a)", "Relists(false)"],
        ),
    ];
    for (unlisted, before, after) in table {
        let (_round, watches, mut told) = round(unlisted);
        play(&watches[0], listed(&["a"])).await;
        play(&watches[0], vec![Event::ListStart]).await;
        assert_eq!(all(&mut told), ["ListStart", "Listed(a)"]);
        play(&watches[1], listed(&["b"])).await;
        assert_eq!(all(&mut told), [&["Listed(b)"][..], before].concat());
        play(
            &watches[0],
            vec![Event::Listed(object("a")), Event::ListEnd],
        )
        .await;
        assert_eq!(all(&mut told), after);
    }
}

#[tokio::test]
async fn a_hidden_namespace_does_not_keep_the_others_waiting_until_it_is_seen() {
    let (round, watches, mut told) = round(Unlisted::AreWaitedFor);
    play(&watches[0], vec![Event::ListStart, forbidden()]).await;
    play(&watches[1], listed(&["b"])).await;
    play(&watches[0], vec![Event::ListStart, forbidden()]).await;
    play(&watches[1], vec![Event::Applied(object("b2"))]).await;
    assert_eq!(
        all(&mut told),
        [
            "ListStart",
            "Listed(b)",
            "ListEnd",
            "Hidden(no)",
            "Applied(b2)"
        ]
    );
    play(&watches[0], listed(&["a"])).await;
    assert!(round.await.unwrap(), "to be listed in a list of all");
    assert_eq!(all(&mut told), [""; 0]);
}

#[tokio::test]
async fn watch_a_namespace_that_must_not_be_listed_any_more_is_empty() {
    let (_round, watches, mut told) = round(Unlisted::AreWaitedFor);
    play(&watches[0], listed(&["a"])).await;
    play(&watches[1], listed(&["b"])).await;
    all(&mut told);
    play(&watches[0], vec![Event::ListStart, forbidden()]).await;
    assert_eq!(
        all(&mut told),
        [
            "Relists(true)",
            "Deleted(a)",
            "Hidden(no)",
            "Relists(false)"
        ]
    );
}

#[tokio::test]
async fn nothing_is_complete_where_everything_is_hidden_or_a_list_breaks_off() {
    let (_round, watches, mut told) = round(Unlisted::AreWaitedFor);
    for watch in &watches {
        play(watch, vec![Event::ListStart, forbidden()]).await;
    }
    assert_eq!(all(&mut told), ["ListStart", "Forbidden(no)"]);

    let (_round, watches, mut told) = self::round(Unlisted::AreWaitedFor);
    play(&watches[1], listed(&["b"])).await;
    play(
        &watches[0],
        vec![
            Event::ListStart,
            trouble(),
            Event::ListStart,
            Event::Listed(object("a")),
            trouble(),
        ],
    )
    .await;
    assert_eq!(
        all(&mut told),
        [
            "ListStart",
            "Listed(b)",
            "Trouble(500)",
            "Listed(a)",
            "Trouble(500)"
        ]
    );
    play(&watches[0], listed(&["a2"])).await;
    assert_eq!(
        all(&mut told),
        ["Listed(a2)", "Deleted(a)", "ListEnd"],
        "a was named by a list that was not complete"
    );
}

#[tokio::test(start_paused = true)]
async fn watch_a_namespace_whose_list_keeps_failing_is_waited_for_only_where_that_is_wanted() {
    for unlisted in [Unlisted::AreHidden, Unlisted::AreWaitedFor] {
        let (round, watches, mut told) = round(unlisted);
        play(&watches[0], vec![Event::ListStart, trouble()]).await;
        play(&watches[1], listed(&["b"])).await;
        assert_eq!(all(&mut told), ["ListStart", "Trouble(500)", "Listed(b)"]);
        advance(Duration::from_secs(6)).await;
        play(&watches[0], vec![Event::ListStart, trouble()]).await;
        if unlisted == Unlisted::AreWaitedFor {
            assert_eq!(all(&mut told), ["Trouble(500)"]);
            continue;
        }
        assert_eq!(all(&mut told), ["ListEnd", "Hidden(500)"]);
        play(
            &watches[0],
            vec![
                Event::ListStart,
                trouble(),
                Event::ListStart,
                Event::Listed(object("a")),
            ],
        )
        .await;
        play(&watches[1], listed(&["b"])).await;
        assert_eq!(
            all(&mut told),
            ["Relists(true)", "Applied(b)", "Relists(false)"]
        );
        play(&watches[0], vec![Event::ListEnd]).await;
        assert!(round.await.unwrap());
    }
}

/// What was decided of its objects may still be written, and is counted no more.
#[tokio::test(start_paused = true)]
async fn watch_a_namespace_is_hidden_for_as_long_as_it_has_to_be_and_holds_up_no_other() {
    let least = Duration::from_secs(10);
    let (round, watches, mut told) = round(Unlisted::AreHiddenFor(least));
    play(&watches[0], listed(&["a"])).await;
    play(&watches[1], listed(&["b"])).await;
    play(&watches[0], vec![Event::ListStart, forbidden()]).await;
    all(&mut told);
    play(&watches[0], listed(&["a"])).await;
    advance(Duration::from_secs(9)).await;
    play(&watches[1], vec![Event::Applied(object("b2"))]).await;
    assert_eq!(all(&mut told), ["Applied(b2)"]);
    assert!(!round.is_finished());
    advance(Duration::from_secs(2)).await;
    assert!(round.await.unwrap());
}

/// Then it is the API server, not a namespace.
#[tokio::test(start_paused = true)]
async fn watch_no_namespace_is_hidden_while_none_can_be_listed() {
    let (_round, watches, mut told) = round(Unlisted::AreHidden);
    play(&watches[0], listed(&["a"])).await;
    play(&watches[1], listed(&["b"])).await;
    all(&mut told);
    for watch in &watches {
        play(watch, vec![Event::ListStart]).await;
    }
    assert_eq!(all(&mut told), ["Relists(true)"]);
    for _ in 0..3 {
        advance(Duration::from_secs(6)).await;
        for watch in &watches {
            play(watch, vec![trouble(), Event::ListStart]).await;
        }
        assert_eq!(all(&mut told), ["Trouble(500)", "Trouble(500)"]);
    }
    play(
        &watches[0],
        vec![Event::Listed(object("a")), Event::ListEnd],
    )
    .await;
    play(&watches[1], vec![trouble()]).await;
    assert_eq!(
        all(&mut told),
        ["Applied(a)", "Deleted(b)", "Hidden(500)", "Relists(false)"]
    );
}

#[tokio::test(start_paused = true)]
async fn watch_what_is_seen_is_as_old_as_the_watch_that_was_opened_first() {
    let (_round, watches, mut told) = round(Unlisted::AreWaitedFor);
    let opened = || Event::Current(Instant::now());
    for watch in &watches {
        play(watch, listed(&[])).await;
    }
    all(&mut told);
    play(&watches[0], vec![opened()]).await;
    assert_eq!(all(&mut told), [""; 0]);
    advance(Duration::from_secs(1)).await;
    play(&watches[1], vec![opened()]).await;
    assert_eq!(all(&mut told), ["Current"]);
    advance(Duration::from_secs(1)).await;
    play(&watches[1], vec![trouble(), opened()]).await;
    assert_eq!(
        all(&mut told),
        ["Trouble(500)", "Current"],
        "its trouble is over"
    );
    play(&watches[0], vec![opened()]).await;
    assert_eq!(all(&mut told), ["Current"]);
}

#[tokio::test]
async fn a_watch_that_dies_ends_all() {
    let (round, mut watches, _told) = round(Unlisted::AreWaitedFor);
    drop(watches.pop());
    assert!(!round.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn u41_a_trouble_ends_with_the_last_namespace_that_has_it_and_not_with_the_oldest_watch() {
    let (_round, watches, mut told) = round(Unlisted::AreHidden);
    let opened = || Event::Current(Instant::now());
    for watch in &watches {
        play(watch, listed(&[])).await;
        play(watch, vec![opened()]).await;
    }
    all(&mut told);
    advance(Duration::from_secs(1)).await;
    for watch in &watches {
        play(watch, vec![trouble()]).await;
    }
    play(&watches[1], vec![opened()]).await;
    assert_eq!(all(&mut told), ["Trouble(500)", "Trouble(500)"]);
    play(&watches[0], vec![opened()]).await;
    assert_eq!(all(&mut told), ["Current"]);
    // A namespace is deleted.
    play(&watches[1], vec![trouble(), Event::ListStart, forbidden()]).await;
    assert_eq!(
        all(&mut told),
        [
            "Trouble(500)",
            "Relists(true)",
            "Current",
            "Hidden(no)",
            "Relists(false)"
        ]
    );
}
