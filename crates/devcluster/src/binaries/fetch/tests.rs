//! Servers on loopback that do what servers do: nothing here waits for ever, and each failure has its reason.

use std::{
    io::BufRead,
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use super::*;

const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/// Answers each request on a thread of its own; gives the address, and counts requests.
fn server(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (answer, asked) = (Arc::new(answer), Arc::new(AtomicUsize::new(0)));
    let count = asked.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer, count) = (stream.unwrap(), answer.clone(), count.clone());
            thread::spawn(move || {
                let mut lines = io::BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                let request = lines.next().unwrap_or_default();
                while lines.next().is_some_and(|line| !line.is_empty()) {}
                count.fetch_add(1, Ordering::SeqCst);
                answer(request.split(' ').nth(1).unwrap_or_default(), &mut stream);
            });
        }
    });
    (address, asked)
}

/// A busy machine meets these, and no test waits long for one of them.
const LIMITS: Limits = Limits {
    connect: Duration::from_secs(5),
    silence: Duration::from_secs(2),
    whole: Duration::from_mins(1),
    bytes: 1 << 20,
};

fn client() -> Client {
    Client { limits: LIMITS, ..Client::default() }
}

/// The sum of what came, or the failure: `unreachable`, `wrong` or `local`, and its words.
fn fetch(url: &str) -> Result<String, String> {
    fetch_within(LIMITS, url)
}

fn fetch_within(limits: Limits, url: &str) -> Result<String, String> {
    let (dir, start) = (tempfile::tempdir().unwrap(), Instant::now());
    let result = Client { limits, ..Client::default() }.file(url, &dir.path().join("file"), |_| {});
    assert!(start.elapsed() < Duration::from_secs(15), "it took {:?}", start.elapsed());
    result.map_err(|failure| match failure {
        Failure::Unreachable(why) => format!("unreachable {why}"),
        Failure::Wrong(why) => format!("wrong {why}"),
        Failure::Local(e) => format!("local {e:#}"),
    })
}

fn says(url: &str, words: &[&str]) {
    says_within(LIMITS, url, words);
}

fn says_within(limits: Limits, url: &str, words: &[&str]) {
    let why = fetch_within(limits, url).expect_err(url);
    assert!(words.iter().all(|word| why.contains(word)), "{words:?}: {why}");
}

fn head(stream: &mut TcpStream, headers: &str) {
    let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n{headers}\r\n").as_bytes());
}

