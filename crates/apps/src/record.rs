//! A revision as Helm keeps it: base64 of gzip of JSON in a Secret. Pure. Whoever may write Secrets there writes it, too, so what Helm could read in another
//! way than Berth is refused.

use crate::state::{Chart, Marks, Revision};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_contract::apps::labels;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::{Read as _, Write as _};

/// The most that a revision may unpack to, in bytes.
const LARGEST: u64 = 32 << 20;
const GZIP: [u8; 3] = [0x1f, 0x8b, 0x08];

/// What Helm has recorded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record(Map<String, Value>);

/// Name of the Secret of a revision.
pub(crate) fn secret_name(release: &str, revision: i64) -> String {
    format!("sh.helm.release.v1.{release}.v{revision}")
}

/// A Secret that Helm takes for a revision. None: Helm and Berth may not read the same in it.
pub(crate) fn revision(secret: &Value, release: &str) -> Option<Revision> {
    let record = Record::of(secret)?;
    let revision = record.0.get("version")?.as_i64()?;
    let label = |name: &str| secret["metadata"]["labels"][name].as_str().unwrap_or_default().to_owned();
    // By these Helm writes it, and by that name.
    let is_it = record.text("name") == release && secret["metadata"]["name"] == *secret_name(release, revision);
    is_it.then(|| Revision {
        revision,
        status: record.status().to_owned(),
        label: label("status"),
        digest: record.digest(),
        marks: Marks {
            installation: label(labels::INSTALLATION),
            chart: label(labels::CHART),
            values: label(labels::VALUES),
        },
        made: label(labels::REVISION).parse().ok(),
        chart: record.chart(),
    })
}

impl Record {
    /// That of a Secret.
    pub(crate) fn of(secret: &Value) -> Option<Self> {
        let text = STANDARD.decode(secret["data"]["release"].as_str()?).ok()?;
        let mut bytes = STANDARD.decode(text).ok()?;
        if bytes.starts_with(&GZIP) {
            let mut json = vec![];
            let read = MultiGzDecoder::new(&*bytes).take(LARGEST).read_to_end(&mut json).ok()?;
            bytes = json;
            if u64::try_from(read).is_ok_and(|read| read >= LARGEST) {
                return None;
            }
        }
        Self::from_json(&bytes)
    }

    /// As Helm prints it, too.
    pub(crate) fn from_json(json: &[u8]) -> Option<Self> {
        let Plain(record) = serde_json::from_slice(json).ok()?;
        let record = Self(record);
        (!record.status().is_empty()).then_some(record)
    }

    /// `data.release` of the Secret.
    pub(crate) fn encode(&self) -> std::io::Result<String> {
        let mut gzip = GzEncoder::new(vec![], Compression::best());
        gzip.write_all(&serde_json::to_vec(&self.0)?)?;
        Ok(STANDARD.encode(STANDARD.encode(gzip.finish()?)))
    }

    /// The same in another state.
    pub(crate) fn in_state(mut self, status: &str, description: Option<&str>) -> Self {
        if let Some(info) = self.0.get_mut("info") {
            info["status"] = json!(status);
            if let Some(description) = description {
                info["description"] = json!(description);
            }
        }
        self
    }

    fn text(&self, field: &str) -> &str {
        self.0.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    fn status(&self) -> &str {
        self.0.get("info").and_then(|info| info["status"].as_str()).unwrap_or_default()
    }

    pub(crate) fn revision(&self) -> i64 {
        self.0.get("version").and_then(Value::as_i64).unwrap_or_default()
    }

    /// Objects of the chart, as YAML.
    pub(crate) fn manifest(&self) -> &str {
        self.text("manifest")
    }

    fn chart(&self) -> Chart {
        let metadata = self.0.get("chart").map_or(&Value::Null, |chart| &chart["metadata"]);
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        Chart { name: text("name"), version: text("version"), app_version: text("appVersion") }
    }

    /// Of what Helm creates and deletes by it: the manifest, and hooks, without when these ran last.
    pub(crate) fn digest(&self) -> String {
        let mut digest = Sha256::new();
        let mut add = |text: &str| {
            digest.update(text.len().to_be_bytes());
            digest.update(text);
        };
        for field in ["name", "namespace", "manifest"] {
            add(self.text(field));
        }
        for hook in self.0.get("hooks").and_then(Value::as_array).into_iter().flatten() {
            for field in
                ["name", "kind", "path", "manifest", "events", "weight", "delete_policies", "output_log_policies"]
            {
                add(&hook[field].to_string());
            }
        }
        format!("{:x}", digest.finalize())
    }
}

/// An object of JSON in which each reader finds the same: Go takes `Manifest` for `manifest`, and merges what is there twice.
struct Plain(Map<String, Value>);

impl<'d> Deserialize<'d> for Plain {
    fn deserialize<D: Deserializer<'d>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Fields)
    }
}

struct Fields;

