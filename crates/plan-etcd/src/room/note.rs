//! What is noted of a change of resources or placement, and what becomes of it.

use berth_api::quantity;
use berth_render::Object;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Where a pod may be placed, beside its requests: fields of its spec.
const PLACEMENT: [&str; 5] =
    ["nodeSelector", "tolerations", "affinity", "topologySpreadConstraints", "priorityClassName"];

/// etcd's.
const CONTAINER: &str = "/spec/template/spec/containers/0";

/// What the scheduler goes by.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Shape {
    /// Requests and limits of etcd's container.
    pub(super) resources: Value,
    /// Fields of the pod's spec.
    pub(super) placement: Map<String, Value>,
}

/// What is noted on the `StatefulSet`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Note {
    /// What ran before.
    pub(super) ran: Shape,
    /// What did not, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<Refused>,
    /// What was applied instead. Admission may have made something else of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) asked: Option<Shape>,
}

/// What no node took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refused {
    /// Digest of the part of the spec.
    pub(super) spec: String,
    /// What the scheduler said.
    pub(super) why: String,
    /// What ran has come up again. A node that is away later is nothing of the shape.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_back: bool,
    /// Nothing was stopped for it: by what nodes say of themselves none could hold it. It goes on once one could. An earlier Berth takes it for
    /// one that was tried.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_foreseen: bool,
    /// Foreseen, but no more than that it could not be read whether one could hold it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_unread: bool,
}

/// How the pods of the live template are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pods {
    /// All are of it, and ready.
    Ready,
    /// One finds no node for its shape, for long enough.
    Unplaced(String),
    /// One finds no node for another reason, such as one that is cordoned, for as long.
    Away,
    /// None of these.
    Changing,
}

impl Refused {
    /// The scheduler says so of a pod.
    fn found(spec: &str, why: &str) -> Self {
        Self { spec: spec.to_owned(), why: why.to_owned(), is_back: false, is_foreseen: false, is_unread: false }
    }
}

impl Note {
    /// What ran has come up again.
    fn back(self) -> Self {
        let back = |refused| Refused { is_back: true, ..refused };
        Self { refused: self.refused.map(back), ..self }
    }
}

impl Shape {
    pub(super) fn of(template: &Value) -> Self {
        let pod = &template["spec"];
        let given = PLACEMENT.into_iter().filter(|field| !pod[field].is_null());
        Self {
            resources: pod["containers"][0]["resources"].clone(),
            placement: given.map(|field| (field.to_owned(), pod[field].clone())).collect(),
        }
    }

    /// Whether each node that takes a pod of the other takes one of this, too.
    fn fits_where(&self, other: &Self) -> bool {
        let requests = |shape: &'_ Self| shape.resources["requests"].as_object().cloned().unwrap_or_default();
        let (these, those) = (requests(self), requests(other));
        let is_no_more = |(name, amount): (&String, &Value)| {
            let there = those.get(name);
            there.is_some_and(|there| quantity::same(there, amount) || is_less(amount, there))
        };
        self.placement == other.placement && these.iter().all(is_no_more)
    }

    /// With the memory limit of that object, unless that is less than the request.
    pub(super) fn with_limit_of(mut self, object: &Object) -> Self {
        let limit = object.get(CONTAINER).and_then(|container| container["resources"]["limits"]["memory"].as_str());
        let request = self.resources["requests"]["memory"].as_str();
        if let Some(limit) = limit.filter(|limit| !request.is_some_and(|request| quantity::is_less(limit, request))) {
            self.resources["limits"]["memory"] = limit.into();
        }
        self
    }

    pub(super) fn put_into(self, mut object: Object) -> Object {
        object = object.with(&format!("{CONTAINER}/resources"), self.resources);
        let Some(pod) = object.get("/spec/template/spec").and_then(Value::as_object) else { return object };
        let mut pod = pod.clone();
        pod.retain(|field, _| !PLACEMENT.contains(&field.as_str()));
        pod.extend(self.placement);
        object.with("/spec/template/spec", pod.into())
    }
}

