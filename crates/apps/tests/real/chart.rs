//! A chart, and a repository that has it.

use berth_testkit::charts;
use std::path::Path;

const TEMPLATE: &str = r#"apiVersion: v1
kind: ConfigMap
metadata:
  name: web
data:
  word: {{ .Values.word | quote }}
  other: fixed
  {{- if .Values.broken }}{{ fail .Values.broken }}{{ end }}
{{- if .Values.hang }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: hang
  annotations: {"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-delete-policy": "before-hook-creation"}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: none}]
{{- end }}
{{- if .Values.volume }}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
{{- end }}
{{- if .Values.more }}
{{- $ca := genCA "web" 1 }}
---
apiVersion: v1
kind: Secret
metadata: {name: web}
stringData: {word: "{{ .Values.word }}", password: "{{ randAlphaNum 20 }}", ca: {{ $ca.Cert | quote }}}
---
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Service
    metadata: {name: web, annotations: {"helm.sh/resource-policy": keep}}
    spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "web:{{ .Release.Namespace }}"}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      hostNetwork: no
      nodeSelector: null
      containers:
        - {name: c, image: none, resources: {limits: {cpu: 1000m, memory: 1024Mi}}, volumeMounts: [{name: v, mountPath: /v, readOnly: yes}]}
      volumes: [{name: v, configMap: {name: web, defaultMode: 0640}}]
{{- end }}
"#;

/// A chart repository on loopback; its URL.
pub(crate) fn serve(dir: &Path) -> String {
    charts::serve(dir, "", "word: none\n", TEMPLATE)
}
