{{/* The pod of a client in the cluster, with its key. dict "root" $ "image" "..." "command" (list ...) "resources" {} "files" "NAME of a ConfigMap" */}}
{{- define "lockstep.clientPod" -}}
{{- $root := .root -}}
metadata:
  labels:
    {{- include "lockstep.podLabels" $root | nindent 4 }}
    app.kubernetes.io/component: client
spec:
  {{- with $root.Values.image.pullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  restartPolicy: Never
  serviceAccountName: {{ include "lockstep.serviceAccount" $root | quote }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with include "lockstep.headPlaces" $root }}
  {{- . | trim | nindent 2 }}
  {{- end }}
  {{- with $root.Values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  securityContext: {{- include "lockstep.podSecurity" $root | nindent 4 }}
  containers:
    - name: client
      image: {{ .image | default (include "lockstep.image" (dict "root" $root "name" "cli")) }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      command: {{- toYaml .command | nindent 8 }}
      env:
        - {name: LOCKSTEP_ENDPOINT, value: {{ include "lockstep.clientEndpoint" $root | quote }}}
        - {name: LOCKSTEP_KEY, value: /keys/client.key}
        - {name: LOCKSTEP_CONTROLLER_KEY, value: /keys/controller.pub}
      resources: {{- toYaml .resources | nindent 8 }}
      securityContext: {{- include "lockstep.containerSecurity" $root | nindent 8 }}
      volumeMounts:
        - {name: keys, mountPath: /keys, readOnly: true}
        - {name: files, mountPath: /program, readOnly: true}
  volumes:
    - name: keys
      secret:
        secretName: {{ include "lockstep.clientSecret" $root | required "keys.existingClientSecret: programs and tests in the cluster need a Secret with client.key and controller.pub" | quote }}
        defaultMode: 0440
        items: [{key: client.key, path: client.key}, {key: controller.pub, path: controller.pub}]
    - name: files
      configMap: {name: {{ .files }}}
{{- end -}}
