//! What messages tell to delete, to replace or to give up beside an etcd without a quorum, and what that keeps.

use super::super::situations;
use super::messages;

/// Situations of an etcd without a quorum whose commands are not compared, and why.
pub(super) const HARMLESS: &[(&str, &str)] = &[
    (
        "the only member's volume is another's",
        "the volume is all that there is: it is restored, and nothing on it is overwritten",
    ),
    (
        "the backup is damaged, and another one is left",
        "the restore of the older one asks, as any does, before it gives anything up",
    ),
    ("the backup of a stand-alone etcd is damaged, and another one is left", "likewise"),
    (
        "the backup that is to be taken first fails",
        "a backup that failed is deleted; going on without it is said to lose writes",
    ),
    ("what is left is to be restored, and no member is left", "no member holds anything"),
    ("recovery Automatic: its EtcdRestore failed", "an `EtcdRestore` that has ended is deleted"),
    ("recovery Automatic: each backup was found damaged", "likewise"),
];

/// Words that take something away.
const TAKES: [&str; 9] =
    ["elete ", "emove ", "eplace ", "estore ", "ive it up", "ive that up", "isarm", "reate ", "n an empty volume"];

/// How parts of messages begin that tell nobody to do anything, or that are commands, which are judged as such.
const TOLD: [&str; 15] = [
    "waiting for ",
    "Berth ",
    "Next, Berth ",
    "within a minute ",
    "damaged since it was proven",
    "the record now agrees ",
    "cannot delete ",
    "create ClusterRole in a dry run",
    "Failed to create pod sandbox",
    "echo ",
    "kubectl ",
    "EtcdRestore team-a/",
    "spec.dataPolicy Delete)",
    "that of an earlier EtcdRestore",
    "1.36.3 cannot replace",
];

