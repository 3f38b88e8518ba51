use k8s_openapi::api::core::v1::ConfigMap;

use super::*;

/// The version is what is kept of an object, and a number beside it.
type Versions = Store<String, u32>;

const NOW: Moment = Moment::START;

fn key(name: &str) -> Key {
    ("n".into(), name.into())
}

fn object(name: &str, uid: &str, version: &str) -> ConfigMap {
    let text = |text: &str| Some(text.to_owned());
    ConfigMap {
        metadata: ObjectMeta {
            namespace: text("n"),
            name: text(name),
            uid: text(uid),
            resource_version: text(version),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

fn read(object: ConfigMap) -> Option<String> {
    object.metadata.resource_version
}

fn shows(store: &mut Versions, event: Event<ConfigMap>) -> Changes<String, u32> {
    store.observe(event, NOW, read)
}

/// Shows `a` in this version. Returns true if it counts.
fn shows_a(store: &mut Versions, version: &str) -> bool {
    let event = Event::Applied(object("a", "u", version));
    shows(store, event).put.is_some()
}

/// Lists these objects. Returns the names of those that are gone.
fn lists(store: &mut Versions, objects: &[ConfigMap]) -> Vec<Box<str>> {
    let events = Event::list_of(objects.iter().cloned());
    let gone = events.flat_map(|event| shows(store, event).gone);
    gone.map(|((_, name), ..)| name).collect()
}

/// Returns true if this answer to a write that was decided on the version `seen` counts.
fn answers(store: &mut Versions, seen: &str, uid: &str, version: &str) -> bool {
    let (object, state) = (version.to_owned(), (uid.into(), version.into()));
    let changes = store.answered(key("a"), state, seen, object, NOW);
    changes.put.is_some()
}

fn version(store: &Versions) -> &str {
    store.get(&key("a")).map_or("", |(version, _)| version)
}

/// A store in which `a` is known.
fn store() -> Versions {
    let mut store = Store::default();
    lists(&mut store, &[object("a", "u", "10")]);
    store
}

#[test]
fn what_a_complete_list_does_not_name_is_gone_and_a_broken_one_takes_nothing_away() {
    let mut store = store();
    drop(shows(&mut store, Event::ListStart));
    drop(shows(&mut store, Event::Listed(object("b", "b", "11"))));
    drop(shows(&mut store, Event::Trouble("timeout".to_owned())));
    assert!(store.is_complete() && store.is_listing());
    assert_eq!(store.len(), 2);
    assert_eq!(
        lists(&mut store, &[object("c", "c", "12")]),
        ["a".into(), "b".into()]
    );
    assert!(store.is_complete() && !store.is_listing());
    // Changes in the middle of a list.
    drop(shows(&mut store, Event::ListStart));
    drop(shows(&mut store, Event::Applied(object("d", "d", "13"))));
    let gone = shows(&mut store, Event::Deleted(object("c", "c", "14"))).gone;
    assert_eq!(gone.len(), 1);
    assert_eq!(shows(&mut store, Event::ListEnd).gone, []);
    let names: Vec<_> = store.iter().map(|(key, ..)| &*key.1).collect();
    assert_eq!(names, ["d"]);
}

#[test]
fn what_is_kept_beside_an_object_stays_for_as_long_as_its_uid() {
    let mut store = store();
    *store.get_mut(&key("a")).unwrap().1 = 7;
    let changes = shows(&mut store, Event::Applied(object("a", "u", "11")));
    assert_eq!(changes.put, Some((key("a"), Some("10".to_owned()))));
    assert_eq!(store.get(&key("a")).unwrap().1, &7);
    let changes = shows(&mut store, Event::Applied(object("a", "next", "12")));
    assert_eq!(changes.gone, [(key("a"), "11".to_owned(), 7)]);
    assert_eq!(changes.put, Some((key("a"), None)));
    assert_eq!(store.get(&key("a")).unwrap().1, &0);
    let changes = shows(&mut store, Event::Deleted(object("a", "u", "13")));
    assert!(changes.gone.is_empty(), "it was another one");
}

#[test]
fn what_cannot_be_read_is_gone_and_named_by_its_metadata() {
    let mut store = store();
    let unread = Event::Applied(object("a", "u", "11"));
    let changes = store.observe(unread, NOW, |_| None);
    assert_eq!(changes.gone, [(key("a"), "10".to_owned(), 0)]);
    assert!(changes.put.is_none() && store.is_empty());
}

#[test]
fn an_answer_counts_until_the_watch_has_shown_it() {
    let mut store = store();
    assert!(answers(&mut store, "10", "u", "12"));
    assert!(!shows_a(&mut store, "11") && version(&store) == "12");
    assert!(shows_a(&mut store, "12") && shows_a(&mut store, "13"));
    assert!(!answers(&mut store, "10", "u", "12"), "a late answer");
    assert!(!answers(&mut store, "13", "another", "14"));
    assert_eq!(version(&store), "13");
}

#[test]
fn an_older_event_does_not_bring_back_what_is_not_kept_any_more() {
    let mut store = store();
    assert!(answers(&mut store, "10", "u", "12"));
    assert!(store.forget(&key("a")).is_some());
    assert!(!shows_a(&mut store, "11") && !store.has(&key("a")));
    assert!(shows_a(&mut store, "13"));
    // Another object of this name has nothing to do with the answer.
    assert!(answers(&mut store, "13", "u", "20"));
    let next = shows(&mut store, Event::Applied(object("a", "next", "19")));
    assert!(next.put.is_some() && version(&store) == "19");
}

#[test]
fn what_was_created_is_gone_if_a_list_that_begins_later_does_not_name_it() {
    let mut store = Versions::default();
    let state = |uid: &str| (uid.into(), "1".into());
    drop(shows(&mut store, Event::ListStart));
    store.created(key("a"), state("u"), "1".to_owned());
    store.created(key("b"), (Box::default(), Box::default()), String::new());
    *store.get_mut(&key("b")).unwrap().1 = 7;
    assert!(shows(&mut store, Event::ListEnd).gone.is_empty());
    // The answer comes, or another one says what is known.
    assert!(store.created(key("b"), state("b"), "1".to_owned()));
    assert_eq!(store.get(&key("b")), Some((&"1".to_owned(), &7)));
    assert!(!store.created(key("b"), state("other"), "2".to_owned()));
    assert_eq!(store.get(&key("b")), Some((&"1".to_owned(), &7)));
    // The watch shows it, and it stays.
    let changes = shows(&mut store, Event::Applied(object("b", "b", "3")));
    assert_eq!(changes.put, Some((key("b"), Some("1".to_owned()))));
    assert_eq!(lists(&mut store, &[object("b", "b", "3")]), ["a".into()]);
}

#[test]
fn what_may_have_been_created_is_another_object_than_the_watch_shows() {
    let mut store = Versions::default();
    store.created(key("a"), (Box::default(), Box::default()), String::new());
    let changes = shows(&mut store, Event::Applied(object("a", "u", "1")));
    assert_eq!(changes.gone, [(key("a"), String::new(), 0)]);
    assert_eq!(changes.put, Some((key("a"), None)));
}

/// A list may show what was before the answer, if it has begun before it. After etcd was restored
/// from a backup its versions are lower than before.
#[test]
fn a_list_that_begins_after_an_answer_is_newer_whatever_its_versions_say() {
    let mut store = store();
    drop(shows(&mut store, Event::ListStart));
    assert!(answers(&mut store, "10", "u", "12"));
    let listed = Event::Listed(object("a", "u", "10"));
    assert!(shows(&mut store, listed).put.is_none());
    assert!(shows(&mut store, Event::ListEnd).gone.is_empty());
    assert_eq!(version(&store), "12");
    lists(&mut store, &[object("a", "u", "9")]);
    assert_eq!(version(&store), "9");
    // One of several namespaces is listed again by changes alone.
    assert!(answers(&mut store, "9", "u", "12"));
    assert!(!shows_a(&mut store, "8"));
    drop(shows(&mut store, Event::Relists(true)));
    assert!(shows_a(&mut store, "8"));
}

/// An answer may come from before the restore, after the list that follows it.
#[test]
fn an_answer_is_ahead_of_the_watch_for_two_minutes_at_most() {
    let mut store = store();
    assert!(answers(&mut store, "10", "u", "12"));
    let mut shows = |version, seconds| {
        let event = Event::Applied(object("a", "u", version));
        let now = Moment::after_start(Duration::from_secs(seconds));
        store.observe(event, now, read).put.is_some()
    };
    assert!(!shows("5", 119) && shows("6", 120));
}

#[test]
fn bug8_versions_without_an_order_count_while_nothing_new_was_shown() {
    let mut store: Versions = Store::default();
    lists(&mut store, &[object("a", "u", "x")]);
    assert!(answers(&mut store, "x", "u", "m"));
    assert!(shows_a(&mut store, "k"), "the watch wins");
    assert!(!answers(&mut store, "m", "u", "z"));
    assert_eq!(version(&store), "k");
    let versions = [("99", "100"), ("100", "100"), ("9", "11")];
    let older = versions.map(|(one, other)| is_before(one, other));
    assert_eq!(older, [Some(true), Some(false), Some(true)]);
}

#[test]
fn what_is_hidden_is_so_until_the_next_list_shows_something() {
    let mut store: Versions = Store::default();
    drop(shows(&mut store, Event::ListStart));
    drop(shows(&mut store, Event::Hidden("400".to_owned())));
    // It may be one of several namespaces.
    assert!(shows_a(&mut store, "10"));
    drop(shows(&mut store, Event::ListStart));
    assert_eq!(store.hidden(), Some("400"));
    assert!(!store.is_complete());
    drop(shows(&mut store, Event::ListEnd));
    assert_eq!(store.hidden(), None);
}
