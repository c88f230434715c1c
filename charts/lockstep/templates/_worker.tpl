{{/* The container of a worker. dict "root" $ "args" (list ...) "bulk" true "drain" "30s" */}}
{{- define "lockstep.workerContainer" -}}
{{- $root := .root -}}
name: worker
image: {{ include "lockstep.workerImage" $root }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
args:
  - --config=/etc/lockstep/worker.yaml
  # The pod's own address: found without the head's name, which is not known while that pod is away.
  - --set=data_address=$(POD_IP)
  {{- range .args }}
  - {{ . }}
  {{- end }}
env:
  - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
  {{- range $name, $value := $root.Values.gpu.nccl }}
  - {name: {{ $name }}, value: {{ $value | quote }}}
  {{- end }}
  {{- with $root.Values.worker.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  {{- if .bulk }}
  - {name: bulk, containerPort: {{ include "lockstep.bulkPort" $root }}}
  {{- end }}
  - {name: metrics, containerPort: 9401}
{{ include "lockstep.probes" (dict "root" $root "port" "metrics") }}
lifecycle:
  preStop:
    exec:
      command: [lockstep-worker, --config=/etc/lockstep/worker.yaml, --await-idle={{ .drain }}]
resources: {{- include "lockstep.workerResources" $root | nindent 2 }}
securityContext: {{- include "lockstep.workerSecurity" $root | nindent 2 }}
volumeMounts:
  - {name: config, mountPath: /etc/lockstep, readOnly: true}
  - {name: worker-keys, mountPath: /keys, readOnly: true}
  - {name: shm, mountPath: /dev/shm}
  {{- if include "lockstep.hasModules" $root }}
  # The folder that the init container has made, not the volume, which others could write to.
  - {name: modules, mountPath: /modules, subPath: modules, readOnly: true}
  {{- end }}
  {{- if $root.Values.fragments.enabled }}
  # The same: what others could write to is not loaded.
  - {name: fragments, mountPath: /var/cache/lockstep/fragments, subPath: fragments}
  {{- end }}
{{- end -}}

{{/* Its volumes. */}}
{{- define "lockstep.workerVolumes" -}}
- name: config
  configMap: {name: {{ include "lockstep.fullname" . | quote }}}
- name: worker-keys
  secret:
    secretName: {{ include "lockstep.servicesSecret" . | quote }}
    defaultMode: 0440
    items: [{key: worker.key, path: worker.key}, {key: controller.pub, path: controller.pub}]
- name: shm
  emptyDir: {medium: Memory, sizeLimit: {{ include "lockstep.shm" . }}Mi}
{{- if include "lockstep.hasModules" . }}
- name: modules
  emptyDir: {sizeLimit: 1Gi}
{{- with .Values.modules.claim }}
- name: given-modules
  persistentVolumeClaim: {claimName: {{ . | quote }}, readOnly: true}
{{- end }}
{{- end }}
{{- if .Values.fragments.enabled }}
- name: fragments
  {{- with .Values.fragments.claim }}
  persistentVolumeClaim: {claimName: {{ . | quote }}}
  {{- else }}
  emptyDir: {sizeLimit: {{ .Values.fragments.sizeLimit }}}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "lockstep.hasModules" -}}
{{- if or .Values.modules.image .Values.modules.claim .Values.modules.initContainer -}}true{{- end -}}
{{- end -}}

{{/* What workers load lies in folders that belong to their user, and that nobody else writes to: others are not loaded.
     Modules are copied to one; what is compiled of fragments has another. */}}
{{- define "lockstep.initContainers" -}}
{{- if or (include "lockstep.hasModules" .) .Values.fragments.enabled -}}
initContainers:
  {{- if .Values.fragments.enabled }}
  - name: fragments
    image: {{ include "lockstep.workerImage" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    command: [mkdir, -p, -m, "700", /target/fragments]
    resources: {{- include "lockstep.smallResources" . | nindent 6 }}
    securityContext: {{- include "lockstep.workerSecurity" . | nindent 6 }}
    volumeMounts:
      - {name: fragments, mountPath: /target}
  {{- end }}
  {{- if include "lockstep.hasModules" . }}
  {{- with .Values.modules.initContainer }}
  - {{- merge (dict "volumeMounts" (concat (default list .volumeMounts) (list (dict "name" "modules" "mountPath" "/modules" "subPath" "modules")))) (omit . "volumeMounts") | toYaml | nindent 4 }}
  {{- else }}
  - name: modules
    image: {{ .Values.modules.image | default (include "lockstep.image" (dict "root" . "name" "cli")) }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    command: [/bin/sh, -ec]
    args:
      - |
        umask 022
        mkdir -p /target/modules
        chmod 755 /target/modules
        cp -RL {{ .Values.modules.path }}/. /target/modules/
        chmod -R go-w /target/modules
    resources: {{- include "lockstep.smallResources" . | nindent 6 }}
    # The worker's own user: it loads no other user's modules.
    securityContext: {{- include "lockstep.workerSecurity" . | nindent 6 }}
    volumeMounts:
      - {name: modules, mountPath: /target}
      {{- if .Values.modules.claim }}
      - {name: given-modules, mountPath: {{ .Values.modules.path }}, readOnly: true}
      {{- end }}
  {{- end }}
  {{- end }}
{{- end -}}
{{- end -}}
