//! A bounded store of records for one `ConfigMap`, with a share for each namespace.

use std::collections::BTreeMap;

use super::records::Record;

/// The records, by the uid of the pod.
#[derive(Debug)]
pub(crate) struct Shelf {
    /// The maximum number of bytes in all.
    most: usize,
    kept: BTreeMap<Box<str>, Record>,
    /// The number of bytes of each namespace.
    bytes: BTreeMap<Box<str>, usize>,
    total: usize,
}

/// The result of storing a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// Stored; these records were dropped, because their namespace had more than its share.
    Kept(Vec<Box<str>>),
    /// Not stored, because the namespace has used its share.
    NoRoom,
}

impl Shelf {
    pub const fn new(most: usize) -> Self {
        Self {
            most,
            kept: BTreeMap::new(),
            bytes: BTreeMap::new(),
            total: 0,
        }
    }

    /// Returns a shelf with the stored records, whoever wrote them.
    pub fn with(most: usize, kept: impl Iterator<Item = (Box<str>, Record)>) -> Self {
        let mut shelf = Self::new(most);
        kept.for_each(|(uid, record)| shelf.insert(uid, record));
        shelf
    }

    pub fn get(&self, uid: &str) -> Option<&Record> {
        self.kept.get(uid)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Box<str>, &Record)> {
        self.kept.iter()
    }

    /// Stores a record, if there is room. Each namespace is entitled to an equal share, and may use
    /// more while no other namespace needs it.
    pub fn put(&mut self, uid: &str, record: Record) -> Put {
        let before = self.kept.get(uid).map_or(0, |before| size(uid, before));
        let size = size(uid, &record);
        let mut dropped = Vec::new();
        if self.total - before + size > self.most {
            let own = self.bytes.get(&record.namespace).copied();
            let share = self.most / (self.bytes.len() + usize::from(own.is_none()));
            if own.unwrap_or_default() - before + size > share {
                return Put::NoRoom;
            }
            while self.total - before + size > self.most {
                let Some(uid) = self.one_of_too_many(&record.namespace) else {
                    return Put::NoRoom;
                };
                self.remove(&uid);
                dropped.push(uid);
            }
        }
        self.insert(uid.into(), record);
        Put::Kept(dropped)
    }

    /// Returns a record of the namespace that has most bytes, `but` excluded.
    fn one_of_too_many(&self, but: &str) -> Option<Box<str>> {
        let (most, _) = self
            .bytes
            .iter()
            .filter(|(namespace, _)| ***namespace != *but)
            .max_by_key(|(_, bytes)| **bytes)?;
        self.kept
            .iter()
            .rev()
            .find(|(_, record)| record.namespace == *most)
            .map(|(uid, _)| uid.clone())
    }

    pub fn insert(&mut self, uid: Box<str>, record: Record) {
        self.remove(&uid);
        let size = size(&uid, &record);
        self.total += size;
        *self.bytes.entry(record.namespace.clone()).or_default() += size;
        self.kept.insert(uid, record);
    }

    pub fn remove(&mut self, uid: &str) -> Option<Record> {
        let record = self.kept.remove(uid)?;
        let size = size(uid, &record);
        self.total -= size;
        if let Some(bytes) = self.bytes.get_mut(&record.namespace) {
            *bytes -= size;
            if *bytes == 0 {
                self.bytes.remove(&record.namespace);
            }
        }
        Some(record)
    }
}

fn size(uid: &str, record: &Record) -> usize {
    uid.len() + record.text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 100 bytes with its uid.
    fn record(namespace: &str) -> Record {
        Record {
            namespace: namespace.into(),
            seen: Default::default(),
            text: "x".repeat(96),
        }
    }

    fn of(shelf: &Shelf, namespace: &str) -> usize {
        shelf
            .iter()
            .filter(|(_, record)| *record.namespace == *namespace)
            .count()
    }

    #[test]
    fn a9_each_namespace_has_its_share_of_the_records_and_what_nobody_needs() {
        let mut shelf = Shelf::new(10_000);
        for number in 0..100 {
            assert_eq!(
                shelf.put(&format!("g{number:03}"), record("greedy")),
                Put::Kept(Vec::new()),
                "nobody else needs it"
            );
        }
        assert_eq!(shelf.put("g100", record("greedy")), Put::NoRoom);
        for number in 0..50 {
            let Put::Kept(dropped) = shelf.put(&format!("m{number:03}"), record("modest")) else {
                panic!("{number}")
            };
            assert_eq!(dropped.len(), 1);
        }
        assert_eq!(
            (of(&shelf, "greedy"), of(&shelf, "modest"), shelf.total),
            (50, 50, 10_000)
        );
        assert_eq!(shelf.put("m050", record("modest")), Put::NoRoom);
        assert_eq!(
            shelf.put("t", record("third")),
            Put::Kept(vec!["m049".into()])
        );
        assert_eq!(
            shelf.put("t", record("third")),
            Put::Kept(Vec::new()),
            "it is there"
        );
        (0..50).for_each(|number| drop(shelf.remove(&format!("g{number:03}"))));
        assert_eq!((shelf.bytes.len(), shelf.total), (2, 4997));
    }
}
