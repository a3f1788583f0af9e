//! What Helm has recorded of a release: the objects of its chart, without those of hooks, which Helm keeps apart.

use crate::helm::{Helm, MOST, last};
use crate::place::Place;
use crate::problem::Problem;
use crate::release::READ;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_contract::apps::{At, Release};
use serde_json::{Map, Value, json};

/// A chart that says what YAML is, in Helm's own words: in that of Kubernetes `0644` is 420 and `yes` is true, and another parser would find drift where there is none.
const TEMPLATE: &str = r#"{{- $all := list }}
{{- range regexSplit "(?m)^---[ \t]*" (.Files.Get "manifest") -1 }}
{{- if trim . }}{{ $all = append $all (fromYaml .) }}{{ end }}
{{- end }}
objects: {{ $all | toJson | b64enc }}
"#;

/// Reads it as objects that Helm would apply, in that order.
pub(super) fn read(helm: &Helm, place: &Place, release: &Release, manifest: &str) -> Result<Vec<Value>, Problem> {
    let chart = place.empty("read")?;
    let files = [
        ("Chart.yaml", "apiVersion: v2\nname: read\nversion: 0.0.0\n"),
        ("templates/objects.yaml", TEMPLATE),
        ("manifest", manifest),
    ];
    std::fs::create_dir_all(chart.join("templates")).map_err(|e| Problem::file(&chart, &e))?;
    for (name, text) in files {
        let path = chart.join(name);
        std::fs::write(&path, text).map_err(|e| Problem::file(&path, &e))?;
    }
    let rendered = helm.call(&["template", "read", &chart.display().to_string()], READ)?;
    let strange = |why: &str| Problem::lasting(At::Release, format!("the manifest of release {}: {why}", release.name));
    if u64::try_from(rendered.out.len()).is_ok_and(|length| length >= MOST) {
        return Err(strange("it is too long"));
    }
    if !rendered.ok {
        return Err(strange(last(&rendered.err).as_str()));
    }
    let objects = rendered.out.lines().find_map(|line| line.strip_prefix("objects: "));
    let objects = objects.and_then(|text| STANDARD.decode(text.trim()).ok());
    let objects = objects.and_then(|json| serde_json::from_slice::<Vec<Value>>(&json).ok());
    let all = objects.ok_or_else(|| strange("Helm does not say what is in it"))?;
    if let Some(error) = all.iter().find(|o| o.get("kind").is_none()).and_then(|o| o["Error"].as_str()) {
        return Err(strange(error));
    }
    Ok(all.into_iter().flat_map(flat).map(|object| owned(object, release)).collect())
}

/// The objects of a list, or the one. What has no name gets another one each time, so there is none to compare with.
fn flat(object: Value) -> Vec<Value> {
    if let Some(items) =
        object["items"].as_array().filter(|_| object["kind"].as_str().is_some_and(|k| k.ends_with("List")))
    {
        return items.iter().cloned().flat_map(flat).collect();
    }
    let is_one =
        ["/kind", "/apiVersion", "/metadata/name"].iter().all(|at| object.pointer(at).is_some_and(Value::is_string));
    if is_one { vec![object] } else { vec![] }
}

/// Helm says whose an object is as it applies it, and not in what it records.
fn owned(mut object: Value, release: &Release) -> Value {
    let mut put = |field: &str, name: &str, value: &str| {
        let fields = &mut object["metadata"][field];
        if !fields.is_object() {
            *fields = Value::Object(Map::new());
        }
        fields[name] = json!(value);
    };
    put("labels", "app.kubernetes.io/managed-by", "Helm");
    put("annotations", NAME, &release.name);
    put("annotations", NAMESPACE, &release.namespace);
    object
}

/// Annotations by which Helm knows whose an object is.
const NAME: &str = "meta.helm.sh/release-name";
const NAMESPACE: &str = "meta.helm.sh/release-namespace";

/// The other release that has an object by now.
pub(super) fn other_owner(live: &Value, release: &Release) -> Option<String> {
    let of = |name: &str| live["metadata"]["annotations"][name].as_str();
    let (name, namespace) = of(NAME).zip(of(NAMESPACE))?;
    ((name, namespace) != (&*release.name, &*release.namespace)).then(|| format!("{namespace}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release() -> Release {
        Release { name: "web".into(), namespace: "shop".into(), ..Release::default() }
    }

    #[test]
    fn lists_are_what_is_in_them_and_what_has_no_name_is_none() {
        let one = |name: &str| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}});
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [one("a"), one("b")]});
        let generated = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "c-"}});
        let found: Vec<Value> = [list, generated, json!({}), one("d")].into_iter().flat_map(flat).collect();
        assert_eq!(found, [one("a"), one("b"), one("d")]);
    }

    #[test]
    fn an_object_is_applied_with_whose_it_is() {
        let object = json!({"metadata": {"name": "a", "labels": null, "annotations": {"x": "y"}}});
        let metadata = &owned(object, &release())["metadata"];
        assert_eq!(metadata["labels"], json!({"app.kubernetes.io/managed-by": "Helm"}));
        assert_eq!(metadata["annotations"], json!({"x": "y", NAME: "web", NAMESPACE: "shop"}));
        let live = |name: &str| json!({"metadata": {"annotations": {NAME: name, NAMESPACE: "shop"}}});
        assert_eq!(other_owner(&live("web"), &release()), None);
        assert_eq!(other_owner(&live("other"), &release()).as_deref(), Some("shop/other"));
        assert_eq!(other_owner(&json!({}), &release()), None, "somebody took the annotations off");
    }
}
