//! Letting `berth-access`, which is one login for all tenants, into one of them: a certificate of the tenant's front-proxy CA for a key that it has.

use crate::calls::Io;
use crate::error::{ErrorKind, IoError};
use crate::snapshot::Snapshot;
use berth_api::Cluster;
use berth_api::access::{ACCESS, ClusterName, Outcome, Pass, Reason, Refused};
use berth_pki::{CertSpec, Clocks, Usage, inspect, issue_for};
use berth_plan_cluster::{Door, behind_door, door};
use berth_render::{Kind, ObjectKey};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::SignedDuration;

/// How long a certificate is valid. It cannot be revoked, so this is how long a stolen one opens that tenant.
const LIFE: SignedDuration = SignedDuration::from_hours(8);
/// Reads of one question under way at once.
const AT_ONCE: usize = 4;

/// What is answered to who asks for a pass. `request`: a certificate signing request as PEM. `gateway`: where the platform's gateway is found.
/// Everything is read for it, and nothing written.
///
/// # Errors
/// If something cannot be read.
pub async fn access_pass(
    io: &Io,
    of: &ClusterName,
    request: &str,
    gateway: Option<&str>,
    clocks: Clocks,
) -> Result<Outcome, IoError> {
    let no = |reason, message: &str| Ok(Outcome::Refused(Refused { reason, message: message.to_owned() }));
    let key = ObjectKey::namespaced(Kind::Cluster, &*of.namespace, &*of.name);
    let Some(cluster) = io.get(&key).await? else { return no(Reason::NotFound, "there is no such tenant") };
    let cluster: Cluster = serde_json::from_value(cluster)
        .map_err(|e| IoError::new(ErrorKind::Other, format!("read {key}"), e.to_string()))?;
    let mut snapshot = Snapshot::default();
    // Its rights in the control-plane namespace may not be there yet, or not any more.
    let read = async |key: ObjectKey| match io.get(&key).await {
        Ok(live) => Ok(live.map(|live| (key.kind, live))),
        Err(error) if error.kind == ErrorKind::Forbidden => Ok(None),
        Err(error) => Err(error),
    };
    let all: Vec<_> = stream::iter(behind_door(&cluster)).map(read).buffered(AT_ONCE).try_collect().await?;
    for (kind, live) in all.into_iter().flatten() {
        snapshot.put(kind, live);
    }
    let Door { address, server_name, ca, signer } = match door(&cluster, &snapshot.observed, gateway) {
        Ok(door) => door,
        Err(refused) => return Ok(Outcome::Refused(refused)),
    };
    let pair = |key: &ObjectKey| snapshot.secret(key, "tls.crt").zip(snapshot.secret(key, "tls.key"));
    let (Some(ca), Some((proxy_ca, proxy_key))) = (snapshot.secret(&ca, "tls.crt"), pair(&signer)) else {
        return no(Reason::NotReady, "the tenant has no CAs yet: kubectl describe cluster says what it waits for");
    };
    let spec = CertSpec::new(ACCESS, Usage::Client, LIFE);
    let signed = issue_for(request, &spec, proxy_ca, proxy_key, clocks);
    let signed = signed.and_then(|certificate| Ok((inspect(certificate.as_bytes())?.not_after, certificate)));
    let (not_after, certificate) = match signed {
        Ok(signed) => signed,
        Err(error) => return no(Reason::Failed, &format!("cannot sign for the tenant: {error}")),
    };
    let seconds = u64::try_from(not_after.duration_since(clocks.now).min(LIFE).as_secs()).unwrap_or_default();
    let ca = String::from_utf8_lossy(ca).into_owned();
    Ok(Outcome::Pass(Pass { certificate, seconds, ca, server_name, address }))
}
