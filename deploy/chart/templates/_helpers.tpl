{{- define "swaplet.name" -}}
{{- if contains "swaplet" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-swaplet" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "swaplet.selector" -}}
app.kubernetes.io/name: swaplet
app.kubernetes.io/instance: {{ .Release.Name }}
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

{{- define "swaplet.warmNamespace" -}}
{{- .Values.warm.namespace | default .Release.Namespace }}
{{- end }}

{{- define "swaplet.subjects" -}}
- kind: ServiceAccount
  name: {{ include "swaplet.name" . }}
  namespace: {{ .Release.Namespace }}
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
{{- $rules = append $rules . }}
{{- end }}
{{- end }}
{{- toYaml $rules }}
{{- end }}

{{- /* A ClusterRole of files/ for people: it is bound by others. */}}
{{- define "swaplet.roleOfUsers" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .role | replace "swaplet" (include "swaplet.clusterName" .root) }}
  labels: {{- include "swaplet.labels" .root | nindent 4 }}
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
  namespace: {{ . }}
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
- --listen=0.0.0.0:{{ .Values.port }}
- --log-format={{ .Values.log.format }}
- --coexist={{ .Values.openkruise.coexist }}
- --config=/etc/swaplet/config/config.yaml
{{- with .Values.terminate }}
{{- if .enabled }}
- --finish={{ .finish }}
{{- if ne .prefer "swap" }}
- --prefer={{ .prefer }}
{{- end }}
{{- with .exitImage }}
- --exit-image={{ . }}
{{- end }}
{{- with .derivedRepository }}
- --derived-repository={{ . }}
{{- end }}
{{- if .swapUnderNever }}
- --swap-under-never
{{- end }}
{{- else }}
- --terminate=false
{{- end }}
{{- end }}
{{- if .Values.restart.enabled }}
- --restart
{{- if .Values.restart.onConfig.enabled }}
- --restart-on-config
{{- end }}
{{- end }}
{{- if .Values.warm.jobs.enabled }}
- --warm
- --warm-namespace={{ include "swaplet.warmNamespace" . }}
- --warm-shape={{ .Values.warm.jobs.shape }}
{{- if .Values.warm.jobs.exitImages }}
- --warm-exit-images
{{- end }}
{{- if .Values.warm.jobs.startupTaint }}
- --warm-startup-taint
- --warm-startup-taint-timeout={{ .Values.warm.jobs.startupTaintSeconds }}
{{- end }}
{{- if .Values.warm.jobs.imageCaches }}
- --warm-image-caches
- --warm-image-cache-days={{ .Values.warm.jobs.imageCacheDays }}
- --warm-image-cache-size={{ .Values.warm.jobs.imageCacheGiB }}
{{- end }}
{{- end }}
{{- if .Values.predownload.enabled }}
- --predownload
{{- end }}
{{- if and .Values.parkImage (or .Values.restart.enabled .Values.warm.jobs.enabled) }}
- --park-image={{ .Values.parkImage }}
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
