use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).unwrap()
}

fn rows() -> Vec<Row> {
    let node = |name: &str, labels: Value| {
        let node = json!({"metadata": {"name": name, "uid": "u", "labels": labels}});
        serde_json::from_value::<NodeWire>(node)
            .unwrap()
            .read()
            .unwrap()
    };
    let nodes = [
        node("eci", json!({"k8s.aliyun.com/vnode": "true"})),
        node("ip-10-0-0-1", json!({})),
        node("odd", json!({"swaplet.io/node-class": "Inert"})),
        node("said", json!({"swaplet.io/node-class": "VirtualInert"})),
        node("vk", json!({"type": "virtual-kubelet"})),
        node("vk-other-uid", json!({"type": "virtual-kubelet"})),
    ];
    let kept = |uid: &str, until| Kept {
        uid: uid.into(),
        proved: "Rejects".into(),
        proved_at: at(-300),
        until: at(until),
        times: 0,
        pod: "batch/report".into(),
        provider: "virtual-kubelet".into(),
        taken_for: Box::default(),
    };
    let fails = Kept {
        proved: "FailsUnderNever".into(),
        ..kept("u", 60)
    };
    let all = [
        ("vk", kept("u", 86_100)),
        ("eci", kept("u", -1)),
        ("vk-other-uid", kept("other", 60)),
        ("under-never_vk", fails),
    ];
    let all: AllKept = all
        .into_iter()
        .map(|(node, kept)| (node.to_owned(), kept))
        .collect();
    nodes
        .iter()
        .map(|node| Row::of(node, &NodeTable::built_in(), &all, at(0)))
        .collect()
}

#[test]
fn the_table_says_class_provider_proof_and_why() {
    let text = show(&rows(), Output::Table, at(0)).unwrap();
    let expected = [
        "NAME           CLASS            PROVIDER                  PROVED           WHY",
        "eci            VirtualUpdates   Alibaba ECI               -                row alibaba-eci: label k8s.aliyun.com/vnode=true",
        "ip-10-0-0-1    Kubelet          -                         -                an ordinary node: no row of the table matches",
        "odd            Kubelet          -                         -                an ordinary node: no row of the table matches",
        "said           VirtualInert     -                         -                label swaplet.io/node-class",
        "vk             VirtualRejects   unknown virtual-kubelet   Rejects 5m ago   proved: Rejects, FailsUnderNever; row virtual-kubelet: label type=virtual-kubelet",
        "vk-other-uid   Unknown          unknown virtual-kubelet   -                row virtual-kubelet: label type=virtual-kubelet",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{text}");
    let problems: Vec<_> = rows().iter().filter_map(Row::problem).collect();
    assert!(
        problems.len() == 1
            && problems[0].starts_with("node odd: label swaplet.io/node-class is \"Inert\""),
        "{problems:?}"
    );
}

#[test]
fn wide_and_json_say_all() {
    let wide = show(&rows(), Output::Wide, at(0)).unwrap();
    let eci = wide.lines().find(|line| line.starts_with("eci")).unwrap();
    assert!(
        eci.contains("   4   ")
            && eci.contains("restartPolicy Never")
            && eci.contains("ECI limits"),
        "{eci}"
    );
    let vk = wide.lines().find(|line| line.starts_with("vk ")).unwrap();
    assert!(vk.contains("batch/report   23h"), "{vk}");
    let json: Value = serde_json::from_str(&show(&rows(), Output::Json, at(0)).unwrap()).unwrap();
    assert_eq!(json["nodes"][4]["proved"]["proved"], "Rejects");
    assert_eq!(
        (&json["nodes"][4]["class"], &json["nodes"][4]["takenFor"]),
        (&json!("VirtualRejects"), &json!("Unknown"))
    );
    assert_eq!(
        (
            &json["nodes"][0]["updatesPerSecond"],
            &json["nodes"][0]["endsEciSidecars"]
        ),
        (&json!(4.0), &json!(true))
    );
    assert_eq!(json["nodes"][1]["row"], Value::Null);
    assert_eq!(
        (
            &json["nodes"][4]["provedUnderNever"]["proved"],
            &json["nodes"][0]["swapUnderNever"]
        ),
        (&json!("FailsUnderNever"), &json!(true))
    );
}

#[test]
fn a10_a_node_is_named_as_kubectl_prints_it_and_nothing_else_is() {
    for written in ["n-1", "node/n-1", "nodes/n-1", "no/n-1"] {
        assert_eq!(node_name(written).as_deref(), Ok("n-1"), "{written}");
    }
    assert!(node_name("pod/n-1").is_err());
}
