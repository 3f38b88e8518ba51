//! The validation of pod specs, of pods and of templates.

use serde_json::Value;

use super::meta::dns_label;
use crate::apiserver::objects::json::{int, list, text};
use crate::apiserver::objects::status::FieldError;

/// Returns the errors of a pod spec at `path`.
pub fn validate(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let volumes: Vec<_> = list(spec, "/volumes")
        .iter()
        .map(|volume| text(volume, "/name"))
        .collect();
    if list(spec, "/containers").is_empty() {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    let mut names = Vec::new();
    for field in ["containers", "initContainers"] {
        for (index, container) in list(spec, &format!("/{field}")).iter().enumerate() {
            errors.extend(validate_container(
                container,
                &format!("{path}.{field}[{index}]"),
                &volumes,
                &mut names,
            ));
        }
    }
    errors.extend(one_of(
        spec,
        path,
        "restartPolicy",
        &["Always", "OnFailure", "Never"],
    ));
    errors.extend(one_of(
        spec,
        path,
        "dnsPolicy",
        &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
    ));
    errors.extend(positive_deadline(spec, path));
    errors.extend(tolerations(spec, path));
    errors
}

fn validate_container<'a>(
    container: &'a Value,
    path: &str,
    volumes: &[&str],
    names: &mut Vec<&'a str>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = text(container, "/name");
    if name.is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    } else {
        errors.extend(dns_label(&format!("{path}.name"), name));
    }
    if !name.is_empty() && names.contains(&name) {
        errors.push(FieldError::duplicate(format!("{path}.name"), name));
    }
    names.push(name);
    errors.extend(image(text(container, "/image"), path));
    errors.extend(one_of(
        container,
        path,
        "imagePullPolicy",
        &["Always", "IfNotPresent", "Never"],
    ));
    errors.extend(one_of(
        container,
        path,
        "terminationMessagePolicy",
        &["FallbackToLogsOnError", "File"],
    ));
    errors.extend(mounts(container, path, volumes));
    errors
}

/// Checks the two rules of images; the syntax is left to the kubelet.
pub fn image(image: &str, path: &str) -> Option<FieldError> {
    if image.is_empty() {
        return Some(FieldError::required(format!("{path}.image"), ""));
    }
    let rule = "must not have leading or trailing whitespace";
    (image.trim() != image)
        .then(|| FieldError::invalid(format!("{path}.image"), &image.into(), rule))
}

fn mounts(container: &Value, path: &str, volumes: &[&str]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, mount) in list(container, "/volumeMounts").iter().enumerate() {
        let name = text(mount, "/name");
        if !volumes.contains(&name) {
            errors.push(FieldError::not_found(
                format!("{path}.volumeMounts[{index}].name"),
                name,
            ));
        }
        if text(mount, "/mountPath").is_empty() {
            errors.push(FieldError::required(
                format!("{path}.volumeMounts[{index}].mountPath"),
                "",
            ));
        }
    }
    errors
}

fn one_of(value: &Value, path: &str, field: &str, allowed: &[&str]) -> Option<FieldError> {
    let text = value[field].as_str()?;
    (!allowed.contains(&text))
        .then(|| FieldError::unsupported(format!("{path}.{field}"), text, allowed))
}

/// Checks that only `NoExecute` tolerations have seconds.
fn tolerations(spec: &Value, path: &str) -> Vec<FieldError> {
    let rule = "effect must be 'NoExecute' when `tolerationSeconds` is set";
    let mut errors = Vec::new();
    for (index, toleration) in list(spec, "/tolerations").iter().enumerate() {
        let effect = text(toleration, "/effect");
        if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
            errors.push(FieldError::invalid(
                format!("{path}.tolerations[{index}].effect"),
                &effect.into(),
                rule,
            ));
        }
    }
    errors
}

fn positive_deadline(spec: &Value, path: &str) -> Option<FieldError> {
    let seconds = int(spec, "/activeDeadlineSeconds")?;
    let rule = "must be between 1 and 2147483647, inclusive";
    (!(1..=i64::from(i32::MAX)).contains(&seconds)).then(|| {
        FieldError::invalid(
            format!("{path}.activeDeadlineSeconds"),
            &seconds.into(),
            rule,
        )
    })
}
