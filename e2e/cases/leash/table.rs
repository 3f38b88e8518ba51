//! The tables of writes (`tables/`): what is let through, and beside each such write the changes by
//! which it is denied. So no policy can be right by denying everything.

use std::collections::BTreeMap;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Leashed;
use crate::world::eventually;

/// The writes of one policy.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// Its name, without what all of them begin with.
    policy: String,
    /// What it says, by the words that the lines have for it.
    says: BTreeMap<String, String>,
    writes: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    #[serde(rename = "let")]
    allowed: Value,
    deny: Vec<Denied>,
}

/// A change of the write that is let through.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Denied {
    /// Another object.
    at: Option<String>,
    /// Another way to write.
    by: Option<String>,
    /// Another body, instead of that of the write.
    with: Option<Value>,
    made: Option<String>,
    #[serde(default)]
    set: BTreeMap<String, Value>,
    #[serde(default)]
    remove: Vec<String>,
    says: String,
}

/// A write, by whom and how it is made. Nothing is changed by it.
#[derive(Clone, Debug)]
struct Write {
    account: String,
    by: String,
    at: String,
    body: Value,
}

/// The accounts of the leash, with every right that there is: what is denied, the leash denies.
pub struct Accounts {
    controller: Client,
    warm: Client,
}

impl Accounts {
    pub async fn of(namespace: &str) -> Self {
        Self {
            controller: account(namespace, "swaplet").await,
            warm: account(namespace, "swaplet-warm").await,
        }
    }
}

async fn account(namespace: &str, name: &str) -> Client {
    let mut kubeconfig = Kubeconfig::read().unwrap();
    for known in &mut kubeconfig.auth_infos {
        let info = known.auth_info.as_mut().unwrap();
        info.impersonate = Some(format!("system:serviceaccount:{namespace}:{name}"));
        info.impersonate_groups = Some(vec!["system:masters".to_owned()]);
    }
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    Client::try_from(config).unwrap()
}

/// What the strings in angle brackets stand for, and the bodies that swaplet makes.
pub struct Filling {
    pub words: BTreeMap<String, String>,
    pub made: BTreeMap<&'static str, Value>,
}

impl Filling {
    fn fill(&self, text: &str) -> String {
        self.words
            .iter()
            .fold(text.to_owned(), |text, (word, value)| {
                text.replace(&format!("<{word}>"), value)
            })
    }

    fn body(&self, with: Option<&Value>, made: Option<&str>) -> Option<Value> {
        with.cloned().or_else(|| {
            Some(
                self.made
                    .get(made?)
                    .unwrap_or_else(|| panic!("{made:?} is not made"))
                    .clone(),
            )
        })
    }
}

impl Leashed {
    /// Makes all writes of a table; how many were denied.
    pub async fn all_writes_of(
        &self,
        table: &str,
        accounts: &Accounts,
        filling: &Filling,
    ) -> usize {
        let table: Value = serde_saphyr::from_str(&filling.fill(table)).unwrap();
        let table: Table = serde_json::from_value(table).unwrap();
        let mut denied = 0;
        let mut wrong = Vec::new();
        for group in &table.writes {
            let write = read(&group.allowed, filling);
            if let Err(words) = self.is_let_through(accounts, &write).await {
                wrong.push(format!("{write:?} was denied: {words}"));
            }
            for line in &group.deny {
                let message = table
                    .says
                    .get(&line.says)
                    .unwrap_or_else(|| panic!("{line:?} says nothing that is known"));
                let by = format!(
                    "ValidatingAdmissionPolicy '{}{}'",
                    self.prefix, table.policy
                );
                match self.send(accounts, &changed(&write, line, filling)).await {
                    Ok(()) => wrong.push(format!("{line:?} was let through; beside {write:?}")),
                    Err(words) if words.contains(&by) && words.contains(message) => denied += 1,
                    Err(words) => {
                        wrong.push(format!("{line:?}: expected {by} and {message:?}; {words}"))
                    }
                }
            }
        }
        assert!(
            wrong.is_empty(),
            "{} of {}:\n{}",
            wrong.len(),
            table.policy,
            wrong.join("\n")
        );
        denied
    }

    /// Others write as well, so there may be a conflict.
    async fn is_let_through(&self, accounts: &Accounts, write: &Write) -> Result<(), String> {
        for _ in 0..5 {
            match self.send(accounts, write).await {
                Err(words)
                    if words.contains("the object has been modified")
                        || words.contains("testing value") => {}
                answer => return answer,
            }
        }
        self.send(accounts, write).await
    }

