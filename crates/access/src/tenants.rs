//! Tenants that are called: a key and a pass for each, and connections to its API servers.

use berth_contract::access::{ACCESS, ClusterName, Outcome, Pass, Reason, Refused};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::body::Body;
use crate::link::Link;
use crate::patient::Patient;

/// How long an API server may take to be connected to.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How long a connection on which nothing happens is kept for the next call.
const IDLE: Duration = Duration::from_mins(1);
const IDLE_AT_MOST: usize = 32;
/// How long what was sent may stay without a sign of its arrival: the node of an API server may be gone.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);
/// A way that the operator gave so lately is not doubted: it knows no better.
const NEW: Duration = Duration::from_secs(5);
/// How often it is looked who can be forgotten.
const SWEEP: Duration = Duration::from_secs(10);
/// How long the operator is not asked again after it refused, or did not answer.
const NOT_AGAIN: Duration = Duration::from_secs(2);
/// A tenant that nobody has called for so long is forgotten, and its key with it.
const FORGOTTEN: Duration = Duration::from_hours(1);

/// A client of one tenant's API.
pub(crate) type Client = legacy::Client<Patient<HttpsConnector<HttpConnector>>, Body>;

/// How a tenant is called.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) client: Client,
    /// Host and port.
    pub(crate) address: String,
    made: Instant,
    life: Duration,
}

impl Way {
    /// Half of its life is over: it still works.
    fn is_due(&self) -> bool {
        self.made.elapsed() > self.life / 2
    }

    fn is_over(&self) -> bool {
        self.made.elapsed() >= self.life
    }
}

/// Why a tenant cannot be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoWay {
    /// The operator said so.
    Refused(Refused),
    /// There is no pass, and the operator does not answer.
    NoOperator,
}

#[derive(Debug, Default)]
struct Tenant {
    now: Mutex<Now>,
    /// Whoever holds it asks the operator; the others wait for what it learns.
    asking: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct Now {
    way: Option<Arc<Way>>,
    /// The operator is not asked before.
    not_before: Option<(Instant, NoWay)>,
    /// Somebody could not connect by that way: it may lead elsewhere now.
    is_doubted: bool,
}

impl Now {
    /// A way that works as far as anybody knows.
    fn usable(&self) -> Option<Arc<Way>> {
        self.way.clone().filter(|way| !way.is_over() && !self.is_doubted)
    }

    /// What the operator said a moment ago.
    fn refusal(&self) -> Option<NoWay> {
        self.not_before.clone().filter(|(until, _)| Instant::now() < *until).map(|(_, why)| why)
    }

    /// What comes of an answer.
    fn learn(&mut self, answer: Result<Way, NoWay>) -> Result<Arc<Way>, NoWay> {
        match answer {
            Ok(way) => {
                let way = Arc::new(way);
                *self = Self { way: Some(way.clone()), ..Self::default() };
                Ok(way)
            }
            Err(why) => {
                self.not_before = Some((Instant::now() + NOT_AGAIN, why.clone()));
                // What it says of a tenant that is gone counts at once; all else can wait as long as there is a pass.
                let is_gone = matches!(&why, NoWay::Refused(refused) if refused.reason == Reason::NotFound);
                self.way = self.way.take().filter(|way| !is_gone && !way.is_over());
                self.way.clone().ok_or(why)
            }
        }
    }
}

/// All that were called lately.
#[derive(Debug)]
pub(crate) struct Tenants {
    link: Arc<Link>,
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    /// With when each was called last.
    tenants: HashMap<ClusterName, (Arc<Tenant>, Instant)>,
    swept: Option<Instant>,
}

impl Tenants {
    pub(crate) fn new(link: Arc<Link>) -> Arc<Self> {
        Arc::new(Self { link, all: Mutex::default() })
    }

    /// How many are known.
    pub(crate) fn len(&self) -> usize {
        self.all.lock().tenants.len()
    }

    /// How that tenant is called.
    pub(crate) async fn way(self: &Arc<Self>, cluster: &ClusterName) -> Result<Arc<Way>, NoWay> {
        let tenant = self.tenant(cluster);
        let (usable, refusal) = {
            let now = tenant.now.lock();
            (now.usable(), now.refusal())
        };
        let Some(way) = usable else {
            let _asking = tenant.asking.lock().await;
            // Who was first may have learned it.
            let (usable, refusal) = {
                let now = tenant.now.lock();
                (now.usable(), now.refusal())
            };
            return match (usable, refusal) {
                (Some(way), _) => Ok(way),
                (None, Some(why)) => tenant.now.lock().way.clone().filter(|way| !way.is_over()).ok_or(why),
                (None, None) => {
                    let answer = self.ask(cluster).await;
                    tenant.now.lock().learn(answer)
                }
            };
        };
        // Nobody waits for a new one while the old one works.
        if way.is_due()
            && refusal.is_none()
            && let Ok(asking) = tenant.asking.clone().try_lock_owned()
        {
            let (tenants, cluster) = (self.clone(), cluster.clone());
            tokio::spawn(async move {
                let answer = tenants.ask(&cluster).await;
                drop(tenant.now.lock().learn(answer));
                drop(asking);
            });
        }
        Ok(way)
    }