/// Whether the same nodes take both.
fn are_same(a: &Shape, b: &Shape) -> bool {
    a.fits_where(b) && b.fits_where(a)
}

fn is_less(a: &Value, b: &Value) -> bool {
    matches!((a.as_str(), b.as_str()), (Some(a), Some(b)) if quantity::is_less(a, b))
}

fn foreseen(ran: &Shape, spec: &str, (why, is_unread): (&str, bool)) -> Note {
    let refused = Refused { spec: spec.to_owned(), why: why.to_owned(), is_back: true, is_foreseen: true, is_unread };
    Note { ran: ran.clone(), refused: Some(refused), asked: None }
}

/// What nodes say of themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Nodes {
    /// Nothing that is known.
    Unknown,
    /// One could hold what is asked for.
    Could,
    /// None could, and why.
    NoneCould(String),
    /// What they say depends on what could not be read: that. The next reading tells.
    NotRead(String),
}

impl Nodes {
    /// Why nothing is begun, and whether that is a reading that failed.
    fn refusal(&self) -> Option<(&str, bool)> {
        match self {
            Self::Unknown | Self::Could => None,
            Self::NoneCould(why) => Some((why, false)),
            Self::NotRead(why) => Some((why, true)),
        }
    }
}

/// What is to be noted. `asked`: the shape that the spec asks for, with the digest of that part of the spec. Where admission rewrites or adds to
/// resources or placement, what is there is never quite that: the note tells that it was applied.
pub(super) fn decide(
    live: Option<&Shape>,
    (asked, spec): (&Shape, &str),
    note: Option<Note>,
    (pods, nodes): (&Pods, &Nodes),
    rests: bool,
) -> Option<Note> {
    let live = live?;
    let begun = |ran: &Shape| Note { ran: ran.clone(), refused: None, asked: Some(asked.clone()) };
    let was_applied = note.as_ref().is_some_and(|note| note.refused.is_none() && note.asked.as_ref() == Some(asked));
    let same = are_same(asked, live);
    let was_foreseen = |note: &Note| note.refused.clone().filter(|refused| refused.is_foreseen);
    if let Some((note, was)) = note.as_ref().and_then(|note| Some((note, was_foreseen(note)?))) {
        let stays = was.spec == spec;
        return match nodes.refusal() {
            _ if same || (!stays && asked.fits_where(live)) => None,
            // What was found before still counts.
            Some((_, true)) if stays && !was.is_unread => Some(note.clone()),
            // What ran still does, whatever was made of it meanwhile. An earlier Berth noted names of nodes.
            Some(refusal) => Some(foreseen(if stays { &note.ran } else { live }, spec, refusal)),
            None if stays && *nodes == Nodes::Unknown => Some(note.clone()),
            None => Some(begun(live)),
        };
    }
    // Where something changes already, that is waited for.
    let is_tried = note.as_ref().is_some_and(|note| note.refused.as_ref().is_none_or(|tried| tried.spec == spec));
    if let (Some(refusal), false, false) =
        (nodes.refusal(), same || was_applied || is_tried, matches!(pods, Pods::Unplaced(_)))
    {
        return (!asked.fits_where(live)).then(|| foreseen(live, spec, refusal));
    }
    let refused = note.as_ref().and_then(|note| note.refused.as_ref()).filter(|refused| refused.spec == spec);
    if let Some(refused) = refused {
        // Each node that takes what is asked for would take what ran, too: there is nothing to try.
        let stays = refused.is_back || live.fits_where(asked);
        return match pods {
            Pods::Ready if same => None,
            Pods::Ready => note.map(Note::back),
            Pods::Unplaced(_) | Pods::Away if !stays => None,
            Pods::Unplaced(_) | Pods::Away | Pods::Changing => note,
        };
    }
    let goes_on = |note: Note| begun(&note.ran);
    match pods {
        Pods::Ready if same => None,
        Pods::Ready => (!asked.fits_where(live)).then(|| begun(live)),
        Pods::Unplaced(why) if (same || was_applied) && rests => note.map(|note| {
            let refused = Refused::found(spec, why);
            let runs = are_same(&note.ran, asked) || are_same(&note.ran, live);
            if runs { goes_on(note) } else { Note { refused: Some(refused), ..note } }
        }),
        Pods::Unplaced(_) | Pods::Away | Pods::Changing => note.map(goes_on),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shape(cpu: &str, selector: &str) -> Shape {
        let placement = json!({"nodeSelector": {"pool": selector}});
        Shape {
            resources: json!({"requests": {"cpu": cpu, "memory": "64Mi"}}),
            placement: placement.as_object().unwrap().clone(),
        }
    }

    fn refused(spec: &str) -> Refused {
        Refused::found(spec, "no room")
    }

    fn none() -> Pods {
        Pods::Unplaced("no room".into())
    }

    fn without_asked(note: Note) -> Note {
        Note { asked: None, ..note }
    }

    /// Admission makes half of what is asked for.
    #[test]
    fn what_admission_makes_of_it_is_what_was_asked_for() {
        let (ran, asked, made, other) = (shape("50m", "a"), shape("2", "a"), shape("1", "a"), shape("4", "a"));
        let next = |live: &Shape, asked: &Shape, note: Option<Note>, pods: &Pods| {
            decide(Some(live), (asked, "s"), note, (pods, &Nodes::Unknown), true)
        };
        let begun = next(&ran, &asked, None, &Pods::Ready);
        assert_eq!(begun, Some(Note { ran: ran.clone(), refused: None, asked: Some(asked.clone()) }));
        assert_eq!(next(&made, &asked, begun.clone(), &Pods::Changing), begun);
        // No node takes it: it goes back, and stays so.
        let gone = next(&made, &asked, begun.clone(), &none()).unwrap();
        assert_eq!((&gone.ran, &gone.refused), (&ran, &Some(refused("s"))));
        let back = next(&ran, &asked, Some(gone.clone()), &Pods::Ready);
        assert_eq!(back, Some(gone.back()));
        assert_eq!(next(&ran, &asked, back.clone(), &Pods::Ready), back);
        // It comes up: the note stays as it is then, and what is full later is no refusal.
        let up = next(&made, &asked, begun, &Pods::Ready);
        assert_eq!(up, Some(Note { ran: made.clone(), refused: None, asked: Some(asked.clone()) }));
        for pods in [Pods::Ready, Pods::Changing, none()] {
            assert_eq!(next(&made, &asked, up.clone(), &pods), up, "{pods:?}");
        }
        let more = next(&made, &other, up, &Pods::Ready);
        assert_eq!(more, Some(Note { ran: made, refused: None, asked: Some(other) }));
    }

    #[test]
    fn every_state_has_its_note() {
        let (small, large, elsewhere) = (shape("50m", "a"), shape("1", "a"), shape("50m", "b"));
        let begun = || Some(Note { ran: small.clone(), refused: None, asked: None });
        let gone = |spec: &str| Some(Note { ran: small.clone(), refused: Some(refused(spec)), asked: None });
        let back = |spec: &str| gone(spec).map(Note::back);
        let same = shape("0.05", "a");
        let cases = [
            ("nothing is there yet", None, &large, None, Pods::Changing, true, None),
            ("nothing changes", Some(&small), &same, None, Pods::Ready, true, None),
            ("nothing changes, and a node is full", Some(&small), &small, None, none(), true, None),
            ("more is asked for", Some(&small), &large, None, Pods::Ready, true, begun()),
            ("other nodes are asked for", Some(&small), &elsewhere, None, Pods::Ready, true, begun()),
            ("less is asked for", Some(&large), &small, None, Pods::Ready, true, None),
            ("more, of what never ran", Some(&small), &large, None, Pods::Changing, true, None),
            ("it is rolled out", Some(&large), &large, begun(), Pods::Changing, true, begun()),
            ("it has come up", Some(&large), &large, begun(), Pods::Ready, true, None),
            ("no node takes it", Some(&large), &large, begun(), none(), true, gone("s")),
            ("its node is cordoned", Some(&large), &large, begun(), Pods::Away, true, begun()),
            ("no node takes it, amid a change of members", Some(&large), &large, begun(), none(), false, begun()),
            ("what ran is asked for, and waits for room", Some(&small), &same, begun(), none(), true, begun()),
            ("it goes back", Some(&small), &large, gone("s"), Pods::Changing, true, gone("s")),
            ("it went back and is ready", Some(&small), &large, gone("s"), Pods::Ready, true, back("s")),
            ("it stays so", Some(&small), &large, back("s"), Pods::Ready, true, back("s")),
            ("less ran, and finds no node", Some(&small), &large, gone("s"), none(), true, gone("s")),
            ("less ran, and its node is cordoned", Some(&small), &large, gone("s"), Pods::Away, true, gone("s")),
            ("neither place takes it", Some(&small), &elsewhere, gone("s"), none(), true, None),
            ("the place before is cordoned", Some(&small), &elsewhere, gone("s"), Pods::Away, true, None),
            ("it is cordoned later", Some(&small), &elsewhere, back("s"), Pods::Away, true, back("s")),
            ("it is full later", Some(&small), &elsewhere, back("s"), none(), true, back("s")),
            ("what is asked for again was refused, and runs", Some(&small), &same, back("s"), Pods::Ready, true, None),
            (
                "another is asked for amid the way back",
                Some(&small),
                &elsewhere,
                gone("old"),
                Pods::Changing,
                true,
                begun(),
            ),
            ("another is asked for then", Some(&small), &elsewhere, back("old"), Pods::Ready, true, begun()),
            ("what ran is asked for", Some(&small), &small, back("old"), Pods::Ready, true, None),
            ("another before the first came up", Some(&large), &elsewhere, begun(), none(), true, begun()),
        ];
        for (case, live, asked, note, pods, rests, wanted) in cases {
            let decided = decide(live, (asked, "s"), note, (&pods, &Nodes::Unknown), rests);
            assert_eq!(decided.map(without_asked), wanted, "{case}");
        }
    }

    #[test]
    fn what_no_node_could_hold_is_not_begun_until_one_could() {
        let (small, large, huge) = (shape("50m", "a"), shape("1", "a"), shape("64", "a"));
        let foreseen = |live: &Shape, spec: &str| Some(foreseen(live, spec, ("64 is asked for", false)));
        let unread = |live: &Shape, spec: &str| Some(super::foreseen(live, spec, ("a volume is not read", true)));
        let begun = |ran: &Shape| Some(Note { ran: ran.clone(), refused: None, asked: None });
        let tried = |spec: &str| Some(Note { ran: small.clone(), refused: Some(refused(spec)), asked: None }.back());
        let none_could = || Nodes::NoneCould("64 is asked for".into());
        let not_read = || Nodes::NotRead("a volume is not read".into());
        let edited = shape("60m", "b");
        let cases = [
            ("too much", &small, &huge, None, Pods::Ready, none_could(), foreseen(&small, "s")),
            ("too much, and a member is away", &small, &huge, None, Pods::Away, none_could(), foreseen(&small, "s")),
            ("too much, amid a restart", &small, &huge, None, Pods::Changing, none_could(), foreseen(&small, "s")),
            ("it stays so", &small, &huge, foreseen(&small, "s"), Pods::Ready, none_could(), foreseen(&small, "s")),
            (
                "nodes cannot be read",
                &small,
                &huge,
                foreseen(&small, "s"),
                Pods::Ready,
                Nodes::Unknown,
                foreseen(&small, "s"),
            ),
            ("a node has come", &small, &huge, foreseen(&small, "s"), Pods::Ready, Nodes::Could, begun(&small)),
            ("what runs is asked for", &small, &small, foreseen(&small, "old"), Pods::Ready, Nodes::Unknown, None),
            ("less than what runs is", &large, &small, foreseen(&large, "old"), Pods::Ready, Nodes::Unknown, None),
            ("another that fits", &small, &large, foreseen(&small, "old"), Pods::Ready, Nodes::Could, begun(&small)),
            (
                "another that does not",
                &small,
                &huge,
                foreseen(&small, "old"),
                Pods::Ready,
                none_could(),
                foreseen(&small, "s"),
            ),
            ("less, and no node says that it could", &large, &small, None, Pods::Ready, none_could(), None),
            ("nothing runs", &large, &huge, None, none(), none_could(), None),
            ("one that is begun", &large, &huge, begun(&small), Pods::Changing, none_could(), begun(&small)),
            ("one that was tried", &small, &huge, tried("s"), Pods::Ready, none_could(), tried("s")),
            (
                "one after another was tried",
                &small,
                &huge,
                tried("old"),
                Pods::Ready,
                none_could(),
                foreseen(&small, "s"),
            ),
            (
                "what runs was edited",
                &edited,
                &huge,
                foreseen(&small, "s"),
                Pods::Ready,
                none_could(),
                foreseen(&small, "s"),
            ),
            (
                "and another is asked for",
                &edited,
                &huge,
                foreseen(&small, "old"),
                Pods::Ready,
                none_could(),
                foreseen(&edited, "s"),
            ),
            ("it is not read", &small, &huge, None, Pods::Ready, not_read(), unread(&small, "s")),
            ("it is not read again", &small, &huge, unread(&small, "s"), Pods::Ready, not_read(), unread(&small, "s")),
            ("nor are nodes", &small, &huge, unread(&small, "s"), Pods::Ready, Nodes::Unknown, unread(&small, "s")),
            ("it is read, and one could", &small, &huge, unread(&small, "s"), Pods::Ready, Nodes::Could, begun(&small)),
            (
                "it is read, and none could",
                &small,
                &huge,
                unread(&small, "s"),
                Pods::Ready,
                none_could(),
                foreseen(&small, "s"),
            ),
            (
                "what was refused is not read",
                &small,
                &huge,
                foreseen(&small, "s"),
                Pods::Ready,
                not_read(),
                foreseen(&small, "s"),
            ),
            (
                "another is not read",
                &small,
                &huge,
                foreseen(&small, "old"),
                Pods::Ready,
                not_read(),
                unread(&small, "s"),
            ),
            ("less depends on nothing that is read", &large, &small, None, Pods::Ready, not_read(), None),
            ("one that is begun is not read", &large, &huge, begun(&small), Pods::Changing, not_read(), begun(&small)),
        ];
        for (case, live, asked, note, pods, nodes, wanted) in cases {
            let decided = decide(Some(live), (asked, "s"), note, (&pods, &nodes), true);
            assert_eq!(decided.map(without_asked), wanted, "{case}");
        }
    }

    /// Whatever becomes of the pods, one wish changes what runs three times at most: there, back, and there for good.
    #[test]
    fn what_ran_and_what_is_asked_for_do_not_alternate() {
        let ran = shape("500m", "a");
        for asked in [shape("1", "a"), shape("500m", "b"), shape("1", "b"), shape("50m", "b"), shape("50m", "a")] {
            let mut most = 0;
            let mut seen: Vec<(Shape, Option<Note>, usize)> = vec![];
            let mut open = vec![(ran.clone(), None, 0)];
            while let Some(state) = open.pop() {
                if seen.contains(&state) {
                    continue;
                }
                seen.push(state.clone());
                let (live, note, changes) = state;
                most = most.max(changes);
                assert!(changes <= 3, "{asked:?}: {seen:?}");
                let all = [Pods::Ready, none(), Pods::Away, Pods::Changing];
                let nodes = [
                    Nodes::Unknown,
                    Nodes::Could,
                    Nodes::NoneCould("too large".into()),
                    Nodes::NotRead("a volume is not read".into()),
                ];
                let each = all.iter().flat_map(|pods| nodes.iter().map(move |nodes| (pods, nodes)));
                for (seen, rests) in each.flat_map(|seen| [(seen, true), (seen, false)]) {
                    let note = decide(Some(&live), (&asked, "s"), note.clone(), seen, rests);
                    let goes_back = note.as_ref().filter(|note| note.refused.is_some()).map(|note| note.ran.clone());
                    let next = goes_back.unwrap_or_else(|| asked.clone());
                    let changes = changes + usize::from(next != live);
                    open.push((next, note, changes));
                }
            }
            assert_eq!(most > 2, asked.placement != ran.placement, "{asked:?}");
        }
    }
}
