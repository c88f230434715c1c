{{/* Of what exists for a hook alone. dict "root" $ "name" "..." "hook" "pre-install" "weight" -10 "failed" ",hook-failed" */}}
{{- define "lockstep.hookMetadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace | quote }}
labels: {{- include "lockstep.labels" .root | nindent 2 }}
annotations:
  helm.sh/hook: {{ .hook }}
  helm.sh/hook-weight: {{ .weight | quote }}
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded{{ .failed }}
{{- end -}}

{{/* An empty Secret, for the Job to fill: so the Job needs no right to create Secrets, which RBAC cannot limit to names.
     One that is there is left alone. Its policy is one that never deletes it: keys outlive the hooks of every release.
     dict "root" $ "name" "..." */}}
{{- define "lockstep.emptySecret" -}}
{{- if not (lookup "v1" "Secret" .root.Release.Namespace .name) -}}
---
apiVersion: v1
kind: Secret
metadata:
  name: {{ .name | quote }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels: {{- include "lockstep.labels" .root | nindent 4 }}
  annotations:
    helm.sh/hook: pre-install,pre-upgrade
    helm.sh/hook-weight: "-20"
    helm.sh/hook-delete-policy: hook-failed
type: Opaque
{{- end -}}
{{- end -}}

{{/* The rights of a Job: these verbs, and this release's two Secrets.
     dict "root" $ "hook" "..." "suffix" "mint" "verbs" "[get, update]" */}}
{{- define "lockstep.keysAccess" -}}
{{- $root := .root -}}
{{- $name := printf "%s-%s" (include "lockstep.servicesSecret" $root) .suffix -}}
{{- $metadata := include "lockstep.hookMetadata" (dict "root" $root "name" $name "hook" .hook "weight" -10 "failed" ",hook-failed") -}}
apiVersion: v1
kind: ServiceAccount
metadata: {{- $metadata | nindent 2 }}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{- $metadata | nindent 2 }}
rules:
  - apiGroups: [""]
    resources: [secrets]
    resourceNames: [{{ include "lockstep.servicesSecret" $root | quote }}, {{ include "lockstep.clientSecret" $root | quote }}]
    verbs: {{ .verbs }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{- $metadata | nindent 2 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $name }}}
subjects: [{kind: ServiceAccount, name: {{ $name }}, namespace: {{ $root.Release.Namespace | quote }}}]
{{- end -}}

{{/* A Job that speaks with the API, with the command line's image. dict "root" $ "hook" "..." "suffix" "mint" "script" "mint.sh" */}}
{{- define "lockstep.keysJob" -}}
{{- $root := .root -}}
{{- $name := printf "%s-%s" (include "lockstep.servicesSecret" $root) .suffix -}}
apiVersion: batch/v1
kind: Job
metadata: {{- include "lockstep.hookMetadata" (dict "root" $root "name" $name "hook" .hook "weight" 0 "failed" "") | nindent 2 }}
spec:
  backoffLimit: 3
  # With the time that it takes to fetch the image.
  activeDeadlineSeconds: 300
  template:
    metadata:
      labels:
        {{- include "lockstep.podLabels" $root | nindent 8 }}
        app.kubernetes.io/component: keys
    spec:
      {{- with $root.Values.image.pullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      restartPolicy: Never
      {{- with include "lockstep.headPlaces" $root }}
      {{- . | nindent 6 }}
      {{- end }}
      serviceAccountName: {{ $name }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      securityContext: {{- include "lockstep.podSecurity" $root | nindent 8 }}
      containers:
        - name: keys
          image: {{ include "lockstep.image" (dict "root" $root "name" "cli") }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          command: [/bin/sh, -euc]
          args:
            - |
              {{- $root.Files.Get "files/api.sh" | nindent 14 }}
              {{- $root.Files.Get (printf "files/%s.sh" .suffix) | nindent 14 }}
          env:
            - {name: NAMESPACE, value: {{ $root.Release.Namespace | quote }}}
            - {name: SERVICES_SECRET, value: {{ include "lockstep.servicesSecret" $root | quote }}}
            - {name: CLIENT_SECRET, value: {{ include "lockstep.clientSecret" $root | quote }}}
            - {name: RELEASE, value: {{ $root.Release.Name | quote }}}
            - {name: GENERATION, value: {{ $root.Values.keys.generation | int64 | quote }}}
            - {name: LABELS, value: {{ include "lockstep.labels" $root | fromYaml | toJson | quote }}}
            - name: ALLOWED
              value: |
                {{- range $root.Values.keys.allowed }}
                {{ .role }} {{ .key }} {{ .name }}
                {{- end }}
          resources: {{- include "lockstep.smallResources" $root | nindent 12 }}
          securityContext: {{- include "lockstep.containerSecurity" $root | nindent 12 }}
{{- end -}}
