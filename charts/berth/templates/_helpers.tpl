{{- define "berth.labels" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/component: operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "berth.selector" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/component: operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "berth.gateway.selector" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/component: gateway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "berth.gateway.labels" -}}
{{ include "berth.gateway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* Whether Berth's own gateway runs. Values of an older chart have no engines. */}}
{{- define "berth.gatewayBerth" -}}
{{- and .Values.gateway.enabled (has "Berth" (.Values.gateway.engines | default (list "Berth"))) -}}
{{- end }}

{{- /* Whether the gateway tells the operator who uses and calls tenants. They find each other by Leases: whoever may write these where others trust in them would be these. */}}
{{- define "berth.gatewayTells" -}}
{{- and (eq (include "berth.gatewayBerth" .) "true") (ne .Values.gateway.namespace .Release.Namespace) (not (and .Values.access.enabled (eq .Values.gateway.namespace .Values.access.namespace))) -}}
{{- end }}

{{- /* Whether tenants have a TLSRoute. */}}
{{- define "berth.gatewayAPI" -}}
{{- and .Values.gateway.enabled (has "GatewayAPI" (.Values.gateway.engines | default list)) -}}
{{- end }}

{{- define "berth.access.selector" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/component: access
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "berth.access.labels" -}}
{{ include "berth.access.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* An image by `name`. A released chart has the digests of its own images as annotations: they count where no tag is set. */}}
{{- define "berth.image" -}}
{{- $digest := .image.digest | default "" -}}
{{- if not (or $digest .image.tag) -}}
{{- $digest = index (.chart.Annotations | default dict) (printf "berth.dev/%s-digest" .name) -}}
{{- end -}}
{{ .image.repository }}:{{ .image.tag | default .chart.AppVersion }}{{ with $digest }}@{{ . }}{{ end }}
{{- end }}

{{- define "berth.username" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ .Values.serviceAccount.name }}
{{- end }}

{{- /* CEL: an object carries Berth's label. */}}
{{- define "berth.ours" -}}
(has({{ . }}.metadata.labels) && 'app.kubernetes.io/managed-by' in {{ . }}.metadata.labels && {{ . }}.metadata.labels['app.kubernetes.io/managed-by'] == 'berth')
{{- end }}

{{- /* CEL: pods of a namespace are held by the policy berth-vpc-pods in place of Pod Security. */}}
{{- define "berth.vpc" -}}
(has({{ . }}.metadata.labels) && 'berth.dev/vpc' in {{ . }}.metadata.labels && {{ . }}.metadata.labels['berth.dev/vpc'] == 'true')
{{- end }}

{{- /* CEL: no pod of a namespace can take a node. */}}
{{- define "berth.restricted" -}}
(has({{ . }}.metadata.labels) && 'pod-security.kubernetes.io/enforce' in {{ . }}.metadata.labels && {{ . }}.metadata.labels['pod-security.kubernetes.io/enforce'] == 'restricted')
{{- end }}

{{- /* What Pod Security restricted demands of a container `c` of a pod, whatever kind of container it is. */}}
{{- define "berth.restricted.container" -}}
c.?securityContext.?privileged.orValue(false) == false
          && c.?securityContext.?allowPrivilegeEscalation.orValue(true) == false
          && c.?securityContext.?capabilities.?drop.orValue([]).exists(d, d == 'ALL')
          && c.?securityContext.?capabilities.?add.orValue([]).all(a, a == 'NET_BIND_SERVICE')
          && c.?securityContext.?runAsNonRoot.orValue(variables.nonRoot) == true
          && c.?securityContext.?runAsUser.orValue(1) != 0
          && c.?securityContext.?procMount.orValue('Default') == 'Default'
          && c.?securityContext.?seccompProfile.?type.orValue(variables.seccomp) in ['RuntimeDefault', 'Localhost']
          && c.?securityContext.?appArmorProfile.?type.orValue('RuntimeDefault') in ['RuntimeDefault', 'Localhost']
          && c.?securityContext.?seLinuxOptions.?type.orValue('') in ['', 'container_t', 'container_init_t', 'container_kvm_t', 'container_engine_t']
          && c.?securityContext.?seLinuxOptions.?user.orValue('') == '' && c.?securityContext.?seLinuxOptions.?role.orValue('') == ''
          && c.?securityContext.?windowsOptions.?hostProcess.orValue(false) == false
          && c.?ports.orValue([]).all(p, p.?hostPort.orValue(0) == 0)
          && c.?livenessProbe.?httpGet.?host.orValue('') == '' && c.?livenessProbe.?tcpSocket.?host.orValue('') == ''
          && c.?readinessProbe.?httpGet.?host.orValue('') == '' && c.?readinessProbe.?tcpSocket.?host.orValue('') == ''
          && c.?startupProbe.?httpGet.?host.orValue('') == '' && c.?startupProbe.?tcpSocket.?host.orValue('') == ''
          && c.?lifecycle.?postStart.?httpGet.?host.orValue('') == '' && c.?lifecycle.?preStop.?httpGet.?host.orValue('') == ''
{{- end }}

{{- /* A regular expression: images of the agent that are the platform's, with whatever tag and digest, since tenants are pinned to those of
different builds. */}}
{{- define "berth.agent.images" -}}
{{- $all := list (regexQuoteMeta .Values.agent.image.repository) -}}
{{- range .Values.admissionPolicies.agentRepositories -}}
{{- $all = append $all (regexQuoteMeta .) -}}
{{- end -}}
^({{ join "|" $all }})(:[^:/@]+)?(@sha256:[0-9a-f]+)?$
{{- end }}

{{- /* A regular expression: the agent's name in the registries that writers may ask for (the last part of the name, as
crates/render/src/images.rs has it). Of no registry: nothing. */}}
{{- define "berth.agent.images.writers" -}}
{{- $name := .Values.agent.image.repository | splitList "/" | last | regexQuoteMeta -}}
{{- $all := list -}}
{{- range .Values.writers.images.registries -}}
{{- if hasSuffix "/*" . -}}
{{- $all = append $all (printf "%s(/[^@]*)?/%s" (trimSuffix "/*" . | regexQuoteMeta) $name) -}}
{{- else if hasSuffix "*" . -}}
{{- $all = append $all (printf "%s[^@]*/%s" (trimSuffix "*" . | regexQuoteMeta) $name) -}}
{{- else -}}
{{- $all = append $all (printf "%s/%s" (trimSuffix "/" . | regexQuoteMeta) $name) -}}
{{- end -}}
{{- end -}}
^({{ join "|" $all | default ".^" }})(:[^:/@]+)?(@sha256:[0-9a-f]+)?$
{{- end }}

{{- /* CEL: somebody allowed that an object of a tenant is deleted. */}}
{{- define "berth.lifted" -}}
(has({{ . }}.metadata.labels) && 'berth.dev/allow-deletion' in {{ . }}.metadata.labels && {{ . }}.metadata.labels['berth.dev/allow-deletion'] == 'true')
{{- end }}

{{- /* Puts an admission policy in force. Given the chart and the policy's name. */}}
{{- define "berth.binding" -}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ index . 1 }}
  labels: {{- include "berth.labels" (index . 0) | nindent 4 }}
spec:
  policyName: {{ index . 1 }}
  validationActions: [Deny]
{{- end }}

{{- /* The operator's configuration file, see crates/plan/src/settings/config.rs. */}}
{{- define "berth.config" -}}
{{- $config := dict "meta" .Values.meta "isolation" .Values.isolation "writers" .Values.writers "vpc" .Values.vpc "admissionPolicies" (dict "enabled" .Values.admissionPolicies.enabled) "admission" .Values.admission "backups" (omit .Values.backups "image") "recovery" .Values.recovery "rollouts" .Values.rollouts "hibernation" (.Values.hibernation | default dict) "tenants" .Values.tenants "authentication" (.Values.authentication | default dict) "imageLayout" .Values.imageLayout "helpers" .Values.helpers "apps" (include "berth.apps" . | fromJson) "apiProxy" (dict "image" (include "berth.image" (dict "name" "api-proxy" "image" .Values.apiProxy.image "chart" .Chart))) -}}
{{- with (.Values.registration | default dict).argoCD }}{{ $_ := set $config "registration" (dict "argoCD" (dict "namespace" .namespace "projects" (.projects | default dict))) }}{{ end -}}
{{- with .Values.gateway }}{{ if .enabled }}{{ $_ := set $config "gateway" (dict "domain" .domain "port" (int .port) "namedPort" (int .namedPort) "engines" (.engines | default (list "Berth"))) }}{{ with .parents }}{{ $_ := set $config.gateway "parents" . }}{{ end }}{{ if .exclusive }}{{ $_ := set $config.gateway "onlyFrom" .namespace }}{{ end }}{{ if eq (include "berth.gatewayTells" $) "true" }}{{ $_ := set $config.gateway "namespace" .namespace }}{{ end }}{{ end }}{{ end -}}
{{- with .Values.access }}{{ if .enabled }}{{ $_ := set $config "access" (dict "namespace" .namespace) }}{{ if eq (include "berth.gatewayBerth" $) "true" }}{{ $_ := set $config.access "gateway" (printf "berth-gateway.%s.svc:%d" $.Values.gateway.namespace (int $.Values.gateway.port)) }}{{ end }}{{ end }}{{ end -}}
{{ $config | toJson }}
{{- end }}

{{- /* What installs apps; without an image nothing does. A value that an older release's values lack counts as its default. */}}
{{- define "berth.apps" -}}
{{- $apps := .Values.apps | default dict -}}
{{- if $apps.enabled -}}
{{ dict "image" (include "berth.image" (dict "name" "apps" "image" $apps.image "chart" .Chart)) "peers" ($apps.peers | default list) | toJson }}
{{- else -}}
{}
{{- end -}}
{{- end }}

{{/* The operator looks at a Secret with a team's own store for backups, an audit webhook or what an app needs, and changes nothing. */}}
{{- define "berth.readsStore" -}}
request.operation == 'UPDATE' && has(request.dryRun) && request.dryRun && oldObject.type in ['berth.dev/object-store', 'berth.dev/audit-webhook', 'berth.dev/app']
{{- end }}

{{- /* CEL: a Secret makes a tenant known to Argo CD, and Berth made it. */}}
{{- define "berth.registers" -}}
({{ . }}.type == 'Opaque' && {{ . }}.metadata.name.startsWith('berth-') && {{ include "berth.ours" . }}
          && 'argocd.argoproj.io/secret-type' in {{ . }}.metadata.labels && {{ . }}.metadata.labels['argocd.argoproj.io/secret-type'] == 'cluster')
{{- end }}

{{- /* CEL: the operator looks at such a Secret and changes nothing, or deletes it. */}}
{{- define "berth.takesBack" -}}
(request.operation == 'DELETE' || (request.operation == 'UPDATE' && has(request.dryRun) && request.dryRun)) && {{ include "berth.registers" "oldObject" }}
{{- end }}

{{- /* CEL: text `of` is as a pattern of `writers`: a * at the end stands for any suffix (crates/plan-cluster/src/validate/writers.rs). Given both. */}}
{{- define "berth.fits" -}}
{{- $of := index . 0 -}}
{{- $pattern := index . 1 -}}
{{- if hasSuffix "*" $pattern -}}
{{ $of }}.startsWith({{ trimSuffix "*" $pattern | toJson }})
{{- else -}}
{{ $of }} == {{ $pattern | toJson }}
{{- end -}}
{{- end }}

{{- /* CEL: an annotation `key` of what the operator writes is Berth's own, one that a webhook adds, or there already. */}}
{{- define "berth.annotation" -}}
key.startsWith('berth.dev/')
          || (request.operation == 'UPDATE' && has(oldObject.metadata.annotations) && key in oldObject.metadata.annotations
            && oldObject.metadata.annotations[key] == object.metadata.annotations[key])
          {{- with .Values.admissionPolicies.annotations }}
          || key in {{ toJson . | replace "\"" "'" }}
          {{- end }}
{{- end }}
