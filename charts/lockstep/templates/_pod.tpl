{{/* What all pods are allowed, which is next to nothing: the "restricted" Pod Security Standard. */}}
{{- define "lockstep.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
{{- if .Values.fragments.claim }}
# A worker runs no code that its group may write to, which each mount would allow.
fsGroupChangePolicy: OnRootMismatch
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "lockstep.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Of workers, and of what copies their modules. A capability that is added to a container counts for user 0 alone:
     another user's process loses it when it is started. */}}
{{- define "lockstep.workerSecurity" -}}
{{- if .Values.gpu.ipcLock -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: false
runAsUser: 0
capabilities: {drop: [ALL], add: [IPC_LOCK]}
{{- else -}}
{{ include "lockstep.containerSecurity" . }}
{{- end -}}
{{- end -}}

{{/* What the head pod and the workers' pods share. dict "root" $ "part" "head": whose `drain` counts */}}
{{- define "lockstep.podSettings" -}}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
serviceAccountName: {{ include "lockstep.serviceAccount" .root | quote }}
automountServiceAccountToken: false
# A service's name as a variable, "tcp://...", would only stand in the way.
enableServiceLinks: false
# What drains, and then stops in order, within 5 s.
terminationGracePeriodSeconds: {{ add (include "lockstep.seconds" (dict "what" (printf "%s.drain" .part) "time" (get .root.Values .part).drain)) 15 }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- if eq .root.Values.gang.by "volcano" }}
schedulerName: volcano
{{- else if eq .root.Values.gang.by "coscheduling" }}
schedulerName: {{ .root.Values.gang.schedulerName | quote }}
{{- end }}
{{- if .root.Values.gpu.runtimeClassName }}
runtimeClassName: {{ .root.Values.gpu.runtimeClassName | quote }}
{{- end }}
securityContext: {{- include "lockstep.podSecurity" .root | nindent 2 }}
{{- with .root.Values.worker.resourceClaims }}
resourceClaims: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Where this release's pods go. dict "root" $ "affinity" {} */}}
{{- define "lockstep.affinity" -}}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" (include "lockstep.selector" .root | fromYaml | merge (dict "lockstep.dev/pod" "rank"))) -}}
{{- $placement := .root.Values.worker.placement -}}
{{- if .affinity -}}
affinity: {{- toYaml .affinity | nindent 2 }}
{{- else if eq $placement "apart" -}}
affinity:
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - {{- toYaml $term | nindent 8 }}
{{- else if eq $placement "spread" -}}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm: {{- toYaml $term | nindent 10 }}
{{- end -}}
{{- end -}}

{{/* On which nodes the head pod can be: worker-0 is in it. Jobs and clients go there, too. */}}
{{- define "lockstep.headPlaces" -}}
{{- with .Values.head.nodeSelector | default .Values.worker.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.head.tolerations | default .Values.worker.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "lockstep.gangLabels" -}}
{{- if eq .Values.gang.by "kueue" -}}
kueue.x-k8s.io/queue-name: {{ .Values.gang.queue | quote }}
kueue.x-k8s.io/pod-group-name: {{ include "lockstep.fullname" . | quote }}
{{- else if eq .Values.gang.by "coscheduling" -}}
scheduling.x-k8s.io/pod-group: {{ include "lockstep.fullname" . | quote }}
{{- end -}}
{{- end -}}

{{- define "lockstep.gangAnnotations" -}}
{{- if eq .Values.gang.by "kueue" -}}
kueue.x-k8s.io/pod-group-total-count: {{ .Values.workers | quote }}
kueue.x-k8s.io/pod-group-serving: "true"
{{- else if eq .Values.gang.by "volcano" -}}
scheduling.k8s.io/group-name: {{ include "lockstep.fullname" . | quote }}
{{- end -}}
{{- end -}}

{{/* Probes of a service's HTTP port: started once it has joined, alive while its own loop comes round, ready while all
     ranks are connected. dict "root" $ "port" "metrics" */}}
{{- define "lockstep.probes" -}}
startupProbe:
  httpGet: {path: /startupz, port: {{ .port }}}
  periodSeconds: 1
  # As long as a worker looks for its controller.
  failureThreshold: {{ include "lockstep.seconds" (dict "what" "worker.config.join_timeout" "time" (include "lockstep.joinTimeout" .root)) }}
livenessProbe:
  httpGet: {path: /healthz, port: {{ .port }}}
  periodSeconds: 5
  timeoutSeconds: 3
readinessProbe:
  httpGet: {path: /readyz, port: {{ .port }}}
  periodSeconds: 1
  timeoutSeconds: 3
{{- end -}}
