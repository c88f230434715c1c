{{/* What fits the schema, and yet does not fit together. */}}
{{- define "lockstep.validate" -}}
{{- $name := include "lockstep.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "%s: Services cannot be called so; they take lower-case letters, digits and hyphens, a letter first. Give the release such a name, or set fullnameOverride" $name) -}}
{{- end -}}
{{- range $where, $labels := dict "head.podLabels" .Values.head.podLabels "worker.podLabels" .Values.worker.podLabels "metrics.podMonitor.labels" .Values.metrics.podMonitor.labels "metrics.rules.labels" .Values.metrics.rules.labels "metrics.dashboards.labels" .Values.metrics.dashboards.labels -}}
{{- range $label, $_ := $labels -}}
{{- if hasKey $.Values.commonLabels $label -}}
{{- fail (printf "%s: %s is in commonLabels, too" $where $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.gpu.enabled (eq (toString .Values.worker.config.device) "cpu") -}}
{{- fail "worker.config.device: is cpu, and gpu.enabled is true; each pod would hold a GPU that nobody uses" -}}
{{- else if and (not .Values.gpu.enabled) (hasPrefix "cuda" (toString .Values.worker.config.device)) -}}
{{- fail "worker.config.device: GPUs are what gpu.enabled is for; the image of the others has no CUDA" -}}
{{- end -}}
{{- $_ := include "lockstep.arena" . -}}
{{- $workers := include "lockstep.workerConfig" . | fromYaml -}}
{{- if eq (toString $workers.command_rings) "on" -}}
{{- fail "worker.config.command_rings: is on, but pods share no memory with the controller's, so that each would end; leave it at auto" -}}
{{- end -}}
{{- if ne (toString $workers.data_plaintext) "network" -}}
{{- if has (toString .Values.head.config.communicator) (list "gloo" "shm+gloo") -}}
{{- fail (printf "head.config.communicator: %s does not encrypt what pods send each other; leave it at auto, or, in a network that only the cluster uses, set worker.config.data_plaintext: network" .Values.head.config.communicator) -}}
{{- else if eq (toString $workers.data_encryption) "off" -}}
{{- fail "worker.config.data_encryption: is off, so that pods send each other nothing; leave it at auto, or, in a network that only the cluster uses, set worker.config.data_plaintext: network" -}}
{{- end -}}
{{- end -}}
{{- $_ = include "lockstep.checkResources" (dict "what" "head.resources" "given" .Values.head.resources "limits" .Values.head.resources.limits) -}}
{{- $_ = include "lockstep.checkResources" (dict "what" "worker.resources" "given" .Values.worker.resources "limits" (include "lockstep.workerResources" . | fromYaml).limits) -}}
{{- $_ = include "lockstep.checkResources" (dict "what" "program.resources" "given" .Values.program.resources "limits" .Values.program.resources.limits) -}}
{{- $claims := list -}}
{{- range .Values.worker.resourceClaims -}}
{{- $claims = append $claims .name -}}
{{- end -}}
{{- range .Values.worker.resources.claims -}}
{{- if not (has .name $claims) -}}
{{- fail (printf "worker.resources.claims: %s is none of worker.resourceClaims; say there what it stands for, such as {name: %s, resourceClaimTemplateName: %s}" .name .name .name) -}}
{{- end -}}
{{- end -}}
{{- if eq "0" (include "lockstep.seconds" (dict "what" "worker.config.join_timeout" "time" (include "lockstep.joinTimeout" .))) -}}
{{- fail "worker.config.join_timeout: a worker needs some time to find its controller" -}}
{{- end -}}
{{- range $part := list "head" "worker" -}}
{{- $_ = include "lockstep.checkSettings" (dict "root" $ "part" $part) -}}
{{- $_ = include "lockstep.seconds" (dict "what" (printf "%s.drain" $part) "time" (get $.Values $part).drain) -}}
{{- end -}}
{{- if and .Values.keys.existingSecret .Values.keys.allowed -}}
{{- fail "keys.allowed: with keys.existingSecret, who may come in is said by the Secret's own allowed_keys" -}}
{{- end -}}
{{- $known := dict -}}
{{- range .Values.keys.allowed -}}
{{- if hasKey $known .key -}}
{{- fail (printf "keys.allowed: %s and %s have the same key, %s; a key has one name and one role" (get $known .key) .name .key) -}}
{{- end -}}
{{- $_ = set $known .key .name -}}
{{- end -}}
{{- if and (not .Values.keys.existingSecret) .Values.keys.existingClientSecret -}}
{{- fail "keys.existingClientSecret: belongs to keys.existingSecret, which is not set; the keys that the chart makes are in Secrets of its own" -}}
{{- end -}}
{{- if and (eq .Values.gang.by "kueue") (not .Values.gang.queue) -}}
{{- fail "gang.queue: Kueue needs the name of a LocalQueue of this namespace" -}}
{{- end -}}
{{- if and .Values.fragments.enabled .Values.gpu.enabled -}}
{{- fail "fragments.enabled: the image worker-cuda, which gpu.enabled takes, has no compiler of fragments" -}}
{{- end -}}
{{- if and .Values.fragments.claim (not .Values.fragments.enabled) -}}
{{- fail "fragments.claim: fragments.enabled is false" -}}
{{- end -}}
{{- if and .Values.modules.image .Values.modules.claim -}}
{{- fail "modules: both image and claim are set; modules come from one of them" -}}
{{- end -}}
{{- if and .Values.modules.initContainer (or .Values.modules.image .Values.modules.claim) -}}
{{- fail "modules.initContainer: puts the modules where they belong itself; image and claim must be empty then" -}}
{{- end -}}
{{- if and (not .Values.gpu.enabled) (or .Values.gpu.nccl .Values.gpu.extraResources .Values.gpu.runtimeClassName .Values.gpu.ipcLock) -}}
{{- fail "gpu: settings of GPUs are given, but gpu.enabled is false" -}}
{{- end -}}
{{- if and .Values.program.enabled (not .Values.program.files) (not .Values.program.image) -}}
{{- fail "program.files: there is nothing to run; give the file program.yaml, or an image and a command of your own" -}}
{{- end -}}
{{- if and (eq .Values.service.type "NodePort") (not .Values.service.bulkNodePort) -}}
{{- fail "service.bulkNodePort: clients of a NodePort find worker-0 at its own port of the node; give one that is free in the cluster's range, such as 30404" -}}
{{- end -}}
{{- if and (ne .Values.service.type "ClusterIP") .Values.networkPolicy.enabled (not .Values.networkPolicy.clients) -}}
{{- fail (printf "networkPolicy.clients: with service.type %s clients come from elsewhere; say from where, such as [{ipBlock: {cidr: 10.0.0.0/8}}]" .Values.service.type) -}}
{{- end -}}
{{- if and (ne .Values.service.type "LoadBalancer") .Values.service.loadBalancerSourceRanges -}}
{{- fail (printf "service.loadBalancerSourceRanges: belongs to the type LoadBalancer, and service.type is %s" .Values.service.type) -}}
{{- end -}}
{{- if and (eq .Values.service.type "ClusterIP") .Values.service.externalTrafficPolicy -}}
{{- fail "service.externalTrafficPolicy: belongs to the types NodePort and LoadBalancer, and service.type is ClusterIP" -}}
{{- end -}}
{{- if and (ne .Values.service.type "NodePort") (or .Values.service.nodePort .Values.service.bulkNodePort) -}}
{{- fail (printf "service.nodePort: belongs to the type NodePort, and service.type is %s" .Values.service.type) -}}
{{- end -}}
{{- end -}}
