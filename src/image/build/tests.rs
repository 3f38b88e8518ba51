use super::*;

/// The budget for one platform besides the tar headers of its links.
const BUDGET: usize = 10 * 1024;

fn parsed(blob: &Blob) -> Value {
    serde_json::from_slice(&blob.bytes).unwrap()
}

#[test]
fn the_standard_images_are_small() {
    for kind in [Kind::Exit, Kind::Park] {
        for image in build_standard(kind).unwrap().platforms {
            println!(
                "{kind} {}: program {} B, layer {} B, all {} B, without links {} B",
                image.platform,
                image.program_size,
                image.layer.bytes.len(),
                image.size(),
                image.size_without_links()
            );
            assert!(image.size_without_links() <= BUDGET);
        }
    }
}

#[test]
fn the_same_input_gives_the_same_digest() {
    let one = build(Kind::Exit, ["/b", "/a"]).unwrap();
    assert_eq!(one, build(Kind::Exit, ["/a", "/b", "/a"]).unwrap());
    assert_ne!(one.digest(), build(Kind::Exit, ["/a"]).unwrap().digest());
    assert_ne!(
        build(Kind::Exit, [""; 0]).unwrap().digest(),
        build(Kind::Park, [""; 0]).unwrap().digest()
    );
}

#[test]
fn digests_and_sizes_chain_from_the_index_to_the_layer() {
    let image = build_standard(Kind::Exit).unwrap();
    let index = parsed(&image.index);
    assert_eq!(index["mediaType"], media_type::INDEX);
    for (entry, platform) in index["manifests"]
        .as_array()
        .unwrap()
        .iter()
        .zip(&image.platforms)
    {
        assert_eq!(entry["digest"], platform.manifest.digest);
        assert_eq!(entry["size"], platform.manifest.bytes.len());
        assert_eq!(
            entry["platform"]["architecture"],
            platform.platform.architecture()
        );
        let manifest = parsed(&platform.manifest);
        assert_eq!(manifest["config"]["digest"], platform.config.digest);
        assert_eq!(manifest["layers"][0]["digest"], platform.layer.digest);
        assert_eq!(
            parsed(&platform.config)["rootfs"]["diff_ids"][0],
            platform.layer.digest
        );
    }
}

#[test]
fn the_configuration_fits_restricted_pods() {
    for kind in [Kind::Exit, Kind::Park] {
        let image = build_standard(kind).unwrap();
        let config = parsed(&image.platforms[0].config);
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["config"]["Entrypoint"], json!([kind.program_path()]));
        assert_eq!(config["config"]["Labels"][LABEL], Label::from(kind).value());
        assert!(
            config["config"]["Env"][0]
                .as_str()
                .unwrap()
                .starts_with("PATH=")
        );
        assert!(config["config"].get("Volumes").is_none());
    }
}

#[test]
fn the_controller_image_starts_the_program_where_it_lies() {
    let of = |files: &[&str]| {
        let files = files
            .iter()
            .map(|path| ((*path).to_owned(), b"contents".to_vec()))
            .collect();
        build_controller(&[ProgramFiles {
            platform: Platform::Amd64,
            files,
            program_size: 8,
        }])
        .unwrap()
    };
    let image = of(&[PROGRAM]);
    assert_eq!(image.platforms.len(), 1);
    let config = parsed(&image.platforms[0].config);
    assert_eq!(config["config"]["Entrypoint"], json!([PROGRAM]));
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["Labels"][LABEL], "controller");
    assert_eq!(
        config["config"]["Env"],
        json!([format!("PATH={PATH}")]),
        "static"
    );
    assert_eq!(image, of(&[PROGRAM]));
    let config = parsed(&of(&[PROGRAM, "/swaplet/lib/libc.so.6"]).platforms[0].config);
    assert_eq!(
        config["config"]["Env"],
        json!([
            format!("PATH={PATH}"),
            "LD_LIBRARY_PATH=/swaplet/lib",
            "MALLOC_TRIM_THRESHOLD_=131072"
        ])
    );
}

#[test]
fn a_container_that_is_parked_finds_its_command_where_one_that_is_ended_does() {
    assert_eq!(
        build_standard(Kind::Park).unwrap().paths,
        build_standard(Kind::Exit).unwrap().paths
    );
}

#[test]
fn a_derived_image_has_what_was_asked_for_and_the_standard_paths_around_it() {
    let derived = build_derived(
        Kind::Exit,
        [
            "/opt/app/run",
            "/vault/agent",
            "/entrypoint/main",
            "/usr/bin",
        ],
    )
    .unwrap();
    assert!(
        ["/opt/app/run", "/entrypoint/main", "/usr/bin", "/bin/sh"]
            .into_iter()
            .all(|path| derived.paths.contains(path))
    );
    assert!(
        ["/entrypoint", "/usr/bin/env"]
            .into_iter()
            .all(|path| !derived.paths.contains(path))
    );
    assert_eq!(
        build_derived(Kind::Exit, ["/bin/sh"]).unwrap(),
        build_standard(Kind::Exit).unwrap()
    );
    assert!(build_derived(Kind::Exit, ["relative"]).is_err());
}

#[test]
fn digests_are_those_of_the_standard() {
    assert_eq!(
        digest_of(b""),
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
}
