//! What is to be there, and what is to be done.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::MANAGER;

/// How long something else may stand, such as what the operator writes before the stamp, and how long this one waits after it has written.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// For how long after it has written this one looks again: who wrote at the same time, and the stamp, are through by then.
const RACE: Duration = Duration::from_secs(15);

/// Longer than any tenant's: whoever may write the stamp makes no large objects of it.
const MOST: usize = 16;

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kept {
    /// What kube-proxy and others read.
    Slice,
    /// Its former kind.
    Endpoints,
}

impl Kept {
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Slice => "EndpointSlice",
            Self::Endpoints => "Endpoints",
        }
    }

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Slice => "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
            Self::Endpoints => "/api/v1/namespaces/default/endpoints",
        }
    }
}

/// Where the `kubernetes` Service is to lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    addresses: Vec<IpAddr>,
    port: u16,
}

impl Wanted {
    /// Of the data of a stamp. None: that of an operator that keeps them alone, or of nobody.
    pub(crate) fn read(data: &BTreeMap<String, String>) -> Option<Self> {
        let addresses: Vec<IpAddr> =
            data.get("addresses")?.split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
        let port = data.get("port")?.parse().ok().filter(|port| *port != 0)?;
        let family = data.get("addressType")?;
        let fits = |ip: &IpAddr| if ip.is_ipv4() { family == "IPv4" } else { family == "IPv6" };
        let usable = |ip: &IpAddr| !ip.is_loopback() && !ip.is_unspecified() && !ip.is_multicast();
        let good = addresses.len() <= MOST && addresses.iter().all(|ip| fits(ip) && usable(ip));
        good.then_some(Self { addresses, port })
    }

    /// For people.
    pub(crate) fn says(&self) -> String {
        let one = |ip: &IpAddr| std::net::SocketAddr::new(*ip, self.port).to_string();
        self.addresses.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// As the operator applies it.
    pub(crate) fn object(&self, kept: Kept) -> Value {
        let own = json!({"app.kubernetes.io/managed-by": "berth", "berth.dev/tenant-set": "endpoint"});
        let with = |name: &str, value: &str| {
            let mut labels = own.clone();
            labels[name] = value.into();
            json!({"name": "kubernetes", "namespace": "default", "labels": labels})
        };
        let ports = json!([{"name": "https", "port": self.port, "protocol": "TCP"}]);
        match kept {
            Kept::Slice => {
                let family = if self.addresses.iter().all(IpAddr::is_ipv4) { "IPv4" } else { "IPv6" };
                let one = |ip: &IpAddr| json!({"addresses": [ip], "conditions": {"ready": true}});
                let endpoints: Vec<Value> = self.addresses.iter().map(one).collect();
                json!({
                    "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                    "metadata": with("kubernetes.io/service-name", "kubernetes"),
                    "addressType": family, "endpoints": endpoints, "ports": ports,
                })
            }
            Kept::Endpoints => {
                let addresses: Vec<Value> = self.addresses.iter().map(|ip| json!({"ip": ip})).collect();
                json!({
                    "apiVersion": "v1", "kind": "Endpoints",
                    "metadata": with("endpointslice.kubernetes.io/skip-mirror", "true"),
                    "subsets": [{"addresses": addresses, "ports": ports}],
                })
            }
        }
    }
}

/// What is to be done about one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is as it should be, or as the operator wrote it, or nobody says how it should be.
    Nothing,
    /// Likewise, but look again after so long: this program wrote it a moment ago.
    Again(Duration),
    /// It is not. Look again after so long.
    Wait(Duration),
    /// Write this.
    Write(Value),
}

/// What this program wrote last, and how long ago.
pub(crate) type Wrote<'a> = (Duration, &'a Value);

/// `live`: what the watch says, and for how long.
pub(crate) fn decide(
    kept: Kept,
    wanted: Option<&Wanted>,
    live: (Option<&Value>, Duration),
    wrote: Option<Wrote<'_>>,
) -> Step {
    let ago = wrote.map(|(ago, _)| ago);
    let nothing = || if ago.is_some_and(|ago| ago < RACE) { Step::Again(GRACE) } else { Step::Nothing };
    let Some(wanted) = wanted.map(|wanted| wanted.object(kept)) else { return nothing() };
    let since = match live {
        (Some(there), _) if holds(there, &wanted) || is_the_operators(there, &wanted, wrote) => return nothing(),
        // Only the operator may delete it, which it takes to change the family of addresses.
        (Some(there), _) if kept == Kept::Slice && there["addressType"] != wanted["addressType"] => return nothing(),
        (Some(_), since) => since,
        (None, _) => GRACE,
    };
    match since.min(ago.unwrap_or(GRACE)) {
        waited if waited < GRACE => Step::Wait(GRACE.saturating_sub(waited)),
        _ => Step::Write(wanted),
    }
}

