//! Takes calls, and passes each on to its tenant.

use berth_contract::access::ClusterName;
use berth_edge::log::Log;
use http::header::HeaderValue;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::body::{Body, Cut, json_of, status};
use crate::call::{Call, call};
use crate::certificate::Certificate;
use crate::clusters::Clusters;
use crate::counts::Counts;
use crate::headers;
use crate::line::{Line, Why};
use crate::link::Link;
use crate::person::{Known, Person};
use crate::place::{Place, place};
use crate::refusal::Refusal;
use crate::reviews::{Reviews, Unknown, Wish};
use crate::strangers::Strangers;
use crate::tenants::{Tenants, Way};

/// What Kubernetes has.
const METHODS: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];
/// Characters of a method that are written down.
const LONGEST_METHOD: usize = 16;

/// How often, and how long apart, it is asked whether an open stream may go on while nobody answers.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_secs(5);

/// All that calls share.
pub(crate) struct Access {
    pub(crate) reviews: Reviews,
    pub(crate) strangers: Strangers,
    pub(crate) tenants: Arc<Tenants>,
    pub(crate) clusters: Clusters,
    pub(crate) link: Arc<Link>,
    pub(crate) log: Log,
    pub(crate) counts: Counts,
    /// What callers see.
    pub(crate) certificate: Arc<Certificate>,
    /// How people get a token: an `exec` entry of a kubeconfig.
    pub(crate) login: serde_json::Value,
    /// How often whoever has a stream open is asked for again.
    pub(crate) ask_again: Duration,
    pub(crate) began: Instant,
    /// It ends: nobody new is let in.
    pub(crate) stop: CancellationToken,
    /// Who is still in has to leave now.
    pub(crate) over: CancellationToken,
    /// Upgraded connections, which no server counts any more.
    pub(crate) streams: TaskTracker,
}

/// What is known of a call so far.
#[derive(Default)]
struct Visit {
    person: Option<Arc<Person>>,
    tenant: Option<ClusterName>,
    call: Option<Call>,
}

