use clap::Parser;

use super::*;

#[derive(Parser)]
struct Only {
    #[command(flatten)]
    args: MockNodeArgs,
}

fn parse(line: &str) -> Result<NodeOptions, String> {
    Only::try_parse_from(line.split(' '))
        .map(|only| only.args.options())
        .map_err(|error| error.to_string())
}

#[test]
fn flags_become_options() {
    let node = parse("x --profile updates --name n --gap judged --metadata reverting --container-ids new --exit-runs 50ms --label type= --taint a=b:NoExecute").unwrap();
    let Profile::Virtual(provider) = node.profile else {
        panic!("{:?}", node.profile)
    };
    assert_eq!(
        (
            provider.gap,
            provider.keeps_metadata,
            provider.new_container_ids
        ),
        (Gap::Judged, false, true)
    );
    assert_eq!(provider.exit_runs, Duration::from_millis(50));
    assert_eq!(
        node.taints,
        [Taint {
            key: "a".into(),
            value: "b".into(),
            effect: "NoExecute".into()
        }]
    );
    for (flag, version) in [
        (" --kubelet-version 1.34", KubeletVersion::V1_34),
        (" --kubelet-version 1.36", KubeletVersion::V1_36),
        ("", KubeletVersion::V1_37),
    ] {
        let kubelet = parse(&format!("x --profile kubelet{flag}")).unwrap();
        let expected = Profile::Kubelet(KubeletOptions::of(version));
        assert_eq!(kubelet.profile, expected, "{flag}");
        assert!(kubelet.taints.is_empty());
    }
}

#[test]
fn wrong_flags_are_explained() {
    assert!(
        parse("x --profile kubelet --pull soon")
            .unwrap_err()
            .contains("1m30s")
    );
    assert!(
        parse("x --profile kubelet --taint a")
            .unwrap_err()
            .contains("KEY=VALUE:EFFECT")
    );
    assert!(
        parse("x --profile kubelet --missing */x")
            .unwrap_err()
            .contains("registry's host")
    );
}
