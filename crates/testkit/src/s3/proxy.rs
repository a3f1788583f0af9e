//! The proxy. It passes requests on with their own `Host`, so that signatures stay valid.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A kind of request to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// An object as a whole.
    Put,
    /// An object, or a part of it.
    Get,
    /// What an object is, without it.
    Head,
    /// What there is.
    List,
    /// An object goes.
    Delete,
    /// An upload in parts begins.
    Begin,
    /// One of its parts.
    Part,
    /// It becomes an object.
    Complete,
    /// It is given up.
    Abort,
}

impl Request {
    /// Each of them.
    pub const ALL: [Self; 9] = [
        Self::Put,
        Self::Get,
        Self::Head,
        Self::List,
        Self::Delete,
        Self::Begin,
        Self::Part,
        Self::Complete,
        Self::Abort,
    ];

    fn of(line: &str) -> Option<Self> {
        let (method, rest) = line.split_once(' ')?;
        let query = rest.split(' ').next()?.split_once('?').map_or("", |(_, query)| query);
        let has = |name: &str| query.split('&').any(|part| part == name || part.starts_with(&format!("{name}=")));
        Some(match method {
            "PUT" if has("partNumber") => Self::Part,
            "PUT" => Self::Put,
            "GET" if has("list-type") => Self::List,
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "DELETE" if has("uploadId") => Self::Abort,
            "DELETE" => Self::Delete,
            "POST" if has("uploads") => Self::Begin,
            "POST" if has("uploadId") => Self::Complete,
            _ => return None,
        })
    }
}

/// What a store does, or what is before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misbehaviour {
    /// It does what it was asked, and answers this status.
    Late(u16),
    /// It does what it was asked, and answers nothing.
    Silent,
    /// It answers this status, and does nothing.
    Refuses(u16, &'static str, &'static str),
    /// It takes no object without a checksum, as a bucket with a default retention.
    WantsChecksums,
    /// It knows no checksums, and takes nothing that has one.
    KnowsNoChecksums,
    /// It answers later.
    Slow(Duration),
    /// The connection ends in the middle of what it answers.
    Cut,
    /// Its answers have one more header.
    Adds(&'static str, &'static str),
}

/// How often a [`Misbehaviour`] happens.
#[derive(Debug)]
struct Rule {
    request: Request,
    does: Misbehaviour,
    times: usize,
}

/// Listens as long as the process lives.
#[derive(Clone, Debug)]
pub struct S3Proxy {
    address: SocketAddr,
    rules: Arc<Mutex<Vec<Rule>>>,
    headers: Arc<Mutex<Vec<(Request, String)>>>,
}

impl S3Proxy {
    /// One before the server at this address, which behaves.
    pub fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let proxy = Self { address, rules: Arc::default(), headers: Arc::default() };
        let own = proxy.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let own = own.clone();
                thread::spawn(move || own.serve(client, to));
            }
        });
        proxy
    }

    /// Its URL.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on the next so many requests of this kind meet this.
    pub fn plant(&self, request: Request, does: Misbehaviour, times: usize) {
        self.rules.lock().unwrap().push(Rule { request, does, times });
    }

    /// It behaves again.
    pub fn heal(&self) {
        self.rules.lock().unwrap().clear();
    }

    /// The first lines and headers of the requests of a kind that came so far.
    pub fn came(&self, request: Request) -> Vec<String> {
        let all = self.headers.lock().unwrap();
        all.iter().filter(|(kind, _)| *kind == request).map(|(_, text)| text.clone()).collect()
    }

    /// What the next request of a kind meets.
    fn next(&self, request: Request, head: &str) -> Option<Misbehaviour> {
        self.headers.lock().unwrap().push((request, head.to_owned()));
        let mut rules = self.rules.lock().unwrap();
        let rule = rules.iter_mut().find(|rule| rule.request == request && rule.times > 0)?;
        rule.times -= 1;
        Some(rule.does)
    }

    /// One request; then the connection ends.
    fn serve(&self, client: TcpStream, to: SocketAddr) -> io::Result<()> {
        let mut from = BufReader::new(client.try_clone()?);
        let head = head(&mut from)?;
        let length = header(&head, "content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
        let mut body = vec![];
        from.by_ref().take(length).read_to_end(&mut body)?;
        let does = Request::of(&head).and_then(|request| self.next(request, &head));
        answer(does, client, from, &head, &body, to)
    }
}

