{{/* Bytes of an amount of memory, which other amounts are added to. dict "what" "worker.arena" "amount" "1Gi" */}}
{{- define "lockstep.bytes" -}}
{{- $units := dict "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- if not (regexMatch "^[1-9][0-9]*[KMGT]i$" .amount) -}}
{{- fail (printf "%s: %q is no amount of memory that can be added to others; write a whole number and Ki, Mi, Gi or Ti, such as 8Gi" .what .amount) -}}
{{- end -}}
{{- mul (regexFind "^[0-9]+" .amount | int64) (get $units (regexFind "[KMGT]i$" .amount)) -}}
{{- end -}}

{{- define "lockstep.arena" -}}
{{- $bytes := include "lockstep.bytes" (dict "what" "worker.arena" "amount" .Values.worker.arena) | int64 -}}
{{- if lt $bytes 16777216 -}}
{{- fail (printf "worker.arena: %s is too little; a worker takes at least 16Mi" .Values.worker.arena) -}}
{{- end -}}
{{- $bytes -}}
{{- end -}}

{{/* What /dev/shm holds, in MiB: the arena, with what communicators take of it, and what a worker keeps beside it. */}}
{{- define "lockstep.shm" -}}
{{- div (add (include "lockstep.arena" . | int64) 67108864 1048575) 1048576 -}}
{{- end -}}

{{/* Tensors in /dev/shm, and what CUDA and NCCL, or the compiler of fragments, take, count as their worker's memory: the limit has room for all. */}}
{{- define "lockstep.workerResources" -}}
{{- $resources := deepCopy .Values.worker.resources -}}
{{- $process := include "lockstep.bytes" (dict "what" "worker.resources.limits.memory" "amount" $resources.limits.memory) | int64 -}}
{{- $ofGpus := include "lockstep.bytes" (dict "what" "gpu.hostMemory" "amount" .Values.gpu.hostMemory) | int64 -}}
{{- if .Values.gpu.enabled -}}
{{- $process = add $process $ofGpus -}}
{{- end -}}
{{- $ofCompiler := include "lockstep.bytes" (dict "what" "fragments.memory" "amount" .Values.fragments.memory) | int64 -}}
{{- if .Values.fragments.enabled -}}
{{- $process = add $process $ofCompiler -}}
{{- end -}}
{{- $_ := set $resources.limits "memory" (printf "%dMi" (add (div (add $process 1048575) 1048576) (include "lockstep.shm" . | int64))) -}}
{{- if .Values.gpu.enabled -}}
{{- $_ := set $resources.limits .Values.gpu.resource 1 -}}
{{- end -}}
{{- range $name, $count := .Values.gpu.extraResources -}}
{{- $_ := set $resources.limits $name $count -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}

{{/* An amount of Kubernetes' as a number in thousandths, which is what CPUs are counted in.
     dict "what" "head.resources.limits.cpu" "amount" "250m" */}}
{{- define "lockstep.thousandths" -}}
{{- $units := dict "m" 1.0 "" 1e3 "k" 1e6 "M" 1e9 "G" 1e12 "T" 1e15 "P" 1e18 "E" 1e21 "Ki" 1024e3 "Mi" 1048576e3 "Gi" 1073741824e3 "Ti" 1099511627776e3 "Pi" 1125899906842624e3 "Ei" 1152921504606846976e3 -}}
{{- $amount := toString .amount -}}
{{- if not (regexMatch "^([0-9]+([.][0-9]*)?|[.][0-9]+)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$" $amount) -}}
{{- fail (printf "%s: %q is no amount of a resource; write a number, with a unit such as m, Mi or Gi where it has one" .what $amount) -}}
{{- end -}}
{{- mulf (regexFind "^[0-9.]+" $amount | float64) (get $units (regexFind "[A-Za-z]*$" $amount)) -}}
{{- end -}}

{{/* Kubernetes refuses pods that ask for more than they may take; a StatefulSet would be made all the same, and have no
     pods. `given`: as the values have it; `limits`: with what the chart adds.
     dict "what" "head.resources" "given" {} "limits" {} */}}
{{- define "lockstep.checkResources" -}}
{{- $what := .what -}}
{{- $limits := .limits -}}
{{- range $name, $amount := $limits -}}
{{- $_ := include "lockstep.thousandths" (dict "what" (printf "%s.limits.%s" $what $name) "amount" $amount) -}}
{{- end -}}
{{- range $name, $amount := .given.requests -}}
{{- $key := printf "%s.requests.%s" $what $name -}}
{{- $asked := include "lockstep.thousandths" (dict "what" $key "amount" $amount) | float64 -}}
{{- if hasKey $limits $name -}}
{{- $limit := get $limits $name -}}
{{- if gt $asked (include "lockstep.thousandths" (dict "what" (printf "%s.limits.%s" $what $name) "amount" $limit) | float64) -}}
{{- fail (printf "%s: %v is more than the limit, which is %v; raise %s.limits.%s, or ask for less" $key $amount $limit $what $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Of what runs for a moment: keys are made, modules are copied. */}}
{{- define "lockstep.smallResources" -}}
limits: {cpu: 500m, memory: 128Mi, ephemeral-storage: 1Gi}
requests: {cpu: 50m, memory: 32Mi, ephemeral-storage: 16Mi}
{{- end -}}

{{/* Seconds of "30s" or "5min". dict "what" "head.drain" "time" "30s" */}}
{{- define "lockstep.seconds" -}}
{{- if not (regexMatch "^[0-9]+(s|min|h)$" .time) -}}
{{- fail (printf "%s: %q is no time; write a whole number and s, min or h, such as 30s" .what .time) -}}
{{- end -}}
{{- mul (regexFind "^[0-9]+" .time | int64) (get (dict "s" 1 "min" 60 "h" 3600) (regexFind "[a-z]+$" .time)) -}}
{{- end -}}
