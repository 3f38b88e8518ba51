//! What the API server says was written: the witness that the controller cannot influence.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// Swaplet rightly takes the next method where a node shows for 20 s no end of an exit image: the
/// times of the API server lie closer together where that answered the swap late. What does not
/// wait for the swap at all writes the phase when the pod has been quiet for 10 s.
const NEXT_METHOD_AFTER: SignedDuration = SignedDuration::from_secs(15);
/// The log may follow what it tells of by so much.
const LOG_FOLLOWS: Duration = Duration::from_secs(60);

/// One request that writes.
#[derive(Debug)]
pub struct Written {
    pub verb: String,
    pub resource: String,
    pub subresource: String,
    pub pod: String,
    pub code: u64,
    /// When the API server received it.
    pub at: Timestamp,
    pub body: Value,
}

impl Written {
    /// Whether it changed an image of a pod.
    pub fn is_applied_swap(&self) -> bool {
        self.code == 200 && self.is_swap()
    }

    /// The same, whatever came of it: of a write whose sender is killed meanwhile the log does not
    /// say that.
    fn is_swap(&self) -> bool {
        self.verb == "patch"
            && self.resource == "pods"
            && self
                .body
                .as_array()
                .is_some_and(|ops| ops.iter().any(|op| op["op"] == "replace"))
    }

    /// Whether it wrote the phase of a pod.
    pub fn is_applied_finish(&self) -> bool {
        self.resource == "pods"
            && self.subresource == "status"
            && self.code == 200
            && self.body["status"]["phase"].is_string()
    }
}

/// Everything that the controller of this namespace wrote, in order. Where it is an installation,
/// what that keeps beside itself (its Lease, what it has learned of nodes) is left out; where
/// others share it, what it wrote in their namespaces.
pub fn written_in(namespace: &str) -> Vec<Written> {
    let beside = system_namespace(namespace);
    let accounts =
        [namespace, &beside].map(|namespace| format!("system:serviceaccount:{namespace}:swaplet"));
    let is_here = |entry: &&Arc<Value>| {
        let at = entry["objectRef"]["namespace"].as_str().unwrap_or_default();
        at != beside && (at == namespace || system_namespace(at) != beside)
    };
    entries_of(&accounts)
        .iter()
        .filter(is_here)
        .filter_map(|entry| read(entry, None))
        .collect()
}

/// The namespaces of the installations that work in more than one namespace, by these.
static WORKS_IN: LazyLock<Mutex<HashMap<String, String>>> = LazyLock::new(Mutex::default);

/// Says that an installation in `system_namespace` works in this namespace, and in others.
pub fn works_in(namespace: &str, system_namespace: &str) {
    WORKS_IN
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(namespace.to_owned(), system_namespace.to_owned());
}

/// The namespace of an installation that works in this one.
pub fn system_namespace(namespace: &str) -> String {
    let works_in = WORKS_IN.lock().unwrap_or_else(PoisonError::into_inner);
    works_in
        .get(namespace)
        .cloned()
        .unwrap_or_else(|| format!("{namespace}-system"))
}

/// Everything that a user wrote, in order; in one namespace, or anywhere.
pub fn written_by(user: &str, namespace: Option<&str>) -> Vec<Written> {
    entries_of(&[user.to_owned()])
        .into_iter()
        .filter_map(|entry| read(&entry, namespace))
        .collect()
}

/// What has been read of the log so far. It grows to tens of megabytes, and all cases look at it
/// again and again.
#[derive(Default)]
struct Log {
    read_to: u64,
    /// A line whose end is not written yet.
    begun: Vec<u8>,
    /// How many lines there were.
    lines: usize,
    of_users: HashMap<String, OfUser>,
}

/// What a user has asked for, each with the number of its line, in order: what was looked at
/// before, and the lines that came since.
#[derive(Default)]
struct OfUser {
    entries: Vec<(usize, Arc<Value>)>,
    lines: Vec<(usize, String)>,
}

static LOG: LazyLock<Mutex<Log>> = LazyLock::new(Mutex::default);