fn answer(
    does: Option<Misbehaviour>,
    mut client: TcpStream,
    mut from: BufReader<TcpStream>,
    head: &str,
    body: &[u8],
    to: SocketAddr,
) -> io::Result<()> {
    let is_head = head.starts_with("HEAD ");
    match does {
        Some(Misbehaviour::Refuses(status, code, message)) => client.write_all(&error(status, code, message, is_head)),
        Some(Misbehaviour::KnowsNoChecksums) if has_checksum(head) => {
            let unknown = "Unsupported header 'x-amz-checksum-sha256' received for this API call.";
            client.write_all(&error(400, "InvalidArgument", unknown, is_head))
        }
        Some(Misbehaviour::WantsChecksums) if !has_checksum(head) => {
            let wants = "checksum header required with Object Lock";
            client.write_all(&error(400, "InvalidRequest", wants, is_head))
        }
        Some(Misbehaviour::Late(status)) => {
            ask(head, body, to)?;
            client.write_all(&error(status, "", "", is_head))
        }
        Some(Misbehaviour::Silent) => {
            ask(head, body, to)?;
            // Until the client has enough.
            from.read_to_end(&mut vec![]).map(drop)
        }
        Some(Misbehaviour::Slow(time)) => {
            let answer = ask(head, body, to)?;
            thread::sleep(time);
            client.write_all(&answer)
        }
        Some(Misbehaviour::Cut) => {
            let answer = ask(head, body, to)?;
            client.write_all(&answer[..answer.len() - answer.len().min(20)])
        }
        Some(Misbehaviour::Adds(name, value)) => {
            let answer = ask(head, body, to)?;
            let line = answer.windows(2).position(|at| at == b"\r\n").unwrap_or(0);
            let added = format!("\r\n{name}: {value}");
            client.write_all(&[&answer[..line], added.as_bytes(), &answer[line..]].concat())
        }
        Some(Misbehaviour::WantsChecksums | Misbehaviour::KnowsNoChecksums) | None => {
            client.write_all(&ask(head, body, to)?)
        }
    }
}

/// First line and headers.
fn head(from: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if from.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(head)
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut headers = head.lines().filter_map(|line| line.split_once(':'));
    headers.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

fn has_checksum(head: &str) -> bool {
    let all = ["x-amz-checksum-sha256", "content-md5", "x-amz-checksum-algorithm"];
    all.iter().any(|name| header(head, name).is_some())
}

/// What the server answers.
fn ask(head: &str, body: &[u8], to: SocketAddr) -> io::Result<Vec<u8>> {
    let mut server = TcpStream::connect(to)?;
    let is_ours = |line: &&str| !line.is_empty() && !line.to_ascii_lowercase().starts_with("connection:");
    let head: String = head.lines().filter(is_ours).flat_map(|line| [line, "\r\n"]).collect();
    server.write_all(format!("{head}connection: close\r\n\r\n").as_bytes())?;
    server.write_all(body)?;
    let mut answer = vec![];
    server.read_to_end(&mut answer)?;
    Ok(answer)
}

/// In S3's form, or, without a code, as a server that is before it.
fn error(status: u16, code: &str, message: &str, is_head: bool) -> Vec<u8> {
    let body = if code.is_empty() {
        String::new()
    } else {
        format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{message}</Message></Error>")
    };
    let length = body.len();
    let body = if is_head { String::new() } else { body };
    let head = format!("HTTP/1.1 {status} Odd\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    format!("{head}{body}").into_bytes()
}
