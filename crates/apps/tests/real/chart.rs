//! A chart, and a repository that has it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread;

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
    let chart = dir.join("web");
    fs::create_dir_all(chart.join("templates")).unwrap();
    fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: web\nversion: 1.0.0\n").unwrap();
    fs::write(chart.join("values.yaml"), "word: none\n").unwrap();
    fs::write(chart.join("templates/all.yaml"), TEMPLATE).unwrap();
    let archive = dir.join("web-1.0.0.tgz");
    let tar = Command::new("tar").args(["-czf"]).arg(&archive).arg("-C").arg(dir).arg("web").status().unwrap();
    assert!(tar.success());
    let archive = fs::read(archive).unwrap();
    let index =
        "apiVersion: v1\nentries:\n  web:\n    - {apiVersion: v2, name: web, version: 1.0.0, urls: [web-1.0.0.tgz]}\n";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut request = [0; 4096];
            let read = stream.read(&mut request).unwrap_or_default();
            let asked = String::from_utf8_lossy(&request[..read]);
            let body = if asked.contains(".tgz") { &archive } else { index.as_bytes() };
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        }
    });
    url
}
