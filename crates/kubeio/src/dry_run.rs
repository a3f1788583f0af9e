//! What is told of a team's Secret that is read by an empty dry run, and that is refused.

use crate::error::IoError;
use berth_api::conditions::shortened;
use berth_plan::SecretFacts;

/// The policy of Berth's chart that lets only Secrets of certain types pass.
const OWN_POLICY: &str = "ValidatingAdmissionPolicy 'berth-operator-secrets' ";

/// Of an answer no more is told, in bytes.
const LONGEST: usize = 300;

/// What is known of a Secret by that refusal: that it is of another type, or what was answered.
pub(crate) fn refused(error: &IoError) -> SecretFacts {
    let said = &error.message;
    SecretFacts { refused: (!said.contains(OWN_POLICY)).then(|| told(said)), ..SecretFacts::default() }
}

/// What may be repeated of an answer. Webhooks and policies saw the Secret, and their own words may quote it: only their names are told.
pub(crate) fn told(said: &str) -> String {
    let ends = ["denied the request", "denied request"].iter().filter_map(|end| Some(said.find(end)? + end.len()));
    shortened(ends.min().and_then(|end| said.get(..end)).unwrap_or(said).trim_end_matches('.'), LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn the_chart_s_own_policy_is_another_type_and_all_else_is_told_without_what_it_may_quote() {
        let of = |said: &str| refused(&IoError::new(ErrorKind::Rejected, "patch", said)).refused;
        let own = "secrets \"a\" is forbidden: ValidatingAdmissionPolicy 'berth-operator-secrets' with binding 'b' denied request: no";
        assert_eq!(of(own), None);
        for (said, told) in [
            (
                "secrets \"a\" is forbidden: ValidatingAdmissionPolicy 'mine' with binding 'b' denied request: has dontsay",
                "secrets \"a\" is forbidden: ValidatingAdmissionPolicy 'mine' with binding 'b' denied request",
            ),
            (
                "admission webhook \"x.example.com\" denied the request: data is dontsay",
                "admission webhook \"x.example.com\" denied the request",
            ),
            (
                "Secret \"a\" is invalid: metadata.finalizers: Invalid value: \"x\".",
                "Secret \"a\" is invalid: metadata.finalizers: Invalid value: \"x\"",
            ),
        ] {
            assert_eq!(of(said).as_deref(), Some(told));
        }
        assert!(of(&"long ".repeat(1000)).is_some_and(|told| told.len() <= LONGEST));
    }
}