impl Access {
    /// One call, from its headers to those of its answer.
    pub(crate) async fn answer(self: Arc<Self>, request: Request<Incoming>, client: SocketAddr) -> Response<Body> {
        let begin = Instant::now();
        let method: String = request.method().as_str().chars().take(LONGEST_METHOD).collect();
        let mut visit = Visit::default();
        let outcome = self.clone().carry(request, client, &mut visit).await;
        let (response, refused) = match outcome {
            Ok(response) => (response, None),
            Err(Refusal { why, code, reason, message }) => (status(code, reason, &message), Some(why)),
        };
        self.counts.add(response.status(), refused, begin.elapsed());
        let is_stranger = visit.person.is_none();
        let Visit { person, tenant, call } = visit;
        let Call { verb, resource, namespace, name, also: _ } = call.unwrap_or_default();
        let audit_id = response.headers().get("audit-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
        let line = Line {
            time: Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            client,
            user: person.map(|person| person.name.clone()),
            tenant: tenant.map(|of| format!("{}/{}", of.namespace, of.name)),
            verb: Some(verb).filter(|verb| !verb.is_empty()),
            resource,
            namespace,
            name,
            method,
            code: response.status().as_u16(),
            refused,
            milliseconds: begin.elapsed().as_secs_f64() * 1e3,
            audit_id,
        };
        self.log.say(&line, is_stranger);
        response
    }

    async fn carry(
        self: Arc<Self>,
        request: Request<Incoming>,
        client: SocketAddr,
        visit: &mut Visit,
    ) -> Result<Response<Body>, Refusal> {
        if headers::forges(request.headers()) {
            return Err(Refusal::nothing_here(Why::Forged));
        }
        if !METHODS.contains(request.method()) {
            return Err(Refusal::nothing_here(Why::NoPlace));
        }
        let place = place(request.uri().path()).ok_or_else(|| Refusal::nothing_here(Why::NoPlace))?;
        if place == Place::Login {
            return Ok(json_of(StatusCode::OK, &serde_json::json!({ "exec": self.login })));
        }
        let token = headers::token(request.headers()).ok_or_else(|| Refusal::nothing_here(Why::NoToken))?.to_owned();
        let person = self.who(&token, client.ip()).await?;
        visit.person = Some(person.clone());
        let known = person.known().ok_or_else(|| Refusal::nothing_here(Why::UnknownUser))?;
        let Place::Tenant(cluster, path) = place else {
            let list = self.clusters.of(&self.reviews, &person).await.map_err(|_| Refusal::no_review())?;
            return Ok(json_of(StatusCode::OK, &serde_json::json!({ "clusters": list })));
        };
        visit.tenant = Some(cluster.clone());
        let upgrade = headers::upgrade(request.headers());
        let call = call(request.method(), &path, request.uri().query(), upgrade.is_some());
        visit.call = Some(call.clone());
        for verb in [Some(call.verb.as_str()), call.also].into_iter().flatten() {
            self.may(&person, &cluster, verb).await?;
        }
        let way = self.tenants.way(&cluster).await?;
        let uri = headers::uri(&way.address, &path, request.uri().query());
        let to = Onward { cluster, way, uri: uri.ok_or_else(|| Refusal::nothing_here(Why::NoPlace))?, call };
        self.pass_on(request, client, (&known, upgrade), to, Holder { person, token }).await
    }

    async fn who(&self, token: &str, client: IpAddr) -> Result<Arc<Person>, Refusal> {
        if let Some(person) = self.reviews.known(token).await {
            return Ok(person);
        }
        let Some(_turn) = self.strangers.turn(client).await else {
            return Err(Refusal::too_many());
        };
        let person = self.reviews.who(token).await.map_err(|_| Refusal::no_review())?;
        person.ok_or_else(|| {
            self.strangers.note(client);
            Refusal::nothing_here(Why::UnknownToken)
        })
    }

    /// Who may use a tenant at all is told what they may not do there.
    async fn may(&self, person: &Arc<Person>, cluster: &ClusterName, verb: &str) -> Result<(), Refusal> {
        let ask = |verb: &str| {
            let wish = Wish::of(cluster, verb);
            async move { self.reviews.may(person, &wish).await.map_err(|_| Refusal::no_review()) }
        };
        if ask(verb).await? {
            return Ok(());
        }
        if verb != "get" && ask("get").await? {
            return Err(Refusal::not_allowed(person, cluster, verb));
        }
        Err(Refusal::nothing_here(Why::NotAllowed))
    }

    async fn pass_on(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        client: SocketAddr,
        (known, upgrade): (&Known, Option<HeaderValue>),
        to: Onward,
        holder: Holder,
    ) -> Result<Response<Body>, Refusal> {
        let from = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
        let (mut parts, body) = request.into_parts();
        headers::to_tenant(&mut parts.headers, known, client.ip(), upgrade);
        parts.uri = to.uri.clone();
        parts.version = http::Version::HTTP_11;
        parts.extensions.clear();
        let body = body.map_err(Into::into).boxed_unsync();
        // From the first byte on: a request may have no end, either.
        let (cut, ended) = self.look_after(holder, &to);
        let ends = ended.clone().drop_guard();
        let sent = tokio::select! {
            sent = to.way.client.request(Request::from_parts(parts, body)) => sent,
            () = cut.cancelled() => return Err(Refusal::nothing_here(Why::NotAllowed)),
        };
        let mut response = match sent {
            Ok(response) => response,
            Err(error) => {
                if error.is_connect() {
                    self.tenants.doubt(&to.cluster, &to.way);
                }
                return Err(Refusal::unreachable(&to.cluster.name, &error));
            }
        };
        let switches = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        if switches {
            let protocol = response.headers().get(http::header::UPGRADE).cloned();
            let onward = hyper::upgrade::on(&mut response);
            headers::to_client(response.headers_mut(), protocol);
            if let Some(from) = from {
                self.streams.spawn(async move {
                    let _ends = ends;
                    let (Ok(from), Ok(onward)) = (from.await, onward.await) else { return };
                    let (mut from, mut onward) = (TokioIo::new(from), TokioIo::new(onward));
                    tokio::select! {
                        () = cut.cancelled() => (),
                        _ = tokio::io::copy_bidirectional(&mut from, &mut onward) => (),
                    }
                });
            }
            return Ok(response.map(|_| crate::body::whole("")));
        }
        headers::to_client(response.headers_mut(), None);
        headers::stay_below(response.headers_mut(), &to.cluster);
        // The tenant's key opens it no more.
        if response.status() == StatusCode::UNAUTHORIZED {
            self.tenants.doubt(&to.cluster, &to.way);
        }
        Ok(response.map(|body| Cut::new(body, cut, ends).boxed_unsync()))
    }

    /// What is open is cut within a minute of the caller's rights. The first is cancelled then; whoever has the second cancels it at the end.
    fn look_after(self: &Arc<Self>, holder: Holder, to: &Onward) -> (CancellationToken, CancellationToken) {
        let (cut, ended) = (CancellationToken::new(), CancellationToken::new());
        let (access, is_cut, has_ended) = (self.clone(), cut.clone(), ended.clone());
        let verbs = [Some(to.call.verb.as_str()), to.call.also].into_iter().flatten();
        let wishes: Vec<_> = verbs.map(|verb| Wish::of(&to.cluster, verb)).collect();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = has_ended.cancelled() => return,
                    () = access.over.cancelled() => break,
                    () = tokio::time::sleep(access.ask_again) => {}
                }
                if !access.still_may(&holder, &wishes).await {
                    break;
                }
            }
            is_cut.cancel();
        });
        (cut, ended)
    }

    /// Without an answer it is asked again a few times: one that is late ends nobody's work.
    async fn still_may(&self, holder: &Holder, wishes: &[Wish]) -> bool {
        for _ in 0..TRIES {
            match self.may_all(holder, wishes).await {
                Ok(may) => return may,
                Err(Unknown) => tokio::time::sleep(PAUSE).await,
            }
        }
        false
    }

    async fn may_all(&self, holder: &Holder, wishes: &[Wish]) -> Result<bool, Unknown> {
        // With other groups they are somebody else.
        if self.reviews.who(&holder.token).await?.as_ref() != Some(&holder.person) {
            return Ok(false);
        }
        for wish in wishes {
            if !self.reviews.may(&holder.person, wish).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Where a call goes.
struct Onward {
    cluster: ClusterName,
    way: Arc<Way>,
    uri: http::Uri,
    call: Call,
}

/// Whose call it is.
struct Holder {
    person: Arc<Person>,
    token: String,
}
