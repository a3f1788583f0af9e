//! What a store answers, as far as it may be repeated: its own code and sentence, without anything that could be a key.

use jiff::{SignedDuration, Timestamp};
use object_store::client::HttpResponse;
use std::sync::{Arc, Mutex, PoisonError};

/// The most of an answer that is repeated, in characters.
const LONGEST: usize = 240;
/// A word of so many characters may be a key, a token or a signature.
const SECRET: usize = 32;
/// Codes of several stores for an object that must not be deleted yet.
const LOCKED: [&str; 5] =
    ["ObjectLocked", "RetentionPolicyNotMet", "ObjectUnderRetention", "FileImmutable", "ObjectHoldActive"];
/// What they say, where the code is that of any refusal.
const LOCKED_WORDS: [&str; 7] =
    ["object lock", "object-lock", "objectlock", "worm protected", "retention", "legal hold", "immutable"];

/// A store whose clock differs by more refuses each request. So what it still keeps so long after the end of a retention is kept for something else.
const JUST: SignedDuration = SignedDuration::from_mins(15);

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// HTTP's status.
    pub(super) status: u16,
    /// The code of S3's error, such as `NoSuchBucket`.
    pub(super) code: Option<String>,
    /// Its sentence. It can name anything.
    message: Option<String>,
    /// Until when the object is kept, whoever deletes it.
    pub(super) kept_until: Option<Timestamp>,
    /// Somebody holds the object until they say otherwise.
    pub(super) held: bool,
}

impl Answer {
    /// One without its body.
    pub(crate) fn of(response: &HttpResponse) -> Self {
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        Self {
            status: response.status().as_u16(),
            kept_until: header("x-amz-object-lock-retain-until-date").and_then(|at| at.parse().ok()),
            held: header("x-amz-object-lock-legal-hold") == Some("ON"),
            ..Self::default()
        }
    }

    /// Reads an error's body, in XML.
    pub(crate) fn read(&mut self, body: &str) {
        let code = element(body, "Code").filter(|code| code.len() < 60);
        self.code = code.filter(|code| code.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c)));
        self.message = element(body, "Message");
    }

    /// What it says, for people. `secrets` are left out. None: nothing but a status.
    pub(super) fn words(&self, secrets: &[String]) -> Option<String> {
        let message = self.message.as_deref().map(|text| told(text, secrets)).filter(|text| !text.is_empty());
        let Self { status, .. } = self;
        match (&self.code, message) {
            (Some(code), Some(message)) => Some(format!("{code} ({status}): {message}")),
            (Some(code), None) => Some(format!("{code} ({status})")),
            (None, message) => message.map(|message| format!("{status}: {message}")),
        }
    }

    /// Whether it says that the store does not know the headers of checksums.
    pub(super) fn knows_no_checksums(&self) -> bool {
        let message = self.message.as_deref().unwrap_or_default().to_ascii_lowercase();
        let is_unknown = ["unsupported", "not supported", "not implemented", "unknown"].iter();
        [400, 501].contains(&self.status)
            && message.contains("x-amz-checksum")
            && is_unknown.into_iter().any(|word| message.contains(word))
    }

    /// Until when an object stays whose deletion was refused, if it is for that. `object`: the answer to a question for it.
    pub(super) fn keeps(&self, object: &Self, now: Timestamp) -> Option<Until> {
        let (until, held) = (object.kept_until, object.held);
        let is_ahead = |until: &Timestamp| *until > now;
        if !(self.is_locked() || until.as_ref().is_some_and(is_ahead) || held) {
            return None;
        }
        let has_just_ended = |until: &Timestamp| !held && now.duration_since(*until) <= JUST;
        Some(Until(until.filter(|until| is_ahead(until) || has_just_ended(until))))
    }

    /// Whether it says that an object has to stay.
    fn is_locked(&self) -> bool {
        let message = self.message.as_deref().unwrap_or_default().to_ascii_lowercase();
        // What people called a bucket, a folder, a role or a right says nothing.
        let is_name = |word: &str| ["/", "arn:", "s3:"].iter().any(|part| word.contains(part));
        let message = message.split_whitespace().filter(|word| !is_name(word)).collect::<Vec<_>>().join(" ");
        self.code.as_deref().is_some_and(|code| LOCKED.contains(&code))
            || (400..500).contains(&self.status) && LOCKED_WORDS.iter().any(|word| message.contains(word))
    }
}

/// The end of a retention. None: it is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Until(pub(super) Option<Timestamp>);

/// The last answer, which the client leaves here. None: the last request had none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Last(Arc<Mutex<Option<Answer>>>);

impl Last {
    pub(crate) fn set(&self, answer: Option<Answer>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }

    pub(super) fn get(&self) -> Option<Answer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The text of the first element of that name.
fn element(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let plain = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&#39;", "'"), ("&amp;", "&")];
    Some(plain.iter().fold(text.trim().to_owned(), |text, (from, to)| text.replace(from, to)))
}

/// On one line, cut, and without what is or could be a key.
fn told(text: &str, secrets: &[String]) -> String {
    let known = secrets.iter().filter(|secret| !secret.is_empty());
    let text = known.fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "…"));
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line: Vec<String> = words.map(masked).collect();
    let line = line.join(" ");
    let cut: String = line.chars().take(LONGEST).collect();
    if cut.len() < line.len() { format!("{cut}…") } else { cut }
}

