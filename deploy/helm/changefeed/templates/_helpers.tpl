{{- define "changefeed.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Chart.Name .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "changefeed.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "changefeed.labels" -}}
{{ include "changefeed.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "changefeed.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "changefeed.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* The name of the Secret, existing or the chart's; empty if there is none. */ -}}
{{- define "changefeed.secret" -}}
{{- if .Values.secret.existing -}}
{{- if .Values.secret.values -}}
{{- fail "secret.existing and secret.values are both set: the chart does not add keys to a Secret that exists" -}}
{{- end -}}
{{- .Values.secret.existing -}}
{{- else if .Values.secret.values -}}
{{- include "changefeed.fullname" . -}}
{{- end -}}
{{- end -}}
