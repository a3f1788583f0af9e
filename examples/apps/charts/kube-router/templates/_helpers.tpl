{{- define "kube-router.selector" -}}
app.kubernetes.io/name: kube-router
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "kube-router.labels" -}}
{{ include "kube-router.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "kube-router.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default (printf "v%s" .Chart.AppVersion)) | quote }}
{{- end }}