impl Log {
    /// Reads on from where the last look has ended.
    fn read_on(&mut self) {
        let log = std::env::var("SWAPLET_E2E_AUDIT_LOG").expect("SWAPLET_E2E_AUDIT_LOG");
        let mut file = File::open(&log).unwrap_or_else(|error| panic!("{log}: {error}"));
        file.seek(SeekFrom::Start(self.read_to)).unwrap();
        let mut text = std::mem::take(&mut self.begun);
        self.read_to += file.read_to_end(&mut text).unwrap() as u64;
        let complete = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        self.begun = text.split_off(complete);
        for line in String::from_utf8(text).unwrap().lines() {
            self.lines += 1;
            // Before it there are no words of the request but its URI, which has no quotes.
            let user = line
                .split_once(r#""user":{"username":""#)
                .and_then(|(_, rest)| rest.split('"').next());
            // Those that are asked for here are accounts of namespaces; the control plane and the
            // node write much more.
            if let Some(user) = user.filter(|user| {
                user.starts_with("system:serviceaccount:") && !user.contains(":kube-system:")
            }) {
                self.of_users
                    .entry(user.to_owned())
                    .or_default()
                    .lines
                    .push((self.lines, line.to_owned()));
            }
        }
    }

    fn of(&mut self, user: &str) -> &[(usize, Arc<Value>)] {
        let of_user = self.of_users.entry(user.to_owned()).or_default();
        let parsed = of_user.lines.drain(..).filter_map(|(number, line)| {
            Some((number, Arc::new(serde_json::from_str(&line).ok()?)))
        });
        of_user.entries.extend(parsed);
        &of_user.entries
    }
}

/// What these users have asked for until now, in order.
fn entries_of(users: &[String]) -> Vec<Arc<Value>> {
    // A case that has failed while it looked has left what it read.
    let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    log.read_on();
    let mut entries: Vec<_> = users
        .iter()
        .flat_map(|user| log.of(user).to_vec())
        .collect();
    entries.sort_by_key(|(number, _)| *number);
    entries.into_iter().map(|(_, entry)| entry).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn read(entry: &Value, namespace: Option<&str>) -> Option<Written> {
    let verb = text(&entry["verb"]);
    // What is only tried is not written.
    let is_tried = text(&entry["requestURI"]).contains("dryRun=All");
    let is_write = entry["level"] == "Request" && !is_tried;
    let is_end = entry["stage"] == "ResponseComplete";
    let is_there = namespace.is_none_or(|namespace| entry["objectRef"]["namespace"] == namespace);
    let at = text(&entry["requestReceivedTimestamp"]).parse().ok()?;
    (is_write && is_end && is_there).then(|| Written {
        at,
        resource: text(&entry["objectRef"]["resource"]),
        subresource: text(&entry["objectRef"]["subresource"]),
        pod: text(&entry["objectRef"]["name"]),
        code: entry["responseStatus"]["code"].as_u64().unwrap_or_default(),
        body: entry["requestObject"].clone(),
        verb,
    })
}

/// Everything that a user has asked for since then, in vain or not, writes or not, as verb and
/// resource; each once. A list of one object is `version`: what is wanted of it is how far the
/// server is.
pub fn asked_by(user: &str, since: Timestamp) -> BTreeSet<(String, String)> {
    let mut asked = BTreeSet::new();
    for entry in entries_of(&[user.to_owned()]) {
        let at: Timestamp = entry["requestReceivedTimestamp"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        if at >= since {
            let is_version = entry["requestURI"]
                .as_str()
                .unwrap()
                .split(['?', '&'])
                .any(|parameter| parameter == "limit=1");
            let verb = if is_version {
                "version".to_owned()
            } else {
                text(&entry["verb"])
            };
            asked.insert((verb, text(&entry["objectRef"]["resource"])));
        }
    }
    asked
}

/// The pods whose images the controller of this namespace has changed, each as often as that was
/// done, sorted.
pub fn swapped_in(namespace: &str) -> Vec<String> {
    let mut swapped: Vec<_> = written_in(namespace)
        .into_iter()
        .filter(Written::is_applied_swap)
        .map(|write| write.pod)
        .collect();
    swapped.sort_unstable();
    swapped
}

/// Asserts that exactly these pods had their images changed, each by one patch, and that nothing
/// but that and Events was written.
pub fn assert_swapped_once(namespace: &str, pods: &[&str]) {
    let mut expected = pods.to_vec();
    expected.sort_unstable();
    let step = Duration::from_millis(100);
    let mut waited = Duration::ZERO;
    while swapped_in(namespace).len() < expected.len() && waited < LOG_FOLLOWS {
        sleep(step);
        waited += step;
    }
    let written = written_in(namespace);
    assert_eq!(swapped_in(namespace), expected, "{written:#?}");
    assert_nothing_but_swaps(namespace);
}

/// Asserts that nothing was written but images and Events; and the phase of a pod so long after its
/// images that its node had not shown the end of the exit image. That swaps alone end pods is shown
/// where the phase must not be written.
pub fn assert_nothing_but_swaps(namespace: &str) {
    let written = written_in(namespace);
    let is_other = |write: &&Written| {
        !write.is_applied_swap()
            && write.resource != "events"
            && write.code < 400
            && !is_late_phase(write, &written)
    };
    let other: Vec<_> = written.iter().filter(is_other).collect();
    assert!(other.is_empty(), "{other:#?}");
}

fn is_late_phase(write: &Written, written: &[Written]) -> bool {
    let mut before = written
        .iter()
        .filter(|swap| swap.is_swap() && swap.pod == write.pod && swap.at <= write.at);
    let swap = before.next_back();
    write.is_applied_finish()
        && swap.is_some_and(|swap| write.at.duration_since(swap.at) >= NEXT_METHOD_AFTER)
}