/// A word with its long runs of a key's characters left out.
fn masked(word: &str) -> String {
    let is_keys = |c: char| c.is_ascii_alphanumeric() || "+/=_".contains(c);
    let (mut out, mut run) = (String::new(), String::new());
    for c in word.chars().map(Some).chain([None]) {
        if let Some(c) = c.filter(|c| is_keys(*c)) {
            run.push(c);
            continue;
        }
        out.push_str(if run.len() < SECRET { &run } else { "…" });
        run.clear();
        out.extend(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        let mut answer = Answer { status, ..Answer::default() };
        answer.read(body);
        answer
    }

    #[test]
    fn a_stores_own_words_are_told_without_keys() {
        let error = |code: &str, message: &str| {
            format!(
                "<Error><Code>{code}</Code><Message>{message}</Message><AWSAccessKeyId>AKIA1</AWSAccessKeyId></Error>"
            )
        };
        let secrets = ["AKIA1".to_owned(), "short-secret".to_owned(), String::new()];
        let long = "word ".repeat(100);
        for (body, wanted) in [
            (
                error("InvalidRequest", "checksum header\n required &quot;x&quot;"),
                "InvalidRequest (400): checksum header required \"x\"",
            ),
            (error("AccessDenied", ""), "AccessDenied (400)"),
            (error("a b", "no code"), "400: no code"),
            (error("Denied", "key AKIA1, short-secret"), "Denied (400): key …, …"),
            (error("Denied", "a\u{7}b\u{1b}[31mred"), "Denied (400): a b [31mred"),
            (error("Signature", "got 0123456789abcdef0123456789abcdef0123456789abcdef!"), "Signature (400): got …!"),
            (
                error("Kms", "key/1234abcd-12ab-34cd-56ef-1234567890ab"),
                "Kms (400): key/1234abcd-12ab-34cd-56ef-1234567890ab",
            ),
            (error("Long", &long), &format!("Long (400): {}…", &long[..LONGEST])),
        ] {
            let said = answer(400, &body).words(&secrets).unwrap();
            assert_eq!(said, wanted);
            assert!(!said.contains("AKIA1"));
        }
        for nothing in ["", "<html>proxy</html>", "<Code>unfinished"] {
            assert_eq!(answer(502, nothing).words(&secrets), None, "{nothing}");
        }
    }

    #[test]
    fn a_store_that_knows_no_checksums_is_told_from_one_that_wants_others() {
        let refuses = |status, message: &str| {
            answer(status, &format!("<Code>InvalidArgument</Code><Message>{message}</Message>")).knows_no_checksums()
        };
        assert!(refuses(400, "Unsupported header &apos;x-amz-checksum-sha256&apos; received for this API call."));
        assert!(refuses(501, "Header 'x-amz-checksum-algorithm' with value 'SHA256' not implemented"));
        assert!(!refuses(400, "Value for x-amz-checksum-sha256 header is invalid."), "it was changed on its way");
        assert!(!refuses(403, "x-amz-checksum is unsupported by policy") && !refuses(501, "not implemented"));
    }

    #[test]
    fn stores_say_in_several_ways_that_an_object_has_to_stay() {
        let says = |status, code: &str, message: &str| {
            answer(status, &format!("<Code>{code}</Code><Message>{message}</Message>")).is_locked()
        };
        for (status, code, message) in [
            (403, "AccessDenied", "Access Denied because object protected by object lock."),
            (400, "InvalidRequest", "Object is WORM protected and cannot be overwritten"),
            (403, "RetentionPolicyNotMet", ""),
            (403, "ObjectLocked", ""),
            (403, "access_denied", "The file is under retention until 2027"),
            (403, "AccessDenied", "Object prod/a.db\nis under legal\n hold"),
        ] {
            assert!(says(status, code, message), "{code} {message}");
        }
        for right in [
            r#"User: arn:aws:sts::1:assumed-role/x-retention/y is not authorized to perform: s3:DeleteObject on resource: "arn:aws:s3:::immutable-backups/prod/a" because no identity-based policy allows the s3:DeleteObject action"#,
            "User is not authorized to perform: s3:BypassGovernanceRetention",
            "No right to delete immutable-backups/prod/a",
        ] {
            assert!(!says(403, "AccessDenied", right), "{right}");
        }
        assert!(!says(403, "AccessDenied", "Access Denied"));
        assert!(!says(503, "SlowDown", "retention service is slow"), "another try may help");
    }

    /// What is reported as kept until a time is deleted then; without one it is left in the store an hour later.
    #[test]
    fn a_retention_that_ends_while_it_is_asked_for_is_told_with_its_end() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = at("2026-01-01T12:00:00Z");
        let (locked, denied) = (answer(403, "<Code>ObjectLocked</Code>"), answer(403, "<Code>AccessDenied</Code>"));
        let (ahead, just, long_ago) = ("2026-01-01T12:00:00.5Z", "2026-01-01T11:59:59.5Z", "2026-01-01T11:00:00Z");
        for (refused, until, held, wanted) in [
            (&locked, Some(ahead), false, Some(Some(ahead))),
            (&locked, Some(just), false, Some(Some(just))),
            (&locked, Some(long_ago), false, Some(None)),
            (&locked, None, false, Some(None)),
            (&denied, Some(ahead), false, Some(Some(ahead))),
            (&denied, Some(just), false, None),
            (&denied, None, false, None),
            (&denied, None, true, Some(None)),
            (&denied, Some(ahead), true, Some(Some(ahead))),
            // A hold has no end.
            (&denied, Some(just), true, Some(None)),
        ] {
            let object = Answer { kept_until: until.map(at), held, ..Answer::default() };
            let wanted = wanted.map(|until| Until(until.map(at)));
            assert_eq!(refused.keeps(&object, now), wanted, "{refused:?} {until:?} {held}");
        }
    }
}