    async fn send(&self, accounts: &Accounts, write: &Write) -> Result<(), String> {
        let (method, content_type) = match write.by.as_str() {
            "post" => ("POST", "application/json"),
            "patch" => ("PATCH", "application/strategic-merge-patch+json"),
            "merge" => ("PATCH", "application/merge-patch+json"),
            "json" => ("PATCH", "application/json-patch+json"),
            "apply" => ("PATCH", "application/apply-patch+yaml"),
            "delete" => ("DELETE", "application/json"),
            other => panic!("{other} is no way to write"),
        };
        let at = if write.at.starts_with('/') {
            write.at.clone()
        } else {
            format!("/api/v1/namespaces/{}/{}", self.world.namespace, write.at)
        };
        let forced = if write.by == "apply" {
            "&fieldManager=swaplet&force=true"
        } else {
            ""
        };
        let body = if write.body.is_null() {
            Vec::new()
        } else {
            write.body.to_string().into_bytes()
        };
        let request = http::Request::builder()
            .method(method)
            .uri(format!("{at}?dryRun=All{forced}"));
        let request = request
            .header("content-type", content_type)
            .body(body)
            .unwrap();
        let client = if write.account == "warm" {
            &accounts.warm
        } else {
            &accounts.controller
        };
        client
            .request::<Value>(request)
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    }

    /// The API server learns of each policy some time after it is stored.
    pub async fn table_is_on(&self, table: &str, accounts: &Accounts, filling: &Filling) {
        let table: Value = serde_saphyr::from_str(&filling.fill(table)).unwrap();
        let table: Table = serde_json::from_value(table).unwrap();
        let group = &table.writes[0];
        let write = changed(&read(&group.allowed, filling), &group.deny[1], filling);
        eventually("the policy to be on", || async {
            self.send(accounts, &write)
                .await
                .err()
                .filter(|words| words.contains(&self.prefix))
        })
        .await;
    }
}

fn read(allowed: &Value, filling: &Filling) -> Write {
    let text = |key: &str| allowed[key].as_str();
    let ways = ["post", "patch", "merge", "json", "delete"];
    let by = ways
        .into_iter()
        .find(|way| text(way).is_some())
        .unwrap_or_else(|| panic!("how is it written? {allowed}"));
    let mut body = filling
        .body(allowed.get("with"), text("made"))
        .unwrap_or_default();
    let set: BTreeMap<String, Value> =
        serde_json::from_value(allowed.get("set").cloned().unwrap_or(Map::new().into())).unwrap();
    let remove: Vec<String> = serde_json::from_value(
        allowed
            .get("remove")
            .cloned()
            .unwrap_or(Value::Array(Vec::new())),
    )
    .unwrap();
    change(&mut body, &set, &remove);
    Write {
        account: text("as").unwrap_or("controller").to_owned(),
        by: by.to_owned(),
        at: text(by).unwrap_or_default().to_owned(),
        body,
    }
}

fn changed(write: &Write, line: &Denied, filling: &Filling) -> Write {
    let mut write = write.clone();
    write.body = filling
        .body(line.with.as_ref(), line.made.as_deref())
        .unwrap_or(write.body);
    write.at = line.at.clone().unwrap_or(write.at);
    write.by = line.by.clone().unwrap_or(write.by);
    if write.by == "delete" {
        write.body = Value::Null;
    }
    change(&mut write.body, &line.set, &line.remove);
    write
}

fn change(body: &mut Value, set: &BTreeMap<String, Value>, remove: &[String]) {
    for pointer in remove {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        match body.pointer_mut(parent) {
            Some(Value::Object(fields)) => drop(fields.remove(&unescaped(key))),
            Some(Value::Array(items)) => drop(items.remove(key.parse().unwrap())),
            _ => panic!("there is no {pointer} to remove"),
        }
    }
    for (pointer, value) in set {
        *place(body, pointer) = value.clone();
    }
}

/// The place of a pointer, which is made where it is missing; one behind the end of a list is added
/// to it.
fn place<'a>(body: &'a mut Value, pointer: &str) -> &'a mut Value {
    pointer.split('/').skip(1).fold(body, |at, key| match at {
        Value::Array(items) => {
            let index: usize = key.parse().unwrap();
            if index == items.len() {
                items.push(Value::Null);
            }
            &mut items[index]
        }
        other => {
            if !other.is_object() {
                *other = Map::new().into();
            }
            other
                .as_object_mut()
                .unwrap()
                .entry(unescaped(key))
                .or_insert(Value::Null)
        }
    })
}

fn unescaped(key: &str) -> String {
    key.replace("~1", "/").replace("~0", "~")
}
