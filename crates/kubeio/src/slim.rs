//! JSON as the API server sends it, without what nothing here reads: `managedFields`, which are up to half of an object (a plan reads
//! those of workloads), annotations of backups, those that others have put on objects of Berth's kinds, the specs of Jobs, those of pods but for the
//! environment of containers, values of `AppInstallation`s and, in watches, of `App`s (up to 72 KiB: where these count each is read by itself, and whole),
//! and what immutable ConfigMaps hold (templates, tens of KiB) that are not for values of an `App`. It is passed over while parsing, so it costs no memory.

use berth_render::Kind;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// An object without `managedFields`, unless it is a workload, and otherwise whole.
#[derive(Debug)]
pub struct Slim(pub Value);

impl<'de> Deserialize<'de> for Slim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Parser { at: At::Object, kind: None, managed: true }.deserialize(deserializer).map(Self)
    }
}

/// An object of a kind, or a list of them, always without `managedFields`.
pub fn read<'de, D: Deserializer<'de>>(kind: Kind, deserializer: D) -> Result<Value, D::Error> {
    Parser { at: At::Object, kind: Some(kind), managed: false }.deserialize(deserializer)
}

/// Likewise, from a text, with the `managedFields` of workloads.
pub(crate) fn parse(kind: Kind, text: &str) -> serde_json::Result<Value> {
    let mut json = serde_json::Deserializer::from_str(text);
    let value = Parser { at: At::Object, kind: Some(kind), managed: true }.deserialize(&mut json)?;
    json.end()?;
    Ok(value)
}

/// Where in an answer a value is.
#[derive(Clone, Copy, PartialEq)]
enum At {
    /// An object of the API, or a list of them.
    Object,
    /// A field `metadata`, at any depth.
    Metadata,
    /// The annotations of one of Berth's kinds.
    Annotations,
    /// The spec of a pod.
    PodSpec,
    /// A container of a pod.
    Container,
    /// The spec of an `AppInstallation`.
    Installation,
    /// What an app is made from.
    Release,
    Elsewhere,
}

#[derive(Clone, Copy)]
struct Parser {
    at: At,
    /// The kind of the objects, if only what decisions read is wanted.
    kind: Option<Kind>,
    /// `managedFields` of workloads are wanted; in an object's metadata: those of this object.
    managed: bool,
}

/// Kinds whose `managedFields` plans read.
const WORKLOADS: [Kind; 2] = [Kind::Deployment, Kind::StatefulSet];

impl Parser {
    /// The parser for a field, unless nobody reads it. `before`: the fields that came before it.
    fn field(self, key: &str, before: &Map<String, Value>) -> Option<Self> {
        let at = match (self.at, key) {
            (At::Metadata, "managedFields") if !self.managed => return None,
            (At::Metadata, "annotations") if self.kind == Some(Kind::EtcdBackup) => return None,
            (At::Annotations, key) if !is_read(key) => return None,
            (At::Metadata, "annotations") if self.is_berths() => At::Annotations,
            (At::Object, "spec") if self.kind == Some(Kind::Job) => return None,
            (At::Object, "spec") if self.kind == Some(Kind::Pod) => At::PodSpec,
            (At::Object, "spec") if self.kind == Some(Kind::AppInstallation) => At::Installation,
            // Who lists Apps compares their values with what is installed.
            (At::Object, "spec") if self.kind == Some(Kind::App) && !self.managed => At::Release,
            (At::Installation, "release") => At::Release,
            (At::PodSpec, "containers") => At::Container,
            (At::Container, "name" | "env") => At::Elsewhere,
            (At::PodSpec | At::Container, _)
            | (At::Installation, "configMaps")
            | (At::Release, "values" | "valuesTemplate") => return None,
            (At::Object, "data")
                if self.kind == Some(Kind::ConfigMap) && is_true(before, "immutable") && !has_values(before) =>
            {
                return None;
            }
            (At::Object, "items") => At::Object,
            (_, "metadata") => At::Metadata,
            _ => At::Elsewhere,
        };
        let of_an_object = self.at == At::Object && at == At::Metadata;
        Some(Self { at, managed: self.managed && (!of_an_object || self.is_workload(before)), ..self })
    }

