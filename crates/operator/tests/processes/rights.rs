//! The right to the Lease, missing from the beginning and taken from the one who leads: the operator says so, is not ready, and writes
//! nothing until it is given back.

use crate::common::roles::{cluster_roles, lease_role};
use crate::common::{SOON, Team, alone};
use crate::outage::{free_address, is_ready};
use crate::{Operator, holder, quiet, taken_up};
use berth_testkit::{ApiServer, fixtures::from_json, fixtures::until, yaml};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use std::time::Duration;

/// The operator's user, whom the chart's roles are bound to.
const NAME: &str = "lessee";

/// All that the chart gives but the Role for the Lease, which is there and not bound.
async fn grant(server: &ApiServer) {
    let (client, params) = (server.client(), PatchParams::apply("test").force());
    for role in cluster_roles() {
        let role: ClusterRole = from_json(role);
        let roles = Api::<ClusterRole>::all(client.clone());
        roles.patch(&role.name_any(), &params, &Patch::Apply(&role)).await.expect("role");
    }
    let everywhere: ClusterRoleBinding = yaml!(
        "{{metadata: {{name: {NAME}}}, subjects: [{{kind: User, apiGroup: rbac.authorization.k8s.io, name: {NAME}}}],
           roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: berth-operator}}}}"
    );
    Api::all(client.clone()).create(&PostParams::default(), &everywhere).await.expect("binding");
    let roles = Api::<Role>::namespaced(client, "berth-system");
    roles.create(&PostParams::default(), &lease_role()).await.expect("role");
}

/// Binds the Role for the Lease, or takes the binding away.
async fn lease(server: &ApiServer, granted: bool) {
    let binding: RoleBinding = yaml!(
        "{{metadata: {{name: {NAME}}}, subjects: [{{kind: User, apiGroup: rbac.authorization.k8s.io, name: {NAME}}}],
           roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: berth-operator-lease}}}}"
    );
    let bindings = Api::<RoleBinding>::namespaced(server.client(), "berth-system");
    if granted {
        bindings.create(&PostParams::default(), &binding).await.expect("binding");
    } else {
        bindings.delete(NAME, &DeleteParams::default()).await.expect("no binding");
    }
}

/// It asks again and again, says which right is missing, and is not ready.
async fn waits(operator: &Operator, address: &str) {
    let missing =
        "cannot get resource \"leases\" in API group \"coordination.k8s.io\" in the namespace \"berth-system\"";
    let said = || operator.log().lines().filter(|line| line.contains(missing)).count();
    until(SOON, "it says what is missing, again and again", async || said() > 3).await;
    is_ready(address, false).await;
}

#[tokio::test]
async fn without_the_right_to_its_lease_an_operator_says_so_and_writes_nothing() {
    let (_turn, server) = (alone().await, quiet().await);
    grant(server).await;
    let address = free_address();
    let start = || Operator::start_as(server, NAME, &[], &[&format!("--listen={address}")], &[]);
    let (mark, mut operator) = (server.audit_mark(), start());
    let team = Team::with_cluster(server).await;
    waits(&operator, &address).await;
    assert_eq!(operator.writes(server, mark), [""; 0]);
    lease(server, true).await;
    taken_up(&team).await;
    is_ready(&address, true).await;
    assert_eq!(holder(server).await, NAME);
    assert!(!operator.has_ended(), "it needs no restart");

    // Of one that leads: it ends, as whoever cannot renew does, and the next one waits.
    lease(server, false).await;
    until(Duration::from_mins(2), "it ends", async || operator.has_ended()).await;
    let log = operator.log();
    assert!(log.contains("the lease could not be renewed") && log.contains("cannot get resource \"leases\""), "{log}");
    let late = Team::with_cluster(server).await;
    let (mark, mut operator) = (server.audit_mark(), start());
    waits(&operator, &address).await;
    assert_eq!(operator.writes(server, mark), [""; 0]);
    lease(server, true).await;
    taken_up(&late).await;
    is_ready(&address, true).await;
    assert!(!operator.has_ended(), "it needs no restart");
}
