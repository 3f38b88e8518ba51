use super::*;

fn parsed(text: &str) -> Manifests {
    let mut manifests = Manifests::default();
    manifests.parse("f.yaml", text);
    manifests
}

#[test]
fn documents_are_split_at_markers() {
    let text = "%YAML 1.2\n---\n# nothing\n---\na: 1\n--- # two\nb: |\n  ---\n  text\n...\n---\n--- {c: 3}\n";
    let objects: Vec<String> = parsed(text)
        .documents
        .iter()
        .map(|document| document.object.to_string())
        .collect();
    assert_eq!(
        objects,
        [r#"{"a":1}"#, r#"{"b":"---\ntext\n"}"#, r#"{"c":3}"#]
    );
}

#[test]
fn json_is_read_as_it_is() {
    assert_eq!(
        parsed("{\n\"a\": \"x\\n---\\n\"}").documents[0].object["a"],
        "x\n---\n"
    );
}

/// As `kubectl get -o json | jq '.items[]'` prints them, and kubectl reads them.
#[test]
fn several_objects_of_json_are_read_with_and_without_markers() {
    for between in ["", "\n", "\n---\n", "\n---\nb: 2\n---\n"] {
        let manifests = parsed(&format!("{{\"a\": 1}}{between}{{\n  \"a\": 3\n}}\n"));
        assert_eq!(manifests.problems.len(), 0, "{between:?}");
        let last = manifests.documents.last().unwrap();
        assert_eq!(last.object["a"], 3, "{between:?}");
        assert!(manifests.documents.len() > 1, "{between:?}");
    }
    let problems = parsed("{\"a\": 1}\n{\"a\": \n").problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
}

#[test]
fn documents_of_very_many_values_are_not_read() {
    let list = |count: usize| format!("{{\"a\": [{}0]}}", "0,".repeat(count));
    assert_eq!(parsed(&list(MAX_NODES - 5)).documents.len(), 1);
    let problems = parsed(&list(MAX_NODES)).problems;
    let words = problems[0].to_string();
    assert!(
        words.starts_with("f.yaml: document 1, line 1: more than 1000000 values and keys"),
        "{words}"
    );
    let yaml = list(MAX_NODES).replace(['{', '}', '"'], "");
    assert_eq!(parsed(&yaml).problems.len(), 1);
    // In a string they are text.
    let text = format!(r#"{{"a": "\"{}"}}"#, ",".repeat(MAX_NODES));
    assert_eq!(parsed(&text).documents.len(), 1);
}

#[test]
fn problems_name_file_document_and_line() {
    let problems = parsed("a: 1\n---\nb: 2\nc: [\n").problems;
    let words = problems[0].to_string();
    assert!(words.starts_with("f.yaml: document 2, line "), "{words}");
    let words = parsed("a: {{ .Values.x }}\n  b: 1\n").problems[0].to_string();
    assert!(words.contains("helm template"), "{words}");
    for wrong in ["7\n", "- kind: Job\n", "- {op: add, path: /x}\n"] {
        let words = parsed(wrong).problems[0].to_string();
        assert!(words.contains("line 1: not an object"), "{words}");
    }
}

#[test]
fn u238_a_list_of_another_program_is_no_broken_manifest() {
    for list in ["- hosts: all\n", "[1, 2]\n", "[]\n", "- - a\n"] {
        let manifests = parsed(list);
        let problems = &manifests.problems;
        assert!(
            problems.is_empty() && manifests.documents.len() == 1,
            "{problems:?}"
        );
    }
    // The items of a list of an API server.
    assert_eq!(parsed("- metadata: {name: j}\n").problems.len(), 1);
}

/// As kubectl reads them.
#[test]
fn a4_modes_of_files_are_octal() {
    let object = &parsed("a: 0644\nb: 0755\nc: 0400\nd: '0644'\ne: 0o644\nf: 644\ng: 0\n")
        .documents[0]
        .object;
    let modes = ["a", "b", "c", "e", "f", "g"].map(|key| object[key].as_i64());
    assert_eq!(modes, [420, 493, 256, 420, 644, 0].map(Some));
    assert_eq!(object["d"], "0644");
}

/// As kubectl applies it: each object for itself.
#[test]
fn a4_a_list_is_the_objects_in_it() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- {kind: Job}\n- {kind: List, items: [{kind: Pod}]}\n- null\n---\nkind: ConfigMap\n";
    let manifests = parsed(text);
    let kinds: Vec<_> = manifests
        .documents
        .iter()
        .map(|document| document.object["kind"].as_str())
        .collect();
    assert_eq!(kinds, [Some("Job"), Some("Pod"), Some("ConfigMap")]);
    let problems = parsed("kind: List\nitems: 7\n---\nkind: List\nitems: [1]\n").problems;
    assert_eq!(problems.len(), 2, "{problems:?}");
    let words = problems[0].to_string();
    assert!(
        words.contains("document 1, line 1: items is not a list"),
        "{words}"
    );
}

#[test]
fn scalars_are_what_they_are_in_kubernetes() {
    let object = &parsed("a: \"true\"\nb: true\nc: 0\nd: &x {e: 1}\nf: *x\ng: {<<: *x, h: ~}\n")
        .documents[0]
        .object;
    assert_eq!(
        (&object["a"], &object["b"]),
        (&Value::from("true"), &Value::from(true))
    );
    assert_eq!(
        (object["f"]["e"].as_i64(), object["g"]["e"].as_i64()),
        (Some(1), Some(1))
    );
}
