//! Images in what a chart renders.

use crate::charts::documents;
use serde_json::Value;
use std::collections::BTreeSet;

/// Lists of containers in the spec of a pod.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Those of all pod specs, wherever these are: also within a List, or in the custom resource of another controller. Err: what is no YAML.
pub(super) fn images(text: &str) -> Result<BTreeSet<String>, String> {
    let mut all = BTreeSet::new();
    for document in documents(text)? {
        collect(&document, &mut all);
    }
    Ok(all)
}

fn collect(value: &Value, all: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, all)),
        Value::Object(fields) => {
            let items = |name: &str| fields.get(name).and_then(Value::as_array).into_iter().flatten();
            let containers = CONTAINERS.iter().flat_map(|name| items(name)).map(|container| &container["image"]);
            let volumes = items("volumes").map(|volume| &volume["image"]["reference"]);
            let named = containers.chain(volumes).filter_map(Value::as_str).map(str::trim);
            all.extend(named.filter(|image| !image.is_empty()).map(str::to_owned));
            fields.values().for_each(|field| collect(field, all));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_image_of_a_pod_spec_is_found_once_wherever_it_is() {
        let text = r#"---
# Source: web/templates/deployment.yaml
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {a: b, a: c}}
spec:
  template:
    spec:
      initContainers: [{name: i, image: "reg.example.com/init:1"}]
      containers:
        - {name: c, image: reg.example.com/web:1, args: ["--helper=reg.example.com/unseen:1"]}
        - {name: d, image: reg.example.com/web:1}
      volumes: [{name: v, image: {reference: "reg.example.com/data@sha256:ab"}}, {name: w, emptyDir: {}}]
---
# Source: web/templates/none.yaml
---
apiVersion: v1
kind: List
items:
  - {apiVersion: batch/v1, kind: CronJob, spec: {jobTemplate: {spec: {template: {spec: {containers: [{image: job}]}}}}}}
---
apiVersion: example.com/v1
kind: Database
spec: {image: reg.example.com/unseen:2, podTemplate: {spec: {containers: [{name: c, image: reg.example.com/seen:2}]}}}
---
apiVersion: v1
kind: ConfigMap
data:
  text: |
    containers:
    - image: reg.example.com/unseen:3
"#;
        let all: Vec<String> = images(text).unwrap().into_iter().collect();
        let expected = [
            "job",
            "reg.example.com/data@sha256:ab",
            "reg.example.com/init:1",
            "reg.example.com/seen:2",
            "reg.example.com/web:1",
        ];
        assert_eq!(all, expected);
        assert!(images("a: [").is_err());
        assert_eq!(images("").unwrap().len(), 0);
    }
}
