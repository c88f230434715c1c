{{/* The pod of one worker. dict "root" $ "offset" 1: what is added to the number at the end of its name. */}}
{{- define "lockstep.workerPod" -}}
{{- $root := .root -}}
metadata:
  labels:
    {{- include "lockstep.podLabels" $root | nindent 4 }}
    app.kubernetes.io/component: worker
    lockstep.dev/pod: rank
    {{- with include "lockstep.gangLabels" $root }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- with $root.Values.worker.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    {{- include "lockstep.checksums" $root | nindent 4 }}
    {{- with include "lockstep.gangAnnotations" $root }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- with $root.Values.worker.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- include "lockstep.podSettings" (dict "root" $root "part" "worker") | trim | nindent 2 }}
  {{- with include "lockstep.affinity" (dict "root" $root "affinity" $root.Values.worker.affinity) }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with $root.Values.worker.topologySpreadConstraints }}
  topologySpreadConstraints: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.worker.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.worker.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with include "lockstep.initContainers" $root }}
  {{- . | nindent 2 }}
  {{- end }}
  containers:
    - {{- include "lockstep.workerContainer" (dict "root" $root "bulk" false "drain" $root.Values.worker.drain "args" (list "--set=rank_from=hostname" (printf "--set=rank_offset=%d" (.offset | int)))) | nindent 6 }}
  volumes: {{- include "lockstep.workerVolumes" $root | nindent 4 }}
{{- end -}}
