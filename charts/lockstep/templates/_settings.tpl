{{/* Microseconds of "200us", bytes of "8MiB": a number of what "units" are. dict "value" "8MiB" "units" {} */}}
{{- define "lockstep.inUnits" -}}
{{- mulf (regexFind "^[0-9]+" .value | float64) (get .units (regexFind "[A-Za-z]+$" .value)) -}}
{{- end -}}

{{/* Fails if a setting of a service is none that it takes: its pod would only say so, again and again, when it has read
     its configuration. What is allowed is in files/settings.yaml. dict "root" $ "part" "head" */}}
{{- define "lockstep.checkSettings" -}}
{{- $allowed := get (.root.Files.Get "files/settings.yaml" | fromYaml) .part -}}
{{- $durations := dict "us" 1 "ms" 1e3 "s" 1e6 "min" 6e7 "h" 3.6e9 -}}
{{- $sizes := dict "B" 1 "KiB" 1024 "MiB" 1048576 "GiB" 1073741824 "TiB" 1099511627776 -}}
{{- range $name, $value := (get .root.Values .part).config -}}
{{- with get $allowed $name -}}
{{- $key := printf "%s.config.%s" $.part $name -}}
{{- $text := kindIs "float64" $value | ternary ($value | int64 | toString) (toString $value) -}}
{{/* YAML reads a bare on or off as true or false. */}}
{{- if and (kindIs "bool" $value) (has ($value | ternary "on" "off") (default list .allowed)) -}}
{{- $text = $value | ternary "on" "off" -}}
{{- end -}}
{{- if eq .type "text" -}}
{{- if not (has $text .allowed) -}}
{{- fail (printf "%s: %q is not known; allowed: %s" $key $text (join ", " .allowed)) -}}
{{- end -}}
{{- else if eq .type "integer" -}}
{{- if not (regexMatch "^[0-9]{1,18}$" $text) -}}
{{- fail (printf "%s: %q is no whole number; allowed: %v to %v" $key $text .min .max) -}}
{{- else if or (lt ($text | int64) (.min | int64)) (gt ($text | int64) (.max | int64)) -}}
{{- fail (printf "%s: %s is out of bounds; allowed: %d to %d" $key $text (.min | int64) (.max | int64)) -}}
{{- end -}}
{{- else -}}
{{- $units := eq .type "duration" | ternary $durations $sizes -}}
{{- if not (regexMatch (printf "^[0-9]+(%s)$" (keys $units | join "|")) $text) -}}
{{- fail (printf "%s: %q is no %s; write a whole number and a unit, such as %s; allowed: %s to %s" $key $text .type (eq .type "duration" | ternary "500ms" "8MiB") .min .max) -}}
{{- end -}}
{{- $number := include "lockstep.inUnits" (dict "value" $text "units" $units) | float64 -}}
{{- if or (lt $number (include "lockstep.inUnits" (dict "value" .min "units" $units) | float64)) (gt $number (include "lockstep.inUnits" (dict "value" .max "units" $units) | float64)) -}}
{{- fail (printf "%s: %s is out of bounds; allowed: %s to %s" $key $text .min .max) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
