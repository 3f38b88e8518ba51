//! Sidecars that are known by their image or name, and the marks that have some injected.

use serde_json::Value;

use crate::image::parsed::parts;

/// The known sidecars that do not end by themselves, from the documents of each project: what each
/// is, the last segments of its repositories, and the container names that its injector uses.
const KNOWN: [(&str, &[&str], &[&str]); 16] = [
    (
        "Istio's proxy",
        &["istio/proxyv2", "proxyv2"],
        &["istio-proxy"],
    ),
    (
        "Linkerd's proxy",
        &["linkerd/proxy", "linkerd2-proxy"],
        &["linkerd-proxy"],
    ),
    (
        "Google's Cloud SQL proxy",
        &["cloud-sql-proxy", "cloudsql-docker/gce-proxy"],
        &["cloud-sql-proxy"],
    ),
    ("Fluent Bit", &["fluent-bit", "aws-for-fluent-bit"], &[]),
    ("Fluentd", &["fluentd"], &[]),
    ("the Vault agent", &[], &["vault-agent"]),
    (
        "the Datadog agent",
        &["datadog/agent", "datadoghq/agent"],
        &[],
    ),
    (
        "an OpenTelemetry collector",
        &[
            "opentelemetry-collector",
            "opentelemetry-collector-contrib",
            "opentelemetry-collector-k8s",
            "aws-otel-collector",
        ],
        &["otc-container"],
    ),
    ("Envoy", &["envoyproxy/envoy"], &[]),
    ("Dapr", &["daprd"], &["daprd"]),
    ("Kuma's proxy", &["kuma-dp"], &["kuma-sidecar"]),
    (
        "Consul's proxy",
        &["consul-dataplane"],
        &["consul-dataplane"],
    ),
    (
        "the X-Ray daemon",
        &["aws-xray-daemon", "xray/aws-xray-daemon"],
        &[],
    ),
    ("Filebeat", &["beats/filebeat"], &[]),
    ("Promtail", &["grafana/promtail"], &[]),
    ("Vector", &["timberio/vector"], &[]),
];

/// The marks that make an injector add a container, from its documents: the key of a label or
/// annotation of the pod, the values that disable it, and the name of the container.
const INJECTORS: [(&str, &[&str], &str); 8] = [
    ("sidecar.istio.io/inject", &["false"], "istio-proxy"),
    ("linkerd.io/inject", &["disabled"], "linkerd-proxy"),
    (
        "vault.hashicorp.com/agent-inject",
        &["false"],
        "vault-agent",
    ),
    ("dapr.io/enabled", &["false"], "daprd"),
    (
        "kuma.io/sidecar-injection",
        &["disabled", "false"],
        "kuma-sidecar",
    ),
    (
        "consul.hashicorp.com/connect-inject",
        &["false"],
        "consul-dataplane",
    ),
    (
        "sidecar.opentelemetry.io/inject",
        &["false"],
        "otc-container",
    ),
    (
        "agent.datadoghq.com/sidecar",
        &["false"],
        "datadog-agent-injected",
    ),
];

/// With this annotation Vault's injector adds an init container alone (Vault, "Annotations").
const ONLY_INIT: (&str, &str) = (
    "vault.hashicorp.com/agent-pre-populate-only",
    "vault.hashicorp.com/agent-inject",
);

/// Returns the name of a known sidecar, as the object of a sentence; `None` for any other image or
/// name.
pub fn sidecar(name: &str, image: &str) -> Option<&'static str> {
    let (repository, ..) = parts(image);
    let ends_with = |end: &&str| {
        repository
            .strip_suffix(end)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    };
    KNOWN
        .iter()
        .find(|(_, images, names)| names.contains(&name) || images.iter().any(ends_with))
        .map(|(what, ..)| *what)
}

/// A label or annotation that has a sidecar injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injection {
    /// The label or annotation.
    pub key: &'static str,
    /// The name of the container that is added.
    pub container: &'static str,
}

/// Returns the injections into pods with this metadata, or into those of an object with it.
pub fn injections(metadata: &[&Value]) -> Vec<Injection> {
    let value_of = |key: &str| {
        metadata.iter().find_map(|metadata| {
            ["labels", "annotations"]
                .iter()
                .find_map(|marks| metadata[*marks][key].as_str())
        })
    };
    let (only_init, by) = ONLY_INIT;
    let is_init = value_of(only_init) == Some("true");
    INJECTORS
        .into_iter()
        .filter(|(key, ..)| !(is_init && *key == by))
        .filter(|(key, off, _)| {
            value_of(key).is_some_and(|value| !value.is_empty() && !off.contains(&value))
        })
        .map(|(key, _, container)| Injection { key, container })
        .collect()
}
