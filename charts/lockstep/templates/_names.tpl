{{- define "lockstep.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The beginning of all names: short enough for what is put behind it. */}}
{{- define "lockstep.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "lockstep.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "lockstep.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "lockstep.selector" -}}
app.kubernetes.io/name: {{ include "lockstep.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Of pods: nothing that changes with the chart's version, which would start them anew. */}}
{{- define "lockstep.podLabels" -}}
{{ include "lockstep.selector" . }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "lockstep.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "lockstep.podLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "lockstep.serviceAccount" -}}
{{- .Values.serviceAccount.create | ternary (default (include "lockstep.fullname" .) .Values.serviceAccount.name) (default "default" .Values.serviceAccount.name) -}}
{{- end -}}

{{/* A name without a registry would be one of a public registry's, where it may be a stranger's.
     dict "root" $ "name" "controller" */}}
{{- define "lockstep.image" -}}
{{- $image := .root.Values.image -}}
{{- if not $image.repository -}}
{{- fail "image.repository: is required, for there are no public images of Lockstep: build them with `tools/dev image`, push them to a registry of yours, and say where they are, such as --set image.repository=registry.example/team/lockstep (or localhost/lockstep, if they were loaded into every node)" -}}
{{- else if not (regexMatch "^(localhost|[A-Za-z0-9.-]+[.][A-Za-z0-9-]+|[A-Za-z0-9.-]+:[0-9]+|[[][0-9a-fA-F:]+[]])(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$" $image.repository) -}}
{{- fail (printf "image.repository: %q names no registry, so a public one would be asked, where that name may be a stranger's; write a registry and a path, such as registry.example/team/lockstep" $image.repository) -}}
{{- end -}}
{{- with get $image.digests .name -}}
{{- printf "%s/%s@%s" $image.repository $.name . -}}
{{- else -}}
{{- printf "%s/%s:%s" $image.repository .name (default .root.Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "lockstep.workerImage" -}}
{{- include "lockstep.image" (dict "root" . "name" (ternary "worker-cuda" (ternary "worker-fragments" "worker" .Values.fragments.enabled) .Values.gpu.enabled)) -}}
{{- end -}}

{{- define "lockstep.servicesSecret" -}}
{{- default (printf "%s-keys" (include "lockstep.fullname" .)) .Values.keys.existingSecret -}}
{{- end -}}

{{/* Empty: there is no key for clients in this cluster. */}}
{{- define "lockstep.clientSecret" -}}
{{- if .Values.keys.existingSecret -}}
{{- .Values.keys.existingClientSecret -}}
{{- else -}}
{{- printf "%s-client" (include "lockstep.fullname" .) -}}
{{- end -}}
{{- end -}}

{{/* The head pod, as others of the cluster reach it: also before it is ready, and at the same name when it comes anew. */}}
{{- define "lockstep.headAddress" -}}
{{- $name := include "lockstep.fullname" . -}}
{{- if eq .Values.worker.kind "LeaderWorkerSet" -}}
{{- printf "%s-0.%s.%s.svc.%s" $name $name .Release.Namespace .Values.clusterDomain -}}
{{- else -}}
{{- printf "%s-head-0.%s.%s.svc.%s" $name $name .Release.Namespace .Values.clusterDomain -}}
{{- end -}}
{{- end -}}

{{/* Where worker-0 listens for copies: the port at which clients look for it beside the controller, too. */}}
{{- define "lockstep.bulkPort" -}}
{{- default 7404 .Values.service.bulkNodePort -}}
{{- end -}}

{{- define "lockstep.clientEndpoint" -}}
{{- printf "tcp://%s-client.%s.svc.%s:7400" (include "lockstep.fullname" .) .Release.Namespace .Values.clusterDomain -}}
{{- end -}}
