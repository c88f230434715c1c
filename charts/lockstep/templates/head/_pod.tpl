{{/* The pod of the head: the controller, and worker-0, which share /dev/shm. */}}
{{- define "lockstep.headPod" -}}
metadata:
  labels:
    {{- include "lockstep.podLabels" . | nindent 4 }}
    app.kubernetes.io/component: head
    lockstep.dev/pod: rank
    {{- with include "lockstep.gangLabels" . }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- with .Values.head.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/controller-config: {{ include "lockstep.controllerConfig" . | sha256sum }}
    {{- include "lockstep.checksums" . | nindent 4 }}
    {{- with include "lockstep.gangAnnotations" . }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- with .Values.head.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- include "lockstep.podSettings" (dict "root" . "part" "head") | trim | nindent 2 }}
  {{- with include "lockstep.affinity" (dict "root" . "affinity" (default .Values.worker.affinity .Values.head.affinity)) }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with include "lockstep.headPlaces" . }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with .Values.worker.topologySpreadConstraints }}
  topologySpreadConstraints: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with include "lockstep.initContainers" . }}
  {{- . | nindent 2 }}
  {{- end }}
  containers:
    - name: controller
      image: {{ include "lockstep.image" (dict "root" . "name" "controller") }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [--config=/etc/lockstep/controller.yaml]
      ports:
        - {name: clients, containerPort: 7400}
        - {name: workers, containerPort: 7401}
        - {name: liveness, containerPort: 7402}
        - {name: ctl-metrics, containerPort: 9400}
      {{- include "lockstep.probes" (dict "root" . "port" "ctl-metrics") | nindent 6 }}
      lifecycle:
        preStop:
          exec:
            command: [lockstep-controller, --config=/etc/lockstep/controller.yaml, --await-idle={{ .Values.head.drain }}]
      resources: {{- toYaml .Values.head.resources | nindent 8 }}
      securityContext: {{- include "lockstep.containerSecurity" . | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/lockstep, readOnly: true}
        - {name: controller-keys, mountPath: /keys, readOnly: true}
        - {name: shm, mountPath: /dev/shm}
    - {{- include "lockstep.workerContainer" (dict "root" . "bulk" true "drain" .Values.head.drain "args" (list "--set=rank=0" (printf "--set=bulk_endpoint=tcp://*:%s" (include "lockstep.bulkPort" .)))) | nindent 6 }}
  volumes:
    {{- include "lockstep.workerVolumes" . | nindent 4 }}
    - name: controller-keys
      secret:
        secretName: {{ include "lockstep.servicesSecret" . | quote }}
        defaultMode: 0440
        items: [{key: controller.key, path: controller.key}, {key: allowed_keys, path: allowed_keys}]
{{- end -}}
