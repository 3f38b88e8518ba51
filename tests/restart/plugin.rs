//! Installed as `kubectl-swaplet` the program is a plugin of kubectl, and says so.

use std::os::unix::fs::symlink;

use crate::restart::world::{Ran, World};

#[tokio::test]
async fn as_a_plugin_it_calls_itself_as_the_user_does() {
    let world = World::new().await;
    world.pod("web-0").await;
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("kubectl-swaplet");
    symlink(env!("CARGO_BIN_EXE_swaplet"), &plugin).unwrap();
    let run = async |arguments: &[&str]| -> Ran {
        world
            .command(plugin.to_str().unwrap(), arguments)
            .output()
            .await
            .unwrap()
            .into()
    };
    for (arguments, usage) in [
        (
            &["--help"][..],
            "Usage: kubectl swaplet [OPTIONS] <COMMAND>",
        ),
        (
            &["restart", "--help"],
            "Usage: kubectl swaplet restart [OPTIONS] [TARGET]...",
        ),
    ] {
        let ran = run(arguments).await;
        assert!(ran.out.contains(usage), "{}", ran.out);
    }
    let wrong = run(&["restart", "--timeout", "x"]).await;
    assert_eq!(wrong.code, Some(2));
    let ran = run(&["restart", "web-0", "-c", "app", "--dry-run"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let path = format!(
        "{}:{}",
        folder.path().display(),
        std::env::var("PATH").unwrap()
    );
    let kubectl: Ran = world
        .command(
            "kubectl",
            &["swaplet", "restart", "web-0", "-c", "app", "--dry-run"],
        )
        .env("PATH", path)
        .output()
        .await
        .unwrap()
        .into();
    assert_eq!((kubectl.code, kubectl.out), (Some(0), ran.out));
    shows_its_own_name_otherwise(&world).await;
}

async fn shows_its_own_name_otherwise(world: &World) {
    let plain: Ran = world
        .command(env!("CARGO_BIN_EXE_swaplet"), &["restart", "--help"])
        .output()
        .await
        .unwrap()
        .into();
    assert!(
        plain
            .out
            .contains("Usage: swaplet restart [OPTIONS] [TARGET]..."),
        "{}",
        plain.out
    );
    for word in [
        "Examples:",
        "Exit codes:",
        "deploy/web",
        "PodDisruptionBudget",
    ] {
        assert!(plain.out.contains(word), "{word}: {}", plain.out);
    }
}