    /// A connection by that way failed: the operator is asked anew where the tenant is.
    pub(crate) fn doubt(&self, cluster: &ClusterName, way: &Arc<Way>) {
        let tenant = self.tenant(cluster);
        let mut now = tenant.now.lock();
        now.is_doubted |= way.made.elapsed() > NEW && now.way.as_ref().is_some_and(|now| Arc::ptr_eq(now, way));
    }

    fn tenant(&self, cluster: &ClusterName) -> Arc<Tenant> {
        let All { tenants, swept } = &mut *self.all.lock();
        if swept.is_none_or(|at| at.elapsed() > SWEEP) {
            // Anybody may ask for names that there are none of, in a namespace of theirs.
            let lasts = |tenant: &Tenant| if tenant.now.lock().way.is_some() { FORGOTTEN } else { SWEEP };
            tenants.retain(|_, (tenant, used)| used.elapsed() < lasts(tenant));
            *swept = Some(Instant::now());
        }
        let (tenant, used) = tenants.entry(cluster.clone()).or_insert_with(|| (Arc::default(), Instant::now()));
        *used = Instant::now();
        tenant.clone()
    }

    async fn ask(&self, cluster: &ClusterName) -> Result<Way, NoWay> {
        let failed = |error: anyhow::Error| {
            eprintln!("berth-access: cannot use the pass for {}/{}: {error:#}", cluster.namespace, cluster.name);
            let message = "the pass for this tenant cannot be used: the log of berth-access says why".to_owned();
            NoWay::Refused(Refused { reason: Reason::Failed, message })
        };
        let key = KeyPair::generate().map_err(|error| failed(error.into()))?;
        let request = CertificateParams::new([ACCESS.to_owned()]).and_then(|params| params.serialize_request(&key));
        let request = request.and_then(|request| request.pem()).map_err(|error| failed(error.into()))?;
        let mut answer = self.link.ask(cluster, request.clone()).await;
        if answer.is_err() && self.link.is_open() {
            // Another operator has taken over meanwhile.
            answer = self.link.ask(cluster, request).await;
        }
        match answer.map_err(|_| NoWay::NoOperator)? {
            Outcome::Pass(pass) => way(&pass, &key).map_err(failed),
            Outcome::Refused(refused) => Err(NoWay::Refused(refused)),
        }
    }
}

/// With HTTP/1.1, a connection for each call at a time: API servers bound the calls in one of HTTP/2, so that watches would keep others waiting.
fn way(pass: &Pass, key: &KeyPair) -> anyhow::Result<Way> {
    let mut roots = RootCertStore::empty();
    for ca in CertificateDer::pem_slice_iter(pass.ca.as_bytes()) {
        roots.add(ca?)?;
    }
    let certificate = CertificateDer::from_pem_slice(pass.certificate.as_bytes())?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let tls = ClientConfig::builder().with_root_certificates(roots).with_client_auth_cert(vec![certificate], key)?;
    let name = ServerName::try_from(pass.server_name.clone())?;
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT_WITHIN));
    http.set_keepalive(Some(Duration::from_secs(30)));
    http.set_keepalive_interval(Some(Duration::from_secs(10)));
    http.set_keepalive_retries(Some(3));
    // Keepalive does not look while something is on its way.
    http.set_tcp_user_timeout(Some(ANSWERS_WITHIN));
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only()
        .with_server_name_resolver(FixedServerNameResolver::new(name))
        .enable_http1()
        .wrap_connector(http);
    let client = legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(IDLE_AT_MOST)
        .build(Patient(connector));
    Ok(Way { client, address: pass.address.clone(), made: Instant::now(), life: Duration::from_secs(pass.seconds) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(life: u64, ago: u64) -> Way {
        let key = KeyPair::generate().unwrap();
        let pem = CertificateParams::new([ACCESS.to_owned()]).unwrap().self_signed(&key).unwrap().pem();
        let (server_name, address) = ("a".to_owned(), "a:1".to_owned());
        let pass = Pass { certificate: pem.clone(), seconds: life, ca: pem, server_name, address };
        let way = way(&pass, &key).unwrap();
        Way { made: Instant::now().checked_sub(Duration::from_secs(ago)).unwrap(), ..way }
    }

    fn refused(reason: Reason) -> NoWay {
        NoWay::Refused(Refused { reason, message: String::new() })
    }

    #[test]
    fn a_pass_counts_until_it_is_over_whatever_is_said_meanwhile() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        for why in
            [NoWay::NoOperator, refused(Reason::NotReady), refused(Reason::NotInTemplates), refused(Reason::Failed)]
        {
            let mut now = Now::default();
            let way = now.learn(Ok(made(100, 60))).unwrap();
            assert!(way.is_due() && now.usable().is_some());
            now.is_doubted = true;
            assert!(now.usable().is_none(), "the operator is asked first");
            assert!(Arc::ptr_eq(&now.learn(Err(why.clone())).unwrap(), &way), "{why:?}");
            assert_eq!(now.refusal(), Some(why.clone()), "and not again at once");
            let mut over = Now { way: Some(Arc::new(made(100, 100))), ..Now::default() };
            assert_eq!((over.usable().is_some(), over.learn(Err(why.clone())).err()), (false, Some(why)));
        }
        let mut gone = Now { way: Some(Arc::new(made(100, 1))), ..Now::default() };
        assert_eq!(gone.learn(Err(refused(Reason::NotFound))).err(), Some(refused(Reason::NotFound)));
        assert!(gone.usable().is_none());
    }
}
