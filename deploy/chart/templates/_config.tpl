{{- /* Keys that stand in no file here, by what says the same. */}}
{{- define "swaplet.elsewhere" -}}
exit-image: set terminate.exitImage
exit-images: set terminate.exitImages
derived-repository: set terminate.derivedRepository
exit-image-is-public: set terminate.exitImageIsPublic
swap-under-never: set terminate.swapUnderNever
finish: set terminate.finish
prefer: set terminate.prefer
terminate: set terminate.enabled
sidecar-policies: set sidecarPolicies.enabled
restart: set restart.enabled
leash: leave it out, for it is that of the release
restart-without-leash: set restart.withoutLeash
restart-on-config: set restart.onConfig.enabled
restart-readiness-gates: set restart.readinessGates.enabled
hot-upgrade: set hotUpgrade.enabled
hot-upgrade-images: set hotUpgrade.images
hot-upgrade-empty-images: set hotUpgrade.emptyImages
warm: set warm.jobs.enabled
warm-namespace: set warm.namespace
warm-exit-images: set warm.jobs.exitImages
warm-image-caches: set warm.jobs.imageCaches
warm-image-cache-days: set warm.jobs.imageCacheDays
warm-image-cache-size: set warm.jobs.imageCacheGiB
warm-sandbox-keys: set warm.jobs.sandboxKeys
warm-startup-taint: set warm.jobs.startupTaint
warm-startup-taint-timeout: set warm.jobs.startupTaintSeconds
warm-startup-taint-namespace: set warm.jobs.startupTaintNamespaces
warm-try-seconds-max: set warm.jobs.trySecondsMax
park-image: set parkImage
park-image-paths: set parkImagePaths
predownload: set predownload.enabled
protect: set protection.count
node-classes: set nodes.classes
coexist: set openkruise.coexist
warm-coexist: set openkruise.warmCoexist
namespace: set namespaces
docker-config: set registry.secret
plain-http: set registry.plainHttp
listen: set port
log-format: set log.format
leader-elect: leave it out, for it is always on
state-namespace: leave it out, for it is the namespace of the release
kubeconfig: leave it out, for it is the cluster of the release
context: leave it out, for it is the cluster of the release
as: leave it out, for the controller acts as the account of the release
as-group: leave it out, for the controller acts as the account of the release
{{- end }}

{{- /* The file of --config: the lists among the values, and what config says. */}}
{{- define "swaplet.config" -}}
{{- $elsewhere := include "swaplet.elsewhere" . | fromYaml }}
{{- $keys := list "exit-image-paths" "restart-on-config-delay" "concurrency" "write-timeout" }}
{{- range $key, $_ := .Values.config }}
{{- with get $elsewhere $key }}{{ fail (printf "config.%s cannot be used: %s" $key .) }}{{ end }}
{{- if not (has $key $keys) }}{{ fail (printf "config.%s: there is no such key; the keys are %s" $key (join ", " $keys)) }}{{ end }}
{{- end }}
{{- $config := deepCopy .Values.config }}
{{- with .Values.namespaces }}{{ $_ := set $config "namespace" . }}{{ end }}
{{- with .Values.terminate }}
{{- if and .enabled .exitImages }}{{ $_ := set $config "exit-images" .exitImages }}{{ end }}
{{- end }}
{{- if and .Values.parkImage .Values.parkImagePaths (or .Values.restart.enabled .Values.hotUpgrade.enabled .Values.warm.jobs.enabled) }}
{{- $_ := set $config "park-image-paths" .Values.parkImagePaths }}
{{- end }}
{{- with .Values.hotUpgrade }}
{{- if .enabled }}{{ $_ := set $config "hot-upgrade-images" .images }}{{ end }}
{{- if and .enabled .emptyImages }}{{ $_ := set $config "hot-upgrade-empty-images" .emptyImages }}{{ end }}
{{- end }}
{{- with .Values.warm.jobs }}
{{- if and .enabled .startupTaint .startupTaintNamespaces }}{{ $_ := set $config "warm-startup-taint-namespace" .startupTaintNamespaces }}{{ end }}
{{- end }}
{{- with .Values.registry.plainHttp }}{{ $_ := set $config "plain-http" . }}{{ end }}
{{- toYaml $config }}
{{- end }}

{{- /* The file and the rows of node classes are read at the start: other pods are needed when they change. */}}
{{- define "swaplet.configDigest" -}}
{{- printf "%s\n%s" (include "swaplet.config" .) .Values.nodes.classes | sha256sum | trunc 12 }}
{{- end }}
