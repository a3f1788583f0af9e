//! What Events say whose reason is `FailedCreate`, in each minor of Kubernetes that a meta cluster may have.

/// What clients of Kubernetes put before an Event that stands for many: pods of a Job have another name with each try.
const MANY: &str = "(combined from similar events): ";

/// Why a StatefulSet has not got that pod. None: it is about something else.
pub(super) fn of_pod<'n>(note: &'n str, pod: &str) -> Option<&'n str> {
    let note = note.strip_prefix(MANY).unwrap_or(note);
    // 1.34 writes it in lower case.
    let of = note.strip_prefix("Create Pod ").or_else(|| note.strip_prefix("create Pod "))?;
    let of = of.strip_prefix(pod)?.strip_prefix(" in StatefulSet ")?;
    Some(of.split_once(" failed error: ").map_or(of, |(_, why)| why))
}

/// Why a Job has no pod, without the name of one that is not there: it differs with each try, and what differs is written anew.
pub(super) fn of_job(note: &str) -> Option<&str> {
    let note = note.strip_prefix(MANY).unwrap_or(note);
    let why = note.strip_prefix("Error creating: ")?;
    let named = why.strip_prefix("pods \"").and_then(|why| why.split_once("\" is forbidden: "));
    Some(named.map_or(why, |(_, why)| why))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTA: &str = "exceeded quota: small, requested: pods=1, used: pods=5, limited: pods=5";

    #[test]
    fn each_minor_says_why_a_stateful_set_has_no_pod() {
        let forbidden = format!("pods \"etcd-0\" is forbidden: {QUOTA}");
        let claim = "failed to create PVC data-etcd-0: persistentvolumeclaims \"data-etcd-0\" is forbidden: exceeded quota: disks";
        for (minor, note, wanted) in [
            ("1.34", format!("create Pod etcd-0 in StatefulSet etcd failed error: {forbidden}"), Some(&*forbidden)),
            ("1.35", format!("Create Pod etcd-0 in StatefulSet etcd failed error: {forbidden}"), Some(&*forbidden)),
            ("1.36", format!("Create Pod etcd-0 in StatefulSet etcd failed error: {forbidden}"), Some(&*forbidden)),
            ("1.34", format!("create Pod etcd-0 in StatefulSet etcd failed error: {claim}"), Some(claim)),
            ("1.36", format!("{MANY}Create Pod etcd-0 in StatefulSet etcd failed error: {claim}"), Some(claim)),
            // Of another pod, of the claim alone, and what nobody writes.
            ("1.34", format!("create Pod etcd-01 in StatefulSet etcd failed error: {forbidden}"), None),
            ("1.36", format!("Create Pod etcd-1 in StatefulSet etcd failed error: {forbidden}"), None),
            (
                "1.34",
                format!("create Claim data-etcd-0 for Pod etcd-0 in StatefulSet etcd failed error: {claim}"),
                None,
            ),
            (
                "1.36",
                format!("Create Claim data-etcd-0 for Pod etcd-0 in StatefulSet etcd failed error: {claim}"),
                None,
            ),
            ("1.36", "delete Pod etcd-0 in StatefulSet etcd failed error: no".to_owned(), None),
            ("none", String::new(), None),
        ] {
            assert_eq!(of_pod(&note, "etcd-0"), wanted, "{minor}: {note}");
        }
    }

    #[test]
    fn each_minor_says_why_a_job_has_no_pod() {
        let webhook = "admission webhook \"policy.example.com\" denied the request: no";
        let timeout =
            "Internal error occurred: failed calling webhook \"policy.example.com\": context deadline exceeded";
        // 1.34, 1.35 and 1.36 write the same.
        for (note, wanted) in [
            (format!("Error creating: pods \"backup-one-x7k2p\" is forbidden: {QUOTA}"), Some(QUOTA)),
            (format!("{MANY}Error creating: pods \"backup-one-p2k7x\" is forbidden: {QUOTA}"), Some(QUOTA)),
            (format!("Error creating: {webhook}"), Some(webhook)),
            (format!("Error creating: {timeout}"), Some(timeout)),
            ("Created pod: backup-one-x7k2p".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(of_job(&note), wanted, "{note}");
        }
    }
}
