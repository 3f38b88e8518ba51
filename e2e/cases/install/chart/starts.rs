//! What renders starts: `swaplet run` takes the arguments, the variables and the files of the
//! Deployment.

use serde_json::Value;
use tokio::process::Command;

use super::rendered;

/// Combinations of values, each with what is needed at least.
const COMBINATIONS: &[&str] = &[
    "terminate.exitImage=r.example/exit:v1",
    "terminate.exitImages={r.example/exit/*}",
    "terminate.prefer=finish",
    "terminate.prefer=finish,terminate.exitImageIsPublic=true,terminate.swapUnderNever=true",
    "terminate.prefer=finish,namespaces={a,b},nodes.watch=false,leash.enabled=false",
    "terminate.exitImage=r.example/exit:v1,terminate.prefer=crr,openkruise.enabled=true,openkruise.coexist=own",
    "terminate.exitImage=r.example/exit:v1,terminate.finish=never,terminate.exitImageIsPublic=false",
    "terminate.exitImage=r.example/exit:v1,terminate.exitImages={r.example/a:*,r.example/b@*},terminate.derivedRepository=r.example/derived",
    "terminate.exitImage=r.example/exit:v1,terminate.derivedRepository=r.example/derived,registry.secret=push,registry.plainHttp={r.example}",
    "terminate.exitImage=r.example/exit:v1,config.exit-image-paths={/opt/own/server},config.concurrency=8,config.write-timeout=5s",
    "terminate.exitImage.repository=r.example/exit,terminate.exitImage.tag=v2,terminate.prefer=finish,terminate.derivedRepository=r.example/derived",
    "terminate.exitImage=r.example/exit:v1,terminate.prefer=finish,config.exit-image-paths={/a}",
    "terminate.exitImage=r.example/exit:v1,sidecarPolicies.enabled=true,sidecarPolicies.containers={team-*},log.format=text,port=65535",
    "terminate.exitImage=r.example/exit:v1,openkruise.enabled=true,openkruise.coexist=defer,openkruise.warmCoexist=defer",
    "terminate.exitImage=r.example/exit:v1,args={--concurrency=3,--write-timeout=20s},env[0].name=RUST_BACKTRACE,env[0].value=1",
    "terminate.exitImage=r.example/exit:v1,serviceAccount.create=false,serviceAccount.name=theirs,fullnameOverride=ender",
    "terminate.exitImage=r.example/exit:v1,leash.exitImageDigests=true,leash.closedNamespaces=null,replicas=1,namespaces={a}",
    "terminate.enabled=false,restart.enabled=true",
    "terminate.enabled=false,restart.enabled=true,parkImage=r.example/park:v1,parkImagePaths={/opt/own/server}",
    "terminate.enabled=false,restart.enabled=true,restart.withoutLeash=true,leash.enabled=false,nodes.watch=false",
    "terminate.enabled=false,restart.enabled=true,restart.onConfig.enabled=true,config.restart-on-config-delay=10s",
    "terminate.enabled=false,restart.enabled=true,restart.onConfig.enabled=true,restart.onConfig.secretNamespaces={a},namespaces={a,b}",
    "terminate.enabled=false,restart.enabled=true,restart.readinessGates.enabled=true,bringBackParked.enabled=false",
    "terminate.enabled=false,hotUpgrade.enabled=true,hotUpgrade.images={r.example/proxy:*},parkImage=r.example/park:v1",
    "terminate.enabled=false,hotUpgrade.enabled=true,hotUpgrade.images={r.example/proxy:*},hotUpgrade.emptyImages={r.example/empty:*}",
    "terminate.enabled=false,warm.enabled=true,warm.jobs.enabled=true,parkImage=r.example/park:v1",
    "terminate.enabled=false,predownload.enabled=true",
    "terminate.enabled=false,predownload.enabled=true,warm.enabled=true,warm.jobs.enabled=true,parkImage=r.example/park:v1,warm.namespace=w",
    "terminate.enabled=false,protection.enabled=true,protection.count=true,protection.crds={widgets.example.com}",
    "terminate.exitImage=r.example/exit:v1,warm.enabled=true",
    "terminate.exitImage=r.example/exit:v1,warm.enabled=true,warm.jobs.enabled=true,parkImage=r.example/park:v1,warm.jobs.exitImages=true,\
     warm.jobs.startupTaint=true,warm.jobs.startupTaintSeconds=1,warm.jobs.startupTaintNamespaces={a,b}",
    "terminate.exitImage=r.example/exit:v1,warm.enabled=true,warm.jobs.enabled=true,parkImage=r.example/park:v1,warm.jobs.imageCaches=true,\
     warm.jobs.imageCacheDays=30,warm.jobs.imageCacheGiB=500,warm.jobs.trySecondsMax=60",
    "terminate.exitImage=r.example/exit:v1,warm.enabled=true,warm.jobs.enabled=true,parkImage=r.example/park:v1,\
     warm.jobs.sandboxKeys={network.example/*},warm.jobs.secretNamespaces={a},openkruise.warmCoexist=own",
    // Of what is off nothing else is said.
    "terminate.exitImage=r.example/exit:v1,restart.onConfig.enabled=true,warm.jobs.startupTaint=true,warm.jobs.imageCaches=true,\
     hotUpgrade.images={r.example/proxy:*},parkImage=r.example/park:v1,parkImagePaths={/a}",
    "terminate.enabled=false,terminate.finish=never,terminate.prefer=finish,terminate.derivedRepository=r.example/derived,\
     terminate.exitImages={r.example/exit/*},restart.enabled=true",
    "terminate.exitImage=r.example/exit:v1,sidecarPolicies.enabled=true,restart.enabled=true,restart.onConfig.enabled=true,\
     restart.readinessGates.enabled=true,hotUpgrade.enabled=true,hotUpgrade.images={r.example/proxy:*},parkImage=r.example/park:v1,\
     warm.enabled=true,warm.jobs.enabled=true,warm.jobs.exitImages=true,predownload.enabled=true,protection.enabled=true,\
     protection.count=true,openkruise.enabled=true",
];