    fn is_berths(self) -> bool {
        self.kind.is_some_and(|kind| kind.group() == berth_api::GROUP)
    }

    /// Items of a list come without their kind; elsewhere it is before the metadata.
    fn is_workload(self, before: &Map<String, Value>) -> bool {
        let kind = self.kind.map(Kind::name).or(before.get("kind").and_then(Value::as_str));
        WORKLOADS.into_iter().any(|workload| kind == Some(workload.name()))
    }
}

/// Annotations of Berth's kinds that decide something; teams may have hundreds of KiB of others.
fn is_read(annotation: &str) -> bool {
    annotation.starts_with("berth.dev/") || annotation == berth_api::labels::CHANGE_CAUSE
}

/// API servers send fields in the order of their Go structs, `immutable` before `data`.
fn is_true(fields: &Map<String, Value>, key: &str) -> bool {
    fields.get(key).and_then(Value::as_bool).unwrap_or_default()
}

/// Whether a ConfigMap is for values of an `App`. Its metadata come before its data.
fn has_values(fields: &Map<String, Value>) -> bool {
    fields.get("metadata").is_some_and(|metadata| metadata["labels"][berth_api::labels::APP_VALUES] == "true")
}

impl<'de> DeserializeSeed<'de> for Parser {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// Values that hold no others stay as they are.
macro_rules! scalars {
    ($($visit:ident: $type:ty),*) => {
        $(fn $visit<E>(self, v: $type) -> Result<Value, E> {
            Ok(v.into())
        })*
    };
}

impl<'de> Visitor<'de> for Parser {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    scalars!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str, visit_string: String);

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = vec![];
        while let Some(item) = seq.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            match self.field(&key, &fields) {
                None => _ = map.next_value::<IgnoredAny>()?,
                Some(parser) => _ = fields.insert(key, map.next_value_seed(parser)?),
            }
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn all_but_managed_fields_is_as_it_was_sent() {
        let whole = json!({
            "items": [{
                "metadata": {"name": "a", "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}], "generation": 3},
                "spec": {"managedFields": "a name like any other", "n": -1, "f": 1.5, "none": null, "yes": true},
            }],
            "metadata": {"resourceVersion": "7"},
        });
        let Slim(read) = serde_json::from_str(&whole.to_string()).unwrap();
        let mut expected = whole;
        expected["items"][0]["metadata"].as_object_mut().unwrap().remove("managedFields");
        assert_eq!(read, expected);
    }

    #[test]
    fn those_of_workloads_stay_but_for_watches() {
        let object = |kind: &str| {
            let metadata = json!({"name": "a", "managedFields": [{"manager": "m", "fieldsV1": {"f:metadata": {}}}]});
            let whole = json!({"metadata": metadata, "spec": {"template": {"metadata": {"labels": {}}}}});
            // As an API server orders them; here a map is sorted.
            format!("{{\"kind\":\"{kind}\",{}", &whole.to_string()[1..])
        };
        let kept = |read: &Value| !read["metadata"]["managedFields"].is_null();
        for (kind, name) in
            [(Kind::Deployment, "Deployment"), (Kind::StatefulSet, "StatefulSet"), (Kind::Service, "Service")]
        {
            let Slim(one) = serde_json::from_str(&object(name)).unwrap();
            assert_eq!(kept(&one), kind != Kind::Service, "{name}");
            let list = format!("{{\"items\":[{}]}}", object("List"));
            assert_eq!(kept(&parse(kind, &list).unwrap()["items"][0]), kind != Kind::Service, "{name}");
            let watched = read(kind, &mut serde_json::Deserializer::from_str(&object(name))).unwrap();
            assert!(!kept(&watched) && watched["spec"]["template"]["metadata"]["labels"].is_object());
        }
    }

    #[test]
    fn specs_are_passed_over_but_for_what_containers_are_told() {
        let env = json!([{"name": "HTTPS_PROXY", "value": "http://proxy"}]);
        let container = json!({"name": "c", "image": "i", "env": env, "volumeMounts": [{"name": "v"}]});
        let spec = json!({"nodeName": "n", "containers": [container], "volumes": [{"name": "v"}]});
        let pod = json!({"metadata": {"name": "a"}, "spec": spec, "status": {"spec": 1}});
        let list = json!({"items": [pod], "spec": 2}).to_string();
        let slim = json!({"metadata": {"name": "a"}, "status": {"spec": 1}});
        assert_eq!(parse(Kind::Job, &list).unwrap(), json!({"items": [slim]}));
        let told = json!({"containers": [{"name": "c", "env": env}]});
        let slim = json!({"metadata": {"name": "a"}, "spec": told, "status": {"spec": 1}});
        assert_eq!(parse(Kind::Pod, &list).unwrap()["items"][0], slim);
        assert_eq!(parse(Kind::Deployment, &list).unwrap(), json!({"items": [pod], "spec": 2}));
    }

    #[test]
    fn values_of_apps_are_passed_over_where_nobody_compares_them() {
        let release = |more: Value| {
            let mut release = json!({"chart": {"oci": "oci://reg/web", "values": 1}, "valuesFrom": [{"values": 2}]});
            release.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            release
        };
        let (values, none) = (json!({"values": {"a": "x"}, "valuesTemplate": "b: c"}), json!({}));
        let app = |more: &Value| json!({"items": [{"metadata": {"name": "a"}, "spec": release(more.clone())}]});
        let installation = |more: &Value| {
            let spec = json!({"release": release(more.clone()), "values": 3, "digest": "d"});
            json!({"items": [{"metadata": {"name": "a"}, "spec": spec, "status": {"values": 4}}]})
        };
        let listed = |kind, of: &Value| parse(kind, &of.to_string()).unwrap();
        let watched = |kind, of: &Value| read(kind, &mut serde_json::Deserializer::from_str(&of.to_string())).unwrap();
        assert_eq!(listed(Kind::AppInstallation, &installation(&values)), installation(&none));
        assert_eq!(watched(Kind::AppInstallation, &installation(&values)), installation(&none));
        let mut read = installation(&values);
        read["items"][0]["spec"]["configMaps"] = json!([{"name": "m", "key": "k", "values": "{}"}]);
        assert_eq!(listed(Kind::AppInstallation, &read), installation(&none));
        assert_eq!(listed(Kind::App, &app(&values)), app(&values));
        assert_eq!(watched(Kind::App, &app(&values)), app(&none));
    }

    #[test]
    fn annotations_of_others_on_berths_kinds_are_passed_over() {
        let all = json!({"berth.dev/roll": "3", "kubernetes.io/change-cause": "why", "example.com/large": "x"});
        let spec = json!({"vpc": {"podAnnotations": all}});
        let list = json!({"items": [{"metadata": {"name": "a", "annotations": all}, "spec": spec}]}).to_string();
        let read = |kind| parse(kind, &list).unwrap()["items"][0].clone();
        let kept = json!({"berth.dev/roll": "3", "kubernetes.io/change-cause": "why"});
        assert_eq!(read(Kind::Cluster), json!({"metadata": {"name": "a", "annotations": kept}, "spec": spec}));
        assert_eq!(read(Kind::Service)["metadata"]["annotations"], all);
    }

    #[test]
    fn what_an_immutable_config_map_holds_is_passed_over() {
        let read = |kind, text: &str| parse(kind, text).unwrap()["items"][0]["data"]["a"].as_str().map(str::to_owned);
        let fixed = r#"{"items": [{"metadata": {"name": "m"}, "immutable": true, "data": {"a": "b"}}]}"#;
        assert_eq!(read(Kind::ConfigMap, fixed), None);
        assert_eq!(read(Kind::Secret, fixed).as_deref(), Some("b"));
        assert_eq!(read(Kind::ConfigMap, &fixed.replace("true", "false")).as_deref(), Some("b"));
        let values = fixed.replace(r#""name": "m""#, r#""labels": {"berth.dev/app-values": "true"}"#);
        assert_eq!(read(Kind::ConfigMap, &values).as_deref(), Some("b"), "an App's values");
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        assert!(serde_json::from_str::<Slim>(r#"{"metadata": {"managedFields": ["#).is_err());
        assert!(parse(Kind::Pod, "{} {}").is_err());
    }
}
