//! Changes that a tenant would make: to the structure of an object rather than to its bytes.

use serde_json::{Map, Value, json};

use crate::random::Random;

/// Texts that somebody may think of, the shorter the more often.
const TEXTS: [&str; 34] = [
    "",
    "$(A)$(A)",
    "$(A",
    "$$(A)",
    "$",
    "/",
    "//",
    "..",
    "/../..",
    ":",
    "@",
    "a@b@c",
    "UPPER/case:1",
    "r.example/App@sha256:1",
    "sha256:",
    "localhost:99999/x",
    "[::1]:5000/a",
    "\u{0}",
    "\u{1b}[2J",
    "\u{e9}\u{4e2d}\u{1f600}",
    "true",
    "null",
    "-1",
    "1e999",
    "18446744073709551616",
    "9999-12-31T23:59:59.999999999Z",
    "-009999-01-01T00:00:00Z",
    "2026-01-01T00:00:60Z",
    "100%",
    "-1%",
    "99999999999%",
    "v1.99999999999",
    "{}",
    "[[[",
];

/// How much one change adds at most: what the API server takes for a request. Without it a list of
/// lists would become gigabytes.
const MOST: usize = 3 << 20;
/// The longest text that comes of the changes: three of the structure, and some that add little.
pub const LONGEST: usize = 5 * MOST;

/// Changes a text here and there: by its structure where it has one, and now and then by its bytes.
pub fn mutated(text: &str, random: &mut Random) -> String {
    let mut changed = match serde_json::from_str::<Value>(text) {
        Ok(mut value) => {
            for _ in 0..=random.below(3) {
                let places = count(&value);
                let place = random.below(places);
                change(&mut value, &mut Some(place), random);
            }
            value.to_string()
        }
        Err(_) => text.to_owned(),
    };
    if random.once_in(4) {
        twice(&mut changed, random);
    }
    if random.once_in(6) {
        changed = bytes(&changed, random);
    }
    changed
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}

/// Goes to the value of this number, and changes it.
fn change(value: &mut Value, left: &mut Option<usize>, random: &mut Random) {
    match left {
        None => return,
        Some(0) => {
            *left = None;
            *value = instead(value, random);
            return;
        }
        Some(number) => *number -= 1,
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| change(item, left, random)),
        Value::Object(members) => members
            .values_mut()
            .for_each(|member| change(member, left, random)),
        _ => {}
    }
}

fn instead(value: &Value, random: &mut Random) -> Value {
    match (value, random.below(12)) {
        (Value::Array(items), 0..=4) => {
            let item = items.first().cloned().unwrap_or_else(|| leaf(random));
            let item = if random.once_in(3) { json!({}) } else { item };
            let most = MOST / item.to_string().len() + 1;
            Value::Array(vec![item; many(random).min(most)])
        }
        (Value::Array(items), 5) => items.iter().cloned().chain(doubling(random)).collect(),
        (Value::Object(members), 0..=3) => {
            let more = (0..many(random)).map(|number| (format!("k{number}"), json!("v")));
            members
                .clone()
                .into_iter()
                .chain(more)
                .collect::<Map<_, _>>()
                .into()
        }
        (Value::String(text), 0..=3) => long(text, random),
        (_, 4) => nested(random),
        (_, 5) => doubling(random).collect(),
        _ => leaf(random),
    }
}

fn leaf(random: &mut Random) -> Value {
    match random.below(6) {
        0 => random
            .one_of(&[
                json!(i64::MAX),
                json!(i64::MIN),
                json!(u64::MAX),
                json!(-1),
                json!(1e308),
                json!(0.5),
                json!(4_294_967_296_u64),
            ])
            .clone(),
        1 => random
            .one_of(&[json!(null), json!(true), json!({}), json!([])])
            .clone(),
        2 => long("a", random),
        _ => (*random.one_of(&TEXTS)).into(),
    }
}

/// Just beyond a bound, or far beyond all of them.
fn long(text: &str, random: &mut Random) -> Value {
    let length = *random.one_of(&[256, 1_025, 4_097, 33_000, 131_073, 131_073, 1_000_000]);
    let unit = if text.is_empty() || random.once_in(2) {
        *random.one_of(&["a", "/a", "a:", "$(A)", "\u{e9}", "$(", ","])
    } else {
        text
    };
    unit.repeat(length / unit.len() + 1).into()
}

fn many(random: &mut Random) -> usize {
    *random.one_of(&[2, 17, 65, 300, 1_025, 1_025, 8_193, 20_000])
}

fn nested(random: &mut Random) -> Value {
    let is_list = random.once_in(2);
    (0..random.below(120)).fold(json!("x"), |inner, _| {
        if is_list {
            json!([inner])
        } else {
            json!({"spec": inner})
        }
    })
}

/// Variables of which each is the one before it twice, with one that asks for the last.
fn doubling(random: &mut Random) -> impl Iterator<Item = Value> + use<> {
    let levels = random.below(64);
    let first = json!({"name": "A0", "value": "aaaaaaaa"});
    let all = (1..=levels).map(
        |level| json!({"name": format!("A{level}"), "value": format!("$(A{0})$(A{0})", level - 1)}),
    );
    std::iter::once(first)
        .chain(all)
        .chain([json!({"name": "PATH", "value": format!("/$(A{levels})")})])
}

/// A key twice, which no reader of ours has asked for.
fn twice(text: &mut String, random: &mut Random) {
    let places: Vec<_> = text
        .match_indices("{\"")
        .map(|(place, _)| place)
        .take(1_000)
        .collect();
    if places.is_empty() {
        return;
    }
    let place = *random.one_of(&places);
    let end = text[place + 2..]
        .find('"')
        .map_or(place + 2, |end| place + 2 + end);
    let key = text[place + 2..end].to_owned();
    text.insert_str(place + 1, &format!("\"{key}\":{},", leaf(random)));
}

/// Bytes left out, repeated or changed; what is no text any more stays as it was.
fn bytes(text: &str, random: &mut Random) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=random.below(4) {
        let place = random.below(bytes.len());
        match random.below(3) {
            0 => bytes.truncate(place),
            1 => bytes
                .splice(place..place, [*random.one_of(b"{}[]\",:0-\\")])
                .for_each(drop),
            _ => {
                if let Some(byte) = bytes.get_mut(place) {
                    *byte = *random.one_of(b"{}[]\",:0a \n&*|>");
                }
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}