/// Whether the operator wrote what is there, whose stamp comes late or not at all: all of it is its field manager's, from which anybody else
/// who changes a field takes it. This program writes under the same name: what it wrote a moment ago, by the stamp of then, is its own.
fn is_the_operators(live: &Value, wanted: &Value, wrote: Option<Wrote<'_>>) -> bool {
    let own = |(ago, wrote): Wrote<'_>| ago < RACE && holds(live, wrote);
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array);
    let is_manager = |entry: &&Value| entry["manager"] == MANAGER && entry["operation"] == "Apply";
    let mut entries = entries.into_iter().flatten().filter(is_manager);
    entries.any(|entry| owns(&entry["fieldsV1"], wanted)) && !wrote.is_some_and(own)
}

/// Names of an object, which nobody owns.
const UNOWNED: [&str; 4] = ["apiVersion", "kind", "name", "namespace"];

/// Whether all fields of an object are among these. Lists are whole.
fn owns(fields: &Value, object: &Value) -> bool {
    let owned = object.as_object().into_iter().flatten().filter(|(name, _)| !UNOWNED.contains(&name.as_str()));
    owned.into_iter().all(|(name, value)| fields.get(format!("f:{name}")).is_some_and(|fields| owns(fields, value)))
}

/// Whether all that is wanted is there. Lists are whole.
fn holds(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| live.get(name).is_some_and(|live| holds(live, wanted)))
        }
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| holds(live, wanted))
        }
        _ => live == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_render::values::EndpointValues;
    use berth_render::{Catalog, Kind, Object, TenantSet, render_tenant_set, stamp_key};

    const ALL: [Kept; 2] = [Kept::Slice, Kept::Endpoints];

    /// What the operator applies, and what is made of the stamp with it.
    fn rendered(addresses: &[&str], family: &str) -> (Vec<Object>, Option<Wanted>) {
        let addresses = addresses.iter().map(|ip| ip.parse().unwrap()).collect();
        let set = TenantSet::Endpoint(EndpointValues { addresses, family: family.into(), port: 6443 });
        let templates = Catalog::builtin().tenant("1.36".parse().unwrap()).unwrap();
        let objects = render_tenant_set(templates, &set).unwrap();
        let stamp = objects.iter().find(|object| *object.key() == stamp_key("endpoint")).unwrap();
        assert_eq!(stamp.key().name, "berth-endpoint", "approver.yaml.j2 names it");
        let wanted = Wanted::read(&serde_json::from_value(stamp.value()["data"].clone()).unwrap());
        (objects, wanted)
    }

    #[test]
    fn what_is_kept_is_what_the_operator_applies() {
        for (addresses, family) in
            [(&["192.0.2.7"][..], "IPv4"), (&["192.0.2.7", "192.0.2.8"], "IPv4"), (&["2001:db8::7"], "IPv6")]
        {
            let (objects, wanted) = rendered(addresses, family);
            for (kept, kind) in ALL.into_iter().zip([Kind::EndpointSlice, Kind::Endpoints]) {
                let applied = objects.iter().find(|object| object.key().kind == kind).unwrap();
                assert_eq!(wanted.as_ref().unwrap().object(kept), *applied.value());
            }
        }
    }

    #[test]
    fn a_stamp_that_says_nothing_usable_is_none() {
        let read = |pairs: &[(&str, &str)]| {
            let data = [("addresses", "192.0.2.7"), ("addressType", "IPv4"), ("port", "6443")];
            let all = data.iter().chain(pairs).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Wanted::read(&all.collect::<BTreeMap<_, _>>()).is_some()
        };
        assert!(read(&[]) && read(&[("addresses", "192.0.2.7,192.0.2.8")]));
        assert_eq!(
            Wanted::read(&BTreeMap::from([("digest".to_owned(), "ab".to_owned())])),
            None,
            "an older operator's"
        );
        let many = vec!["192.0.2.7"; 17].join(",");
        for bad in [
            ("addresses", ""),
            ("addresses", "api.example.com"),
            ("addresses", "127.0.0.1"),
            ("addresses", "0.0.0.0"),
            ("addresses", "224.0.0.1"),
            ("addresses", "192.0.2.7,2001:db8::7"),
            ("addresses", &many),
            ("addressType", "IPv6"),
            ("addressType", "FQDN"),
            ("port", "0"),
            ("port", "65536"),
        ] {
            assert!(!read(&[bad]), "{bad:?}");
        }
    }

    #[test]
    fn what_is_gone_comes_back_at_once_and_what_differs_after_a_moment() {
        let (_, wanted) = rendered(&["192.0.2.7"], "IPv4");
        let wanted = wanted.as_ref();
        let seconds = Duration::from_secs;
        for kept in ALL {
            let good = wanted.unwrap().object(kept);
            let mut more = good.clone();
            more["metadata"]["annotations"] = json!({"a": "b"});
            let mut without_label = good.clone();
            without_label["metadata"]["labels"]["berth.dev/tenant-set"] = "other".into();
            let mut empty = good.clone();
            let list = if kept == Kept::Slice { "endpoints" } else { "subsets" };
            empty[list] = json!([]);
            let mut twice = good.clone();
            twice[list] = json!([good[list][0], good[list][0]]);
            let mut missing = good.clone();
            missing.as_object_mut().unwrap().remove(list);
            let write = || Step::Write(good.clone());
            let again = || Step::Again(GRACE);
            for (live, for_, wrote, step) in [
                (Some(&good), 60, None, Step::Nothing),
                (Some(&more), 60, None, Step::Nothing),
                (None, 0, None, write()),
                // Who deletes it all the time is answered all the time, and not more often.
                (None, 0, Some(1), Step::Wait(seconds(4))),
                (None, 0, Some(5), write()),
                (Some(&empty), 0, None, Step::Wait(seconds(5))),
                (Some(&empty), 3, None, Step::Wait(seconds(2))),
                (Some(&empty), 5, None, write()),
                (Some(&empty), 5, Some(2), Step::Wait(seconds(3))),
                (Some(&twice), 5, None, write()),
                (Some(&missing), 5, None, write()),
                (Some(&without_label), 5, Some(60), write()),
                // The stamp may have changed meanwhile.
                (Some(&good), 0, Some(0), again()),
                (Some(&good), 14, Some(14), again()),
                (Some(&good), 15, Some(15), Step::Nothing),
            ] {
                let said = decide(kept, wanted, (live, seconds(for_)), wrote.map(|ago| (seconds(ago), &good)));
                assert_eq!(said, step, "{kept:?} {live:?} {for_} {wrote:?}");
            }
            for live in [None, Some(&empty)] {
                assert_eq!(
                    decide(kept, None, (live, seconds(60)), None),
                    Step::Nothing,
                    "nobody says what it is to be"
                );
            }
        }
        let (_, other) = rendered(&["2001:db8::7"], "IPv6");
        let live = wanted.unwrap().object(Kept::Slice);
        let said = decide(Kept::Slice, other.as_ref(), (Some(&live), seconds(60)), None);
        assert_eq!(said, Step::Nothing, "the API server changes no family; the operator deletes it");
    }
    /// As API servers keep it of what that manager applied.
    fn fields(object: &Value) -> Value {
        match object {
            Value::Object(all) => {
                let owned = all.iter().filter(|(name, _)| !UNOWNED.contains(&name.as_str()));
                owned.map(|(name, value)| (format!("f:{name}"), fields(value))).collect()
            }
            _ => json!({}),
        }
    }

    /// It is there, and these managers own those of its fields.
    fn owned(object: &Value, managers: &[(&str, &str, &Value)]) -> Value {
        let entry = |(manager, operation, fields): &(&str, &str, &Value)| json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields});
        let mut live = object.clone();
        live["metadata"]["managedFields"] = managers.iter().map(entry).collect();
        live
    }

    #[test]
    fn what_the_operator_wrote_stays_while_its_stamp_is_old() {
        let wanted = |address: &str| rendered(&[address], "IPv4").1.unwrap();
        let (old, new) = (wanted("192.0.2.7"), wanted("192.0.2.8"));
        let seconds = Duration::from_secs;
        for kept in ALL {
            let list = if kept == Kept::Slice { "endpoints" } else { "subsets" };
            let [was, is] = [&old, &new].map(|wanted| wanted.object(kept));
            let all = fields(&is);
            let mut rest = all.clone();
            rest.as_object_mut().unwrap().remove(&format!("f:{list}"));
            let one = json!({(format!("f:{list}")): {}});
            let operators = owned(&is, &[("kubectl", "Update", &json!({})), (MANAGER, "Apply", &all)]);
            let anothers = owned(&is, &[(MANAGER, "Apply", &rest), ("kubectl", "Update", &one)]);
            let edited = owned(&is, &[(MANAGER, "Update", &all)]);
            let (write, again) = (|| Step::Write(was.clone()), || Step::Again(GRACE));
            for (what, stamp, live, wrote, step) in [
                ("the stamp is old, and stays so", &old, &operators, None, Step::Nothing),
                (
                    "its operator changed it, long after this one wrote",
                    &old,
                    &operators,
                    Some((60, &was)),
                    Step::Nothing,
                ),
                ("likewise, a moment after", &old, &operators, Some((5, &was)), again()),
                ("this one wrote it, and then the stamp changed", &old, &operators, Some((5, &is)), write()),
                ("it is as this one wrote it long ago", &old, &operators, Some((15, &is)), Step::Nothing),
                ("the stamp is there", &new, &operators, None, Step::Nothing),
                ("it is somebody else's", &old, &anothers, None, write()),
                ("it is nobody's", &old, &is, None, write()),
                ("under its name, by an edit", &old, &edited, None, write()),
            ] {
                let wrote = wrote.map(|(ago, object)| (seconds(ago), object));
                assert_eq!(decide(kept, Some(stamp), (Some(live), GRACE), wrote), step, "{kept:?}: {what}");
            }
            // It wrote the old ones over what the operator wrote at the same time; a second later the stamp comes.
            let own = owned(&was, &[(MANAGER, "Apply", &all)]);
            let look =
                |stamp: &Wanted, ago| decide(kept, Some(stamp), (Some(&own), seconds(ago)), Some((seconds(ago), &was)));
            assert_eq!((look(&old, 0), look(&new, 5)), (again(), Step::Write(is.clone())));
        }
    }
}