#[test]
fn a_whole_file_comes_with_its_sum_however_its_end_is_told() {
    let (url, _) = server(|path, stream| match path {
        "/length" => {
            head(stream, "Content-Length: 3\r\n");
            let _ = stream.write_all(b"abc");
        }
        "/chunked" => {
            head(stream, "Transfer-Encoding: chunked\r\n");
            let _ = stream.write_all(b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n");
        }
        _ => {
            head(stream, "Connection: close\r\n");
            let _ = stream.write_all(b"abc");
        }
    });
    for way in ["length", "chunked", "closed"] {
        assert_eq!(fetch(&format!("{url}/{way}")).as_deref(), Ok(ABC), "{way}");
    }
}

#[test]
fn what_is_cut_is_no_file() {
    let (url, _) = server(|path, stream| {
        let long = if path == "/length" { "Content-Length: 100\r\n" } else { "Transfer-Encoding: chunked\r\n" };
        head(stream, long);
        let _ = stream.write_all(if path == "/length" { b"abc" } else { b"3\r\nabc\r\n" });
    });
    says(&format!("{url}/length"), &["wrong", "/length is cut: 3 of 100 bytes"]);
    says(&format!("{url}/chunked"), &["wrong", "/chunked is cut: 3 bytes"]);
}

#[test]
fn slow_is_fine_and_silent_is_not() {
    let (url, _) = server(|path, stream| {
        head(stream, "Content-Length: 3\r\n");
        for byte in [b"a", b"b", b"c"] {
            let _ = stream.write_all(byte);
            thread::sleep(Duration::from_millis(if path == "/slow" { 1100 } else { 20_000 }));
        }
    });
    assert_eq!(fetch(&format!("{url}/slow")).as_deref(), Ok(ABC));
    says(&format!("{url}/stalls"), &["wrong", "stalls: after 1 of 3 bytes"]);
}

#[test]
fn what_drips_or_never_ends_has_an_end() {
    let (url, _) = server(|path, stream| {
        head(stream, "Connection: close\r\n");
        let (bytes, pause) = if path == "/drips" { (1, 50) } else { (1 << 16, 0) };
        while stream.write_all(&vec![0; bytes]).is_ok() {
            thread::sleep(Duration::from_millis(pause));
        }
    });
    says_within(Limits { whole: Duration::from_secs(1), ..LIMITS }, &format!("{url}/drips"), &["wrong", "is too slow"]);
    says(&format!("{url}/endless"), &["wrong", "does not end"]);
}

#[test]
fn no_answer_is_a_failure_of_that_address_alone() {
    let (url, _) = server(|path, stream| match path {
        "/silent" => thread::sleep(Duration::from_secs(20)),
        "/closed" => {}
        "/ssh" => drop(stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")),
        _ => drop(stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")),
    });
    says(&format!("{url}/silent"), &["wrong", "no answer within"]);
    says(&format!("{url}/closed"), &["wrong"]);
    says(&format!("{url}/ssh"), &["wrong", "not HTTP"]);
    says(&format!("{url}/missing"), &["wrong", "/missing answers 404 Not Found"]);
}

#[test]
fn no_connection_is_one_of_all_addresses() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    says(&format!("http://{free}/x"), &["unreachable", &free.to_string(), "refused"]);
    // Somebody listens, and no TLS comes of it: in time, or at all.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let short = Limits { connect: Duration::from_millis(500), ..LIMITS };
    says_within(short, &format!("https://{}/x", silent.local_addr().unwrap()), &["unreachable", "within 0.5 s"]);
    let (plain, _) = server(|_, stream| head(stream, "Content-Length: 0\r\n"));
    says_within(short, &plain.replace("http:", "https:"), &["unreachable"]);
}

#[test]
fn redirects_are_followed_but_not_for_ever() {
    let (other, _) = server(|_, stream| {
        head(stream, "Content-Length: 3\r\n");
        let _ = stream.write_all(b"abc");
    });
    let (url, asked) = server(move |path, stream| {
        let to = match path {
            "/path" => "/absolute",
            "/absolute" => &format!("{other}/x"),
            "/away" => "ftp://example.com/x",
            round => round,
        };
        let _ =
            stream.write_all(format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").as_bytes());
    });
    assert_eq!(fetch(&format!("{url}/path")).as_deref(), Ok(ABC));
    says(&format!("{url}/away"), &["wrong", "leads nowhere"]);
    asked.store(0, Ordering::SeqCst);
    says(&format!("{url}/round"), &["wrong", "more than 5 times"]);
    assert_eq!(asked.load(Ordering::SeqCst), REDIRECTS + 1);
}

#[test]
fn a_folder_gives_files_and_nothing_that_never_ends() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::Folder(dir.path().to_owned());
    std::fs::write(dir.path().join("abc"), "abc").unwrap();
    nix::unistd::mkfifo(&dir.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let to = dir.path().join("to");
    assert_eq!(client().of_base(&base, "abc", &to, |_| {}).unwrap(), ABC);
    for (name, says) in [("pipe", "it is no file"), ("", "it is no file"), ("gone", "No such file")] {
        let failure = client().of_base(&base, name, &to, |_| {}).unwrap_err();
        assert!(matches!(&failure, Failure::Wrong(why) if why.contains(says)), "{failure:?}");
    }
    assert!(matches!(client().list_of_base(&base, "pipe"), Err(Failure::Wrong(_))));
}

#[test]
fn what_cannot_be_written_is_this_machines_fault() {
    let (url, _) = server(|_, stream| {
        head(stream, "Content-Length: 3\r\n");
        let _ = stream.write_all(b"abc");
    });
    for full in ["/dev/full", "/nobody/made/this"] {
        let failure = client().file(&url, Path::new(full), |_| {}).unwrap_err();
        assert!(matches!(&failure, Failure::Local(e) if format!("{e:#}").contains(full)), "{failure:?}");
    }
}