/// What no program would start with is refused before, by the names of the values.
const REFUSED: &[(&str, &str)] = &[
    (
        "terminate.exitImage=r.example/exit:v1,terminate.prefer=finish,terminate.finish=never",
        "terminate.prefer=finish and terminate.finish=never exclude each other",
    ),
    (
        "terminate.prefer=finish,terminate.derivedRepository=r.example/derived",
        "terminate.derivedRepository needs an exit image",
    ),
    (
        "terminate.exitImages={r.example/exit/*},terminate.derivedRepository=r.example/derived",
        "terminate.derivedRepository needs an exit image",
    ),
    (
        "terminate.prefer=finish,config.exit-image-paths={/a}",
        "config.exit-image-paths needs an exit image",
    ),
    (
        "terminate.enabled=false,terminate.exitImage=r.example/exit:v1,restart.enabled=true,config.exit-image-paths={/a}",
        "config.exit-image-paths needs an exit image",
    ),
    (
        "terminate.exitImage=r.example/swaplet:v1,parkImage=r.example/swaplet:v1,restart.enabled=true",
        "parkImage is terminate.exitImage",
    ),
    (
        "terminate.exitImage=r.example/exit:v1,registry.plainHttp={http://registry:5000}",
        "plainHttp",
    ),
    (
        "terminate.exitImages={r.example/swaplet/*},parkImage=r.example/swaplet/park:v1,restart.enabled=true",
        "parkImage is one of terminate.exitImages (r.example/swaplet/*)",
    ),
    (
        "terminate.exitImage=r.example/exit:v1,parkImage=r.example/park:v1,hotUpgrade.enabled=true,hotUpgrade.images={r.example/*}",
        "hotUpgrade.images has the park image or the exit image (r.example/*)",
    ),
];

/// Runs the controller of these manifests as far as it goes without a cluster.
async fn start(manifests: &str) -> std::process::Output {
    let objects: Vec<Value> = serde_saphyr::from_multiple(manifests).unwrap();
    let one = |kind: &str| {
        let mut found = objects.iter().filter(|object| object["kind"] == kind);
        found.next().unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    for (name, text) in one("ConfigMap")["data"].as_object().unwrap() {
        write(name, text.as_str().unwrap());
    }
    write(".dockerconfigjson", r#"{"auths": {}}"#);
    let container = &one("Deployment")["spec"]["template"]["spec"]["containers"][0];
    let here = folder.path().to_str().unwrap();
    let arguments = container["args"].as_array().unwrap().iter().map(|word| {
        let word = word.as_str().unwrap();
        ["config", "registry"]
            .iter()
            .fold(word.to_owned(), |word, mount| {
                word.replace(&format!("/etc/swaplet/{mount}"), here)
            })
    });
    let variables = container["env"].as_array().unwrap().iter().map(|variable| {
        let name = variable["name"].as_str().unwrap();
        // What a field gives is a name.
        (name, variable["value"].as_str().unwrap_or("swaplet"))
    });
    Command::new(env!("CARGO_BIN_EXE_swaplet"))
        .args(arguments)
        .arg("--print-config")
        .env_clear()
        .envs(variables)
        .output()
        .await
        .unwrap()
}

#[tokio::test]
async fn what_renders_starts() {
    for values in COMBINATIONS {
        let manifests = rendered(&format!("image=r.example/swaplet:v1,{values}")).await;
        let manifests = manifests.unwrap_or_else(|error| panic!("{values}: {error}"));
        let output = start(&manifests).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{values}: {said}");
    }
    for (values, reason) in REFUSED {
        let words = rendered(&format!("image=r.example/swaplet:v1,{values}")).await;
        let words = words.expect_err(values);
        assert!(words.contains(reason), "{values}: {words}");
    }
}