impl<'d> Visitor<'d> for Fields {
    type Value = Plain;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'d>>(self, mut map: A) -> Result<Plain, A::Error> {
        let mut all = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let is_plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            if !is_plain || all.contains_key(&name) {
                return Err(A::Error::custom("a field that is none of Helm's, or is there twice"));
            }
            let value = match &*name {
                "info" | "last_run" => map.next_value::<Option<Plain>>()?.map(|Plain(fields)| Value::Object(fields)),
                "hooks" => map
                    .next_value::<Option<Vec<Plain>>>()?
                    .map(|all| all.into_iter().map(|Plain(fields)| Value::Object(fields)).collect()),
                _ => Some(map.next_value::<Value>()?),
            };
            all.insert(name, value.unwrap_or_default());
        }
        Ok(Plain(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Value {
        json!({
            "name": "web", "namespace": "shop", "version": 3, "manifest": "kind: A\n", "apply_method": "ssa",
            "info": {"status": "deployed", "description": "Upgrade complete", "notes": "<b>"},
            "chart": {"metadata": {"name": "web", "version": "1.0.0", "appVersion": "2"}, "values": {"Some": 1, "some": 1.5}},
            "hooks": [{"name": "h", "kind": "Job", "manifest": "kind: Job\n", "events": ["pre-delete"], "weight": 1,
                "last_run": {"phase": "Succeeded", "started_at": "2026-01-01T00:00:00Z"}}],
        })
    }

    fn secret(json: &str, gzipped: bool) -> Value {
        let bytes = if gzipped {
            let mut gzip = GzEncoder::new(vec![], Compression::best());
            gzip.write_all(json.as_bytes()).unwrap();
            gzip.finish().unwrap()
        } else {
            json.as_bytes().to_vec()
        };
        json!({
            "metadata": {"name": "sh.helm.release.v1.web.v3", "labels": {"status": "superseded", labels::REVISION: "3"}},
            "data": {"release": STANDARD.encode(STANDARD.encode(bytes))},
        })
    }

    #[test]
    fn a_revision_is_read_as_helm_wrote_it() {
        for gzipped in [true, false] {
            let read = revision(&secret(&record().to_string(), gzipped), "web").unwrap();
            assert_eq!((read.revision, &*read.status, &*read.label, read.made), (3, "deployed", "superseded", Some(3)));
            assert_eq!(read.chart, Chart { name: "web".into(), version: "1.0.0".into(), app_version: "2".into() });
            assert_eq!(read.digest.len(), 64);
        }
        assert!(revision(&secret(&record().to_string(), true), "other").is_none(), "Helm would write it elsewhere");
    }

    #[test]
    fn in_another_state_it_is_the_same_revision() {
        let before = Record::of(&secret(&record().to_string(), true)).unwrap();
        let failed = before.clone().in_state("failed", Some("why"));
        let after = Record::of(&json!({"data": {"release": failed.encode().unwrap()}})).unwrap();
        assert_eq!((after.status(), after.digest()), ("failed", before.digest()));
        let mut expected = record();
        (expected["info"]["status"], expected["info"]["description"]) = (json!("failed"), json!("why"));
        assert_eq!(Value::Object(after.0), expected);
    }

    #[test]
    fn the_digest_is_of_what_helm_goes_by() {
        let of = |change: &dyn Fn(&mut Value)| {
            let mut record = record();
            change(&mut record);
            Record::from_json(record.to_string().as_bytes()).unwrap().digest()
        };
        let digest = of(&|_| {});
        assert_eq!(of(&|it| it["hooks"][0]["last_run"]["phase"] = json!("Failed")), digest);
        assert_eq!(of(&|it| it["info"]["status"] = json!("failed")), digest);
        for change in [
            &(|it: &mut Value| it["manifest"] = json!("kind: B\n")) as &dyn Fn(&mut Value),
            &|it| it["namespace"] = json!("other"),
            &|it| it["hooks"][0]["manifest"] = json!("kind: Pod\n"),
            &|it| it["hooks"][0]["events"] = json!(["post-delete"]),
            &|it| it["hooks"] = json!([]),
        ] {
            assert_ne!(of(change), digest);
        }
    }

    /// Go's reader of JSON takes names in any case, and of two the last.
    #[test]
    fn what_helm_could_read_otherwise_is_refused() {
        let text = record().to_string();
        for (from, to) in [
            (r#""manifest":"kind: A\n""#, r#""manifest":"kind: A\n","Manifest":"kind: B\n""#),
            (r#""manifest":"kind: A\n""#, r#""manifest":"kind: B\n","manifest":"kind: A\n""#),
            (r#""status":"deployed""#, r#""status":"deployed","Status":"failed""#),
            (r#""status":"deployed""#, "\"status\":\"deployed\",\"\u{17f}tatus\":\"failed\""),
            (r#""weight":1"#, r#""weight":1,"Events":["pre-upgrade"]"#),
            (r#""version":3"#, r#""version":3.0"#),
            (r#""status":"deployed""#, r#""status":1"#),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            assert!(revision(&secret(&changed, true), "web").is_none(), "{to}");
        }
        let mut broken = secret(&text, true);
        broken["data"]["release"] = json!("bm90IGhlbG0ncw==");
        assert!(revision(&broken, "web").is_none());
    }
}
