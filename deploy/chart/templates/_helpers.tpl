{{- define "swaplet.name" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}{{ else if contains "swaplet" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-swaplet" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- /* The ServiceAccount of the controller, by which the leash knows it. */}}
{{- define "swaplet.account" -}}
{{- .Values.serviceAccount.name | default (include "swaplet.name" .) }}
{{- end }}

{{- /* Names stand here as YAML: one such as 2024 or no would be none without quotes. */}}
{{- define "swaplet.selector" -}}
app.kubernetes.io/name: swaplet
app.kubernetes.io/instance: {{ toYaml .Release.Name }}
{{- end }}

{{- define "swaplet.labels" -}}
{{ include "swaplet.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* ClusterRoles belong to no namespace: releases of two namespaces must not share them. */}}
{{- define "swaplet.clusterName" -}}
{{- if eq .Release.Namespace (include "swaplet.name" .) }}{{ include "swaplet.name" . }}{{ else }}{{ printf "%s-%s" .Release.Namespace (include "swaplet.name" .) }}{{ end }}
{{- end }}

{{- /* The leash: what its policies begin with, and whether it is there. */}}
{{- define "swaplet.leash" -}}
{{ include "swaplet.clusterName" . }}-leash
{{- end }}

{{- define "swaplet.hasLeash" -}}
{{- if and .Values.leash.enabled (semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version) }}true{{ end }}
{{- end }}

{{- /* Never that of the controller: who may make pods there, may make them with its account. */}}
{{- define "swaplet.warmNamespace" -}}
{{- .Values.warm.namespace | default (printf "%s-warm" (include "swaplet.clusterName" . | trunc 58 | trimSuffix "-")) }}
{{- end }}

{{- /* `dict "image" IMAGE "digest" DIGEST`: where a digest is given, the image is pulled by it, whatever the tag has become. The image is a text,
or has repository, tag and digest. */}}
{{- define "swaplet.image" -}}
{{- $image := .image }}
{{- $digest := .digest }}
{{- if kindIs "map" .image }}
{{- $image = .image.repository }}
{{- with .image.tag }}{{ $image = printf "%s:%s" $image . }}{{ end }}
{{- $digest = .image.digest | default .digest }}
{{- end }}
{{- if and $image $digest }}{{ printf "%s@%s" $image $digest }}{{ else }}{{ $image }}{{ end }}
{{- end }}

{{- /* `dict "values" .Values "affinity" AFFINITY`: what each pod of the chart needs to be scheduled and to get its images; nothing, if no such
value is set. A Job has the affinity to nodes alone: by the rest the replicas of the controller may keep apart, also from it. */}}
{{- define "swaplet.placement" -}}
{{- $set := dict }}
{{- range $key := list "imagePullSecrets" "priorityClassName" "nodeSelector" "tolerations" }}
{{- with get $.values $key }}{{ $_ := set $set $key . }}{{ end }}
{{- end }}
{{- with .affinity }}{{ $_ := set $set "affinity" . }}{{ end }}
{{- if $set }}{{ toYaml $set }}{{ end }}
{{- end }}

{{- define "swaplet.exitImage" -}}
{{- include "swaplet.image" (dict "image" .Values.terminate.exitImage "digest" .Values.terminate.exitImageDigest) }}
{{- end }}

{{- define "swaplet.parkImage" -}}
{{- include "swaplet.image" (dict "image" .Values.parkImage "digest" .Values.parkImageDigest) }}
{{- end }}

{{- /* A pattern of images as a regular expression: * stands for any characters but / and @. */}}
{{- define "swaplet.pattern" -}}
^{{ . | replace "." "[.]" | replace "*" "[^/@]*" }}$
{{- end }}

{{- define "swaplet.subjects" -}}
- kind: ServiceAccount
  name: {{ include "swaplet.account" . }}
  namespace: {{ toYaml .Release.Namespace }}
{{- end }}

{{- /* One of the roles in files/, which are deploy/*.yaml: `dict "root" $ "file" FILE "kind" KIND "role" NAME`. Its rules. */}}
{{- define "swaplet.rules" -}}
{{- $found := dict }}
{{- range splitList "\n---\n" (.root.Files.Get (printf "files/%s.yaml" .file)) }}
{{- $object := fromYaml . }}
{{- if and (eq $object.kind $.kind) (eq $object.metadata.name $.role) }}{{ $_ := set $found "rules" $object.rules }}{{ end }}
{{- end }}
{{- $rules := list }}
{{- range required (printf "%s has no %s %s" .file .kind .role) $found.rules }}
{{- /* Where the phase of a pod is not written, the right is not given. */}}
{{- if not (and (eq $.role "swaplet") (has "pods/status" .resources) (or (not $.root.Values.terminate.enabled) (eq $.root.Values.terminate.finish "never"))) }}
{{- $rule := deepCopy . }}
{{- /* Nor is that to change pods, where none is changed. */}}
{{- if and (eq $.role "swaplet") (has "pods" .resources) (not (or $.root.Values.terminate.enabled $.root.Values.restart.enabled $.root.Values.hotUpgrade.enabled)) }}
{{- $_ := set $rule "verbs" (without .verbs "patch") }}
{{- end }}
{{- if and (eq $.role "swaplet-state") (has "configmaps" .resources) .resourceNames (not $.root.Values.restart.onConfig.enabled) }}
{{- $_ := set $rule "resourceNames" (without .resourceNames "swaplet-restart-on") }}
{{- end }}
{{- $rules = append $rules $rule }}
{{- end }}
{{- end }}
{{- toYaml $rules | replace "swaplet-leash-" (printf "%s-" (include "swaplet.leash" .root)) }}
{{- end }}

{{- /* A ClusterRole of files/ for people: it is bound by others. */}}
{{- define "swaplet.roleOfUsers" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .role | replace "swaplet" (include "swaplet.clusterName" .root) }}
  labels: {{- merge (include "swaplet.labels" .root | fromYaml) (.labels | default dict) | toYaml | nindent 4 }}
rules: {{- include "swaplet.rules" (dict "root" .root "file" .file "kind" "ClusterRole" "role" .role) | nindent 2 }}
{{- end }}

{{- /* A ClusterRole of files/, with its binding: everywhere, or in the namespaces that are named. */}}
{{- define "swaplet.role" -}}
{{- $root := .root }}
{{- $name := .role | replace "swaplet" (include "swaplet.clusterName" $root) }}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  labels: {{- include "swaplet.labels" $root | nindent 4 }}
rules: {{- include "swaplet.rules" (dict "root" $root "file" .file "kind" "ClusterRole" "role" .role) | nindent 2 }}
{{- range .namespaces }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ toYaml . }}
  labels: {{- include "swaplet.labels" $root | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ $name }}}
subjects: {{- include "swaplet.subjects" $root | nindent 2 }}
{{- else }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
  labels: {{- include "swaplet.labels" $root | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ $name }}}
subjects: {{- include "swaplet.subjects" $root | nindent 2 }}
{{- end }}
{{- end }}

{{- define "swaplet.args" -}}
- run
- --leader-elect
- --listen=:{{ .Values.port }}
- --log-format={{ .Values.log.format }}
- --coexist={{ .Values.openkruise.coexist }}
- --config=/etc/swaplet/config/config.yaml
{{- with .Values.terminate }}
{{- if .enabled }}
- --finish={{ .finish }}
{{- if ne .prefer "swap" }}
- --prefer={{ .prefer }}
{{- end }}
{{- with include "swaplet.exitImage" $ }}
- --exit-image={{ . }}
{{- end }}
{{- with .derivedRepository }}
- --derived-repository={{ . }}
{{- end }}
{{- if ne (toString .exitImageIsPublic) "auto" }}
- --exit-image-is-public={{ .exitImageIsPublic }}
{{- end }}
{{- if .swapUnderNever }}
- --swap-under-never
{{- end }}
{{- else }}
- --terminate=false
{{- end }}
{{- end }}
{{- if .Values.sidecarPolicies.enabled }}
- --sidecar-policies
{{- end }}
{{- if .Values.restart.enabled }}
- --restart
{{- if .Values.restart.withoutLeash }}
- --restart-without-leash
{{- else }}
- --leash={{ include "swaplet.leash" . }}
{{- end }}
{{- if .Values.restart.onConfig.enabled }}
- --restart-on-config
{{- end }}
{{- if .Values.restart.readinessGates.enabled }}
- --restart-readiness-gates
{{- end }}
{{- end }}
{{- if .Values.hotUpgrade.enabled }}
{{- if not (and .Values.hotUpgrade.images (or .Values.parkImage .Values.hotUpgrade.emptyImages)) }}
{{- fail "hotUpgrade.enabled needs hotUpgrade.images, and parkImage or hotUpgrade.emptyImages" }}
{{- end }}
- --hot-upgrade
{{- end }}
{{- if .Values.warm.jobs.enabled }}
- --warm
- --warm-namespace={{ include "swaplet.warmNamespace" . }}
{{- with .Values.warm.jobs.sandboxKeys }}
- --warm-sandbox-keys={{ join "," . }}
{{- end }}
{{- if .Values.warm.jobs.exitImages }}
- --warm-exit-images
{{- end }}
{{- if .Values.warm.jobs.startupTaint }}
- --warm-startup-taint
- --warm-startup-taint-timeout={{ .Values.warm.jobs.startupTaintSeconds }}
{{- end }}
{{- if ne .Values.openkruise.warmCoexist "auto" }}
- --warm-coexist={{ .Values.openkruise.warmCoexist }}
{{- end }}
- --warm-try-seconds-max={{ .Values.warm.jobs.trySecondsMax }}
{{- if .Values.warm.jobs.imageCaches }}
- --warm-image-caches
- --warm-image-cache-days={{ .Values.warm.jobs.imageCacheDays }}
- --warm-image-cache-size={{ .Values.warm.jobs.imageCacheGiB }}
{{- end }}
{{- end }}
{{- if .Values.predownload.enabled }}
- --predownload
{{- end }}
{{- if .Values.protection.count }}
- --protect
{{- end }}
{{- if and .Values.parkImage (or .Values.restart.enabled .Values.hotUpgrade.enabled .Values.warm.jobs.enabled) }}
- --park-image={{ include "swaplet.parkImage" . }}
{{- end }}
{{- if .Values.nodes.classes }}
- --node-classes=/etc/swaplet/config/node-classes.yaml
{{- end }}
{{- if .Values.registry.secret }}
- --docker-config=/etc/swaplet/registry/.dockerconfigjson
{{- end }}
{{- with .Values.args }}
{{ toYaml . }}
{{- end }}
{{- end }}
