//! The leash (`deploy/leash.yaml`, `deploy/leash-parked.yaml`) for the ServiceAccounts of all
//! cases, and against everybody else in their namespaces: what it denies that somebody needs fails
//! a case.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::json;
use tokio::process::Command;
use tokio::sync::OnceCell;

use crate::world::{apply, eventually, kubectl, variable};

const LABEL: &str = "swaplet-e2e-leash";

static LEASH: OnceCell<String> = OnceCell::const_new();

/// The labels of a namespace in which the leash holds.
pub async fn labels() -> serde_json::Value {
    json!({LABEL: LEASH.get_or_init(install).await})
}

/// Its name, as `swaplet run --leash` takes it.
pub fn name() -> String {
    format!("e2e-{}-leash", hash_of(&text()))
}

fn hash_of(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:x}", hasher.finish())
}

/// Accounts of cases that bring a leash of their own are not on it: of a node, which is in no
/// namespace, both would tell a denial.
fn text() -> String {
    let registry = variable("SWAPLET_E2E_REGISTRY");
    concat!(include_str!("../../deploy/leash.yaml"), "\n---\n", include_str!("../../deploy/leash-parked.yaml"))
        .replace(
            r#"request.userInfo.username != "system:serviceaccount:swaplet:swaplet""#,
            r#"(request.userInfo.username.matches("^system:serviceaccount:e2e-[^:]*:swaplet$") == false)"#,
        )
        .replace(
            r#"request.userInfo.username == "system:serviceaccount:swaplet:swaplet""#,
            r#"(request.userInfo.username.matches("^system:serviceaccount:e2e-[^:]*:swaplet$") && request.userInfo.username.startsWith("system:serviceaccount:e2e-leash-") == false)"#,
        )
        .replace(
            r#"["registry.example/swaplet/exit:v1"]"#,
            &json!(["*/swaplet/exit:e2e*", format!("{registry}/e2e/derived-*@*")]).to_string(),
        )
        .replace(
            r#"["registry.example/swaplet/park:v1"]"#,
            &json!([format!("{registry}/swaplet/park:e2e"), format!("{registry}/e2e/hot-empty-*")]).to_string(),
        )
        .replace(r#"["registry.example/none:none"]"#, &json!([format!("{registry}/e2e/hot-mesh-*")]).to_string())
        .replace(
            r#"request.userInfo.username in ["system:serviceaccount:swaplet:swaplet", "system:serviceaccount:swaplet-warm:swaplet-warm"]"#,
            r#"(request.userInfo.username.matches("^system:serviceaccount:e2e-[^:]*:swaplet$") && request.userInfo.username.startsWith("system:serviceaccount:e2e-leash-") == false)"#,
        )
        .replace(r#"'["-"]'"#, r#"'["istio-proxy", "fluent-bit"]'"#)
        .replace(r#"'[""]'"#, r#"'["*", "*/*"]'"#)
        .replace(r#"["swaplet-warm"]"#, r#"["*"]"#)
}

/// For the namespaces of the cases only, and under another name for another manifest: two checkouts
/// can use one cluster.
async fn install() -> String {
    let text = text();
    let hash = hash_of(&text);
    let mut objects: Vec<serde_json::Value> =
        serde_saphyr::from_multiple(&text.replace("swaplet-leash-", &format!("{}-", name())))
            .unwrap();
    for object in objects
        .iter_mut()
        .filter(|object| object["kind"] == "ValidatingAdmissionPolicyBinding")
    {
        object["spec"]["matchResources"] =
            json!({"namespaceSelector": {"matchLabels": {LABEL: hash}}});
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leash.json");
    std::fs::write(
        &file,
        json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string(),
    )
    .unwrap();
    apply(&file).await;
    is_on(&hash).await;
    hash
}

/// The API server learns of policies some time after they are stored.
async fn is_on(hash: &str) {
    let namespace = format!("e2e-on-the-leash-{hash}-{}", std::process::id());
    kubectl(&["create", "namespace", &namespace]).await;
    kubectl(&["label", "namespace", &namespace, &format!("{LABEL}={hash}")]).await;
    let account = format!("--as=system:serviceaccount:{namespace}:swaplet");
    let run = [
        "run",
        "p",
        "--image=p:1",
        "--dry-run=server",
        "-n",
        &namespace,
        &account,
        "--as-group=system:masters",
    ];
    eventually("the leash to be on", || async {
        let output = Command::new("kubectl")
            .args(run)
            .output()
            .await
            .expect("kubectl");
        String::from_utf8_lossy(&output.stderr)
            .contains("swaplet makes and deletes warmer pods only")
            .then_some(())
    })
    .await;
    kubectl(&["delete", "namespace", &namespace, "--wait=false"]).await;
}