/// Words of messages, and what is kept by who follows them.
const TAKEN: &[(&str, &str)] = &[
    // Of etcd's data.
    ("start etcd-", "its volume, by the reclaim policy that the command sets; and what others hold"),
    ("Start etcd-", "likewise"),
    ("start it on an empty volume", "likewise"),
    ("estore volume data-etcd-0 ", "the only member's data as its storage has it"),
    (
        "estore volume data-etcd-0, data-etcd-1, data-etcd-2 ",
        "what storage has of the members, all of which have lost their data",
    ),
    (
        "Restore volume data-etcd-1 from a backup",
        "the others' volumes: an earlier Berth's members cannot copy the data from each other",
    ),
    ("estore the newest backup", "what a backup has; it comes after all that has more, see the rows"),
    ("restore what etcd-2 may hold and the backup does not", "see the rows"),
    ("restore what is left", "see the rows"),
    ("Then restore it by a store of your own", "see the rows"),
    ("Then restore the backup of the right one", "what each member holds: it was backed up before"),
    ("Restore the claim with its volume", "what is on the volume"),
    ("Restore the volume, or restore etcd from a backup", "what is on the volume, or in the backup"),
    ("waits for the backup or the restore to end", "nobody does anything"),
    ("restore it", "see the rows"),
    ("restore them again", "what members hold that are left"),
    ("Attach each member's own volume", "all volumes: each member starts on its own"),
    ("Restore the right volumes from a backup", "all volumes: nothing is overwritten"),
    ("Restore the ConfigMap from a backup", "all volumes: no member starts before"),
    ("if nobody needs the data, delete the ", "nothing, and it says so"),
    ("On a new volume etcd-0 does not start before you restore its data", "the volume, which the command before keeps"),
    ("To go on, delete the pod", "the others' data, which the member copies; its volume by the command before"),
    ("If the old template keeps one of them from running, delete that pod", "its volume: the pod comes back on it"),
    ("To remove it", "all data: Berth did not add that member, and has no say for it"),
    ("To make room, ", "what its clients need"),
    ("To give that up, confirm it", "what members hold, aside on their volumes; it says what is lost"),
    (
        "To give that up, delete the EtcdRestore",
        "all of etcd's data: nothing was stopped, or it goes back to what it was",
    ),
    ("create an EtcdRestore with spec.source.key", "a snapshot that is whole"),
    ("create another EtcdRestore", "etcd's volumes: the restore sets aside what is there"),
    ("Create another EtcdRestore", "likewise"),
    ("or create an EtcdRestore", "likewise"),
    ("To restore another one, name it in spec.source.backup of another EtcdRestore", "likewise"),
    (
        "Restore Secret kube-apiserver-encryption of that time first",
        "the Secrets in the backup, which nobody could read otherwise",
    ),
    ("If nobody needs it, delete it", "a backup that is damaged counts for nothing; its snapshot stays in the store"),
    ("Delete it and pod etcd-0", "nothing is on a claim that has lost its volume"),
    ("delete it, and create it with the size", "likewise"),
    ("create it with the size", "there is no claim any more"),
    ("Delete it, and create another one", "nothing is on a claim that has lost its volume"),
    ("Delete it, and then", "no image is pulled with it, and its values are the person's"),
    ("Create an EtcdBackupSchedule for this Cluster", "all: backups are added"),
    ("To create it", "all: something that lacks is made"),
    ("Create one with ", "no backup was taken there"),
    ("create it anew with that type", "the Secret's values, which the person has"),
    ("create it, or correct the name", "nothing is there yet"),
    ("create it, with the label berth.dev/app-values=true", "nothing is there yet"),
    ("create it with type berth.dev/app", "nothing is there yet"),
    ("delete its Node, and Kubernetes deletes the pod", "a node that is off: it registers itself again"),
    ("create another one with this type", "the Secret's values, which the person has"),
    ("Create another one with clusterRef", "no backup was taken"),
    ("Create one", "all data: it goes into a new `EtcdCluster`"),
    // Of keys and namespaces.
    ("estore it from a backup", "keys and data of that time: Berth makes no others in their place"),
    ("otherwise restore it first, or delete this Cluster", "the namespace: it is not this `Cluster`'s any more"),
    ("remove the annotation, and Berth writes it again", "all: it only records"),
    ("remove it once the Cluster is Ready", "all: an annotation that is used up"),
    ("then remove the annotation berth.dev/former-address", "all: an annotation that is used up"),
    ("Otherwise create this Cluster under another name", "keys and data of the earlier team"),
    ("otherwise create this ", "somebody else's object"),
    (
        "Rename it or, if nobody needs it, delete it",
        "somebody else's object; the kubeconfig is in the control plane's namespace, too",
    ),
    ("delete this Cluster and create it with {", "the namespace with its data: `spec.deletion.dataPolicy`"),
    ("restore them with helm upgrade", "all: rights come back"),
    ("Restore the chart's rights with helm upgrade", "likewise"),
    ("if they are right, create a new Cluster", "the old one stays, with its data"),
    ("create another Cluster and move the workloads", "the old one stays"),
    ("create a Cluster whose serviceCIDRs begin with", "the old one stays, with its data"),
    ("Create a Cluster whose spec.network.serviceCIDRs begin with", "likewise"),
    ("For more nodes create a Cluster with a larger network", "likewise"),
    // Of tenants that are not made yet, or are to go.
    (
        "set spec.deletion.protected to false, delete this Cluster, and create it with other networks",
        "nothing was made for it yet",
    ),
    ("or delete this Cluster and create it without spec.vpc", "nothing was made for it yet"),
    ("create the Cluster ", "nothing was made for it yet"),
    ("to delete this Cluster with its control plane", "data, unless `spec.deletion.dataPolicy` is Delete"),
    ("to delete them, too, set spec.deletion.protected to false", "nothing, and it says so"),
    // Of what holds no data.
    ("emove it", "a field is taken out of a spec"),
    ("emove the field", "likewise"),
    ("remove the flag", "likewise"),
    ("remove spec.apiServer.audit.webhook", "likewise"),
    ("remove that node", "a node, which joins again"),
    ("Remove the route", "a field is taken out of a spec"),
    ("Remove k8s.v1.cni.cncf.io/networks", "likewise"),
    ("replace it in spec.vpc.addresses", "likewise"),
    ("and delete the pod", "pods of the control plane come back"),
    ("delete the pod if that lasts", "likewise"),
    ("Then delete the pods of kube-apiserver one by one", "likewise"),
    ("delete CertificateSigningRequests of kubelets that nobody needs", "a kubelet asks again"),
    ("correct or delete the webhook or admission policy", "a person's own object, and correcting it comes first"),
    ("Narrow its rules, or delete it", "a tenant's own webhook, and narrowing it comes first"),
    ("repair what serves it, or delete it", "likewise"),
    ("Create it", "all: something that lacks is made"),
    ("create Secret argocd/", "all: Berth says what it was not let do"),
    ("Delete it", "a Secret that is not Berth's, in a namespace that is"),
    ("create another one, and name that", "likewise"),
    ("Create a DNS record", "likewise"),
];

/// The entry that says most of it.
fn of(part: &str) -> Option<usize> {
    let all = TAKEN.iter().enumerate().filter(|(_, (words, _))| part.contains(words));
    all.max_by_key(|(_, (words, _))| words.len()).map(|(at, _)| at)
}

#[test]
fn whatever_is_taken_away_is_listed() {
    let mut unlisted = vec![];
    let mut used = vec![false; TAKEN.len()];
    for situation in situations() {
        for message in messages(situation) {
            let parts = message.split(". ").flat_map(|part| part.split("; ")).flat_map(|part| part.split(": "));
            let takes =
                |part: &&str| TAKES.iter().any(|word| part.contains(word)) && !TOLD.iter().any(|t| part.starts_with(t));
            for part in parts.filter(takes) {
                match of(part) {
                    Some(at) => used[at] = true,
                    None => unlisted.push(format!("{part}   [{}]", situation.text)),
                }
            }
        }
    }
    unlisted.sort();
    unlisted.dedup();
    assert!(unlisted.is_empty(), "what is kept by who does this?\n{}", unlisted.join("\n"));
    let unused: Vec<_> = TAKEN.iter().zip(used).filter(|(_, used)| !used).map(|((words, _), _)| *words).collect();
    assert!(unused.is_empty(), "no message says this: {unused:?}");
}
