//! Situations of a tenant that Argo CD is to know.

use super::super::registration::{argo_cd, ask, ends, live, nothing_there, registered};
use super::*;
use berth_api::cluster::Registration;
use berth_plan::observed::Registered;

/// Not carried out yet.
fn planned(f: &mut Fixture) {
    let planned = f.plan();
    let input = Input { object: &f.cluster, observed: &f.world.observed, settings: &f.settings, now: f.world.now };
    f.cluster.status = Some(status(input, &planned, None));
}

fn asked() -> Fixture {
    let mut f = Fixture::up(json!({"version": VERSION}));
    f.settings.argo_cd = Some(argo_cd("argocd"));
    ask(&mut f, json!({}));
    nothing_there(&mut f);
    f
}

fn is_off(f: &mut Fixture) {
    f.cluster.spec.registration = Registration::default();
}

fn source() -> ObjectKey {
    Fixture::key(Kind::Secret, names::ARGOCD_KUBECONFIG)
}

fn deleted(f: &mut Fixture) {
    f.cluster.spec.deletion.protected = false;
    f.cluster.metadata.deletion_timestamp = Some(Time(f.world.now));
    f.world.observed.published = Published::Absent;
    f.world.observed.objects.clear();
}

pub(super) fn situations() -> Vec<(&'static str, Fixture)> {
    let mut all = vec![];
    let mut add = |text, mut f: Fixture, happens: fn(&mut Fixture)| {
        happens(&mut f);
        all.push((text, f));
    };
    let of = || registered(json!({}));
    add("spec.registration.argoCD, and the platform has no Argo CD", asked(), |f| {
        f.settings.argo_cd = None;
        f.reconcile();
    });
    add("spec.registration.argoCD, and the namespace has no project there", asked(), |f| {
        f.settings.argo_cd.as_mut().unwrap().projects.clear();
        f.reconcile();
    });
    add("a tenant that Argo CD is about to know", asked(), planned);
    add("a tenant that Argo CD is about to know, and its rights in the tenant are not there yet", asked(), |f| {
        f.reconcile();
        nothing_there(f);
        f.world.observed.api = ApiProbe::NotAsked;
        f.reconcile();
    });
    add("a tenant that Argo CD knows", of(), |f| drop(f.reconcile()));
    add("somebody changed what Argo CD knows, and Berth has not repaired it yet", of(), |f| {
        let mut other = live(f);
        other.project = "others".into();
        f.world.observed.registered = Registered::Ours(Box::new(other));
        planned(f);
    });
    add("somebody else's Secret in Argo CD's namespace has the tenant's name", of(), |f| {
        f.world.observed.registered = Registered::Foreign("it does not have Berth's labels".into());
        f.reconcile();
    });
    add("somebody else's Secret has the name of Argo CD's kubeconfig", asked(), |f| {
        f.world.put(source(), json!({"metadata": {"name": names::ARGOCD_KUBECONFIG}}));
        f.reconcile();
    });
    add("Argo CD's namespace is not there", of(), |f| {
        let said = "create Secret argocd/berth-acme-9201d5e7: namespaces \"argocd\" not found";
        f.world.observed.registered = Registered::Failed(said.into());
        f.reconcile();
    });
    add("spec.registration.argoCD is gone, and the Secret is being deleted", of(), |f| {
        is_off(f);
        planned(f);
    });
    add("somebody deletes the Secret in Argo CD's namespace, and somebody's finalizer keeps it", of(), |f| {
        ends(f);
        f.reconcile();
    });
    add("spec.registration.argoCD is gone, and somebody's finalizer keeps the Secret", of(), |f| {
        is_off(f);
        ends(f);
        f.reconcile();
    });
    add("spec.registration.argoCD is gone, and rights in the tenant are left, whose API does not answer", of(), |f| {
        is_off(f);
        nothing_there(f);
        f.world.observed.api = ApiProbe::NotAsked;
        f.reconcile();
    });
    add("a tenant that sleeps is to be known to Argo CD", Fixture::asleep(), |f| {
        f.settings.argo_cd = Some(argo_cd("argocd"));
        ask(f, json!({}));
        nothing_there(f);
        f.reconcile();
    });
    add("spec.registration.argoCD is gone, and the tenant is paused", of(), |f| {
        is_off(f);
        f.hold();
        f.reconcile();
    });
    add("deletion: somebody's finalizer keeps the Secret in Argo CD's namespace", of(), |f| {
        deleted(f);
        ends(f);
        planned(f);
    });
    add("deletion: Argo CD's namespace does not answer", of(), |f| {
        deleted(f);
        f.world.observed.registered =
            Registered::Failed("patch Secret argocd/berth-acme-9201d5e7: no answer within 5s".into());
        planned(f);
    });
    all
}
