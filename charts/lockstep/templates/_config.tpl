{{/* The controller's file. What is given wins, but for what must fit the rest of the chart. */}}
{{- define "lockstep.controllerConfig" -}}
{{- $config := dict "log_format" "json" -}}
{{- $config = mergeOverwrite $config (deepCopy .Values.head.config) -}}
{{- $_ := include "lockstep.restoreWords" (dict "config" $config "names" (list "fragments" "command_rings")) -}}
{{- $config = mergeOverwrite $config (dict
      "cluster" (default (include "lockstep.fullname" .) .Values.cluster)
      "workers" (.Values.workers | int)
      "client_endpoint" "tcp://*:7400"
      "worker_endpoint" "tcp://*:7401"
      "liveness_endpoint" "tcp://*:7402"
      "metrics_endpoint" "http://*:9400"
      "key" "/keys/controller.key"
      "replacement_hint" "Kubernetes starts its pod again (`kubectl get pods`)"
      "allowed_keys" "/keys/allowed_keys") -}}
{{- toYaml $config -}}
{{- end -}}

{{/* YAML reads a bare on or off as true or false: these settings mean the words. dict "config" {} "names" [] */}}
{{- define "lockstep.restoreWords" -}}
{{- range $name := .names -}}
{{- if kindIs "bool" (get $.config $name) -}}
{{- $_ := set $.config $name (get $.config $name | ternary "on" "off") -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* How long a worker looks for its controller. */}}
{{- define "lockstep.joinTimeout" -}}
{{- default "10min" .Values.worker.config.join_timeout -}}
{{- end -}}

{{/* The workers' file; their ranks are on their command lines. */}}
{{- define "lockstep.workerConfig" -}}
{{/* Kubernetes would be slow to start a container again that has ended. */}}
{{- $config := dict "log_format" "json" "join_timeout" (include "lockstep.joinTimeout" .) "after_shutdown" "rejoin" -}}
{{/* Pods encrypt what they send each other. NCCL cannot: with GPUs it may do without, and nothing else. */}}
{{- if .Values.gpu.enabled -}}
{{- $config = mergeOverwrite $config (dict "data_plaintext" "network" "data_encryption" "on") -}}
{{- end -}}
{{- $config = mergeOverwrite $config (deepCopy .Values.worker.config) -}}
{{- $_ := include "lockstep.restoreWords" (dict "config" $config "names" (list "command_rings" "data_encryption")) -}}
{{- $config = mergeOverwrite $config (dict
      "cluster" (default (include "lockstep.fullname" .) .Values.cluster)
      "controller_endpoint" (printf "tcp://%s:7401" (include "lockstep.headAddress" .))
      "metrics_endpoint" "http://*:9401"
      "arena_bytes" (printf "%sB" (include "lockstep.arena" .))
      "key" "/keys/worker.key"
      "controller_key" "/keys/controller.pub") -}}
{{- if include "lockstep.hasModules" . -}}
{{- $_ := set $config "module_path" (list "/modules") -}}
{{- end -}}
{{- if .Values.fragments.enabled -}}
{{- $_ := set $config "fragment_cache" (default "/var/cache/lockstep/fragments" .Values.worker.config.fragment_cache) -}}
{{- /* What the pod's limit has room for: beyond it, the kernel may end all processes of the container, and not the compiler alone. */}}
{{- $ofCompiler := include "lockstep.bytes" (dict "what" "fragments.memory" "amount" .Values.fragments.memory) -}}
{{- $_ := set $config "compiler_memory_bytes" (default (printf "%sB" $ofCompiler) .Values.worker.config.compiler_memory_bytes) -}}
{{- end -}}
{{- if .Values.gpu.enabled -}}
{{- $_ := set $config "device" (default "cuda" .Values.worker.config.device) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* Pods start anew when this changes: a file that a service has read is not read again. */}}
{{- define "lockstep.checksums" -}}
checksum/worker-config: {{ include "lockstep.workerConfig" . | sha256sum }}
checksum/keys: {{ .Values.keys.existingSecret | default (.Values.keys.generation | int64 | toString) | sha256sum }}
{{- end -}}
