//! What is around the fields that are swept: the spec as a whole, and what is beside it. Whatever `kubectl` sends, with strict field
//! validation as it does, is refused by name or changes nothing, and of an object that is there nothing is lost.

use super::subject::{Kind, Subject};
use crate::common::alone_at_a_server;
use serde_json::{Value, json};

const STRANGER: &str = "sweepNoSuchField";

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    UnknownInside,
    UnknownBeside,
    UnknownInMetadata,
    Empty,
    Null,
    Missing,
    List,
    Text,
}

const ALL: [Wrong; 8] = [
    Wrong::UnknownInside,
    Wrong::UnknownBeside,
    Wrong::UnknownInMetadata,
    Wrong::Empty,
    Wrong::Null,
    Wrong::Missing,
    Wrong::List,
    Wrong::Text,
];

impl Wrong {
    /// Puts it into an object, or into what is sent to change one.
    fn put(self, object: &mut Value) {
        match self {
            Self::UnknownInside => object["spec"][STRANGER] = json!(1),
            Self::UnknownBeside => object[STRANGER] = json!({"version": "1.36.3"}),
            Self::UnknownInMetadata => object["metadata"][STRANGER] = json!("x"),
            Self::Empty => object["spec"] = json!({}),
            Self::Null => object["spec"] = Value::Null,
            Self::Missing => drop(object.as_object_mut().unwrap().remove("spec")),
            Self::List => object["spec"] = json!([]),
            Self::Text => object["spec"] = json!("version"),
        }
    }

    /// What the message has to say.
    fn name(self, way: Way) -> &'static str {
        match self {
            Self::UnknownInside => "spec.sweepNoSuchField",
            Self::UnknownBeside => STRANGER,
            Self::UnknownInMetadata => "metadata.sweepNoSuchField",
            // To apply null is to apply nothing in it.
            Self::Null if way == Way::Apply => "spec.version: ",
            Self::Empty => "spec.version: ",
            Self::Null | Self::Missing | Self::List | Self::Text => "spec: ",
        }
    }

    /// Whether it says nothing: a merge leaves what it does not name.
    fn is_nothing(self, way: Way) -> bool {
        way == Way::Merge && matches!(self, Self::Empty | Self::Missing)
    }
}

/// As `kubectl` sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// `kubectl create` of another one.
    Create,
    /// `kubectl replace`, and `edit` where it cannot patch.
    Replace,
    /// `kubectl patch --type=merge`, and `apply` and `edit`.
    Merge,
    /// `kubectl apply --server-side`, by whom the object was made.
    Apply,
}

/// Sends something wrong to an object as it was before, or beside it.
async fn send(subject: &Subject, way: Way, wrong: Wrong, before: &Value) -> Result<Value, String> {
    let whole = || {
        let mut object = subject.object(&subject.kind.first());
        wrong.put(&mut object);
        object
    };
    match way {
        Way::Create => {
            let mut object = whole();
            object["metadata"]["name"] = json!("another");
            subject.send(http::Request::post(subject.url(STRICT)), "application/json", &object).await
        }
        Way::Replace => {
            let mut object = before.clone();
            wrong.put(&mut object);
            subject.send(http::Request::put(subject.its_url(STRICT)), "application/json", &object).await
        }
        Way::Merge => {
            let mut patch = json!({});
            wrong.put(&mut patch);
            subject.send(http::Request::patch(subject.its_url(STRICT)), "application/merge-patch+json", &patch).await
        }
        Way::Apply => apply(subject, &whole()).await,
    }
}

const STRICT: &str = "?fieldValidation=Strict";

async fn apply(subject: &Subject, object: &Value) -> Result<Value, String> {
    let url = subject.its_url(&format!("{STRICT}&fieldManager=kubectl"));
    subject.send(http::Request::patch(url), "application/apply-patch+yaml", object).await
}

async fn whatever_is_wrong(kind: Kind) {
    // No operator writes to the object meanwhile.
    let (_turn, server) = alone_at_a_server().await;
    let subject = Subject::new(kind, server).await;
    apply(&subject, &subject.object(&kind.first())).await.expect("a good one");
    // The first write after that stores the status that the CRD gives a new object.
    let nothing = http::Request::patch(subject.its_url(""));
    subject.send(nothing, "application/merge-patch+json", &json!({})).await.expect("an empty patch");
    let before = subject.get().await.expect("get");
    for way in [Way::Create, Way::Replace, Way::Merge, Way::Apply] {
        for wrong in ALL {
            let what = format!("{} {way:?} {wrong:?}", kind.name());
            match send(&subject, way, wrong, &before).await {
                Ok(_) => assert!(wrong.is_nothing(way), "{what} is taken"),
                Err(said) => assert!(!wrong.is_nothing(way) && said.contains(wrong.name(way)), "{what}: {said}"),
            }
            assert_eq!(subject.get().await.expect("get"), before, "{what}");
        }
    }
    subject.wipe().await;
}

#[tokio::test]
async fn a_cluster_without_its_spec_or_with_more_is_refused_by_name() {
    whatever_is_wrong(Kind::Cluster).await;
}

#[tokio::test]
async fn an_etcd_cluster_without_its_spec_or_with_more_is_refused_by_name() {
    whatever_is_wrong(Kind::Etcd).await;
}
