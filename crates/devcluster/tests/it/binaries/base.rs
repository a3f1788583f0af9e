//! Another machine's cache: a folder or an address with a list of sums.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    thread,
};

use super::world::{World, foreign, linked, program, said, sum};

/// A cache with programs and the list that `devcluster sums` writes of it.
fn served() -> (World, PathBuf) {
    let other = World::new();
    for (path, says) in [
        ("tools/helm-3.22.0/helm", "v3.22.0"),
        ("tools/pause-3.10.1/pause", "whatever"),
        ("tools/kwok-0.8.0/kwok", "kwok version v0.8.0 go1.26.1 (linux)"),
    ] {
        put(&other, path, &program(says, 0));
    }
    put(&other, "tools/kwok-0.8.0/stages/node-fast-a.yaml", b"kind: Stage\n");
    put(&other, "tools/kwok-0.8.0/stages/pod-fast-b.yaml", b"kind: Stage\n");
    put(&other, "tools/kwok-0.8.0/.stages.12.tmp/half.yaml", b"ki");
    let said = said(&other.devcluster(&["sums"], &[]).output().unwrap());
    assert!(said.ok, "{}", said.text);
    said.has(&["bin/SHA256SUMS: 5 files"]);
    let bin = other.bin("");
    (other, bin)
}

fn put(world: &World, path: &str, content: &[u8]) {
    let path = world.bin(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Serves a folder as simple servers do.
fn serve(root: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, root) = (format!("http://{}/", listener.local_addr().unwrap()), root.to_owned());
    thread::spawn(move || {
        for mut stream in listener.incoming().map(Result::unwrap) {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            let request = lines.next().unwrap_or_default();
            while lines.next().is_some_and(|line| !line.is_empty()) {}
            let path = request.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
            let (status, body) = match fs::read(root.join(path)) {
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", b"<html>".to_vec()),
            };
            let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(&body);
        }
    });
    address
}

#[test]
fn another_cache_gives_all_that_it_has_also_what_no_publisher_offers() {
    let (_other, bin) = served();
    for base in [bin.to_str().unwrap().to_owned(), serve(&bin)] {
        let world = World::new();
        for artifact in ["helm", "pause", "kwok"] {
            // Neither Go nor anything else that builds is needed.
            let said = world.build(artifact, &[("BERTH_BINARIES", &base), ("PATH", "/nowhere")]);
            assert!(said.ok, "{base}: {}", said.text);
        }
        assert_eq!(
            world.files(),
            [
                "bin/tools/helm-3.22.0/helm",
                "bin/tools/kwok-0.8.0/kwok",
                "bin/tools/kwok-0.8.0/stages/node-fast-a.yaml",
                "bin/tools/kwok-0.8.0/stages/pod-fast-b.yaml",
                "bin/tools/pause-3.10.1/pause"
            ]
        );
        assert_eq!(fs::read(world.bin("tools/helm-3.22.0/helm")).unwrap(), program("v3.22.0", 0));
    }
}

/// Breaks a base.
type Break<'a> = &'a dyn Fn(&Path);

#[test]
fn what_it_has_not_or_has_wrong_is_an_error_that_names_the_file_and_the_way_out() {
    let helm = "tools/helm-3.22.0/helm";
    let list = |bin: &Path, content: &[u8]| {
        fs::write(bin.join(helm), content).unwrap();
        fs::write(bin.join("SHA256SUMS"), format!("{}  {helm}\n", sum(content))).unwrap();
    };
    let cases: [(&str, Break<'_>, &[&str]); 8] = [
        ("no list", &|bin| fs::remove_file(bin.join("SHA256SUMS")).unwrap(), &["SHA256SUMS"]),
        (
            "a page as the list",
            &|bin| fs::write(bin.join("SHA256SUMS"), "<html>Sign in</html>").unwrap(),
            &["SHA256SUMS", "`<html>Sign in</html>`"],
        ),
        (
            "not listed",
            &|bin| fs::write(bin.join("SHA256SUMS"), "").unwrap(),
            &["has no tools/helm-3.22.0/helm", "devcluster build helm-3.22.0", "devcluster sums"],
        ),
        ("listed and gone", &|bin| fs::remove_file(bin.join(helm)).unwrap(), &[helm]),
        ("another file", &|bin| fs::write(bin.join(helm), "another").unwrap(), &[helm, "is to have the sum"]),
        (
            "another version",
            &|bin| list(bin, &program("v3.21.0", 0)),
            &[helm, "is to be version 3.22.0, but `helm version --short` says `v3.21.0`"],
        ),
        (
            "another processor",
            &|bin| list(bin, &foreign(program("v3.22.0", 0))),
            &[helm, "but is one for another processor"],
        ),
        ("no program", &|bin| list(bin, b"v3.22.0\n"), &[helm, "but begins with `v3.22.0`"]),
    ];
    for (name, break_it, says) in cases {
        let (_other, bin) = served();
        break_it(&bin);
        for base in [bin.to_str().unwrap().to_owned(), serve(&bin)] {
            let world = World::new();
            let said = world.build("helm", &[("BERTH_BINARIES", &base)]);
            assert!(!said.ok && world.builds() == 0, "{name}: {}", said.text);
            said.has(says);
            said.has(&["BERTH_BINARIES=build"]);
            assert_eq!(world.files(), [""; 0], "{name}");
        }
    }
}

/// Its image holds nothing else, so it would not start in a pod.
#[test]
fn what_goes_into_an_image_is_linked_statically() {
    let path = "tools/pause-3.10.1/pause";
    for (how, fine) in [("-static", true), ("-no-pie", false), ("-pie", false)] {
        let (other, world) = (World::new(), World::new());
        let pause = linked(how, "whatever", 0);
        put(&other, path, &pause);
        put(&other, "SHA256SUMS", format!("{}  {path}\n", sum(&pause)).as_bytes());
        let said = world.build("pause", &[("BERTH_BINARIES", other.bin("").to_str().unwrap())]);
        assert_eq!((said.ok, world.files().len()), (fine, usize::from(fine)), "{how}: {}", said.text);
        assert!(fine || said.text.contains("is to be linked statically"), "{}", said.text);
    }
}

#[test]
fn nobody_there_is_an_error_and_nothing_is_built() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let world = World::new();
    let said = world.build("helm", &[("BERTH_BINARIES", &format!("http://{free}"))]);
    assert!(!said.ok && world.builds() == 0);
    said.has(&[&free.to_string(), "no connection", "BERTH_BINARIES=build"]);
}

#[test]
fn the_list_leaves_out_what_is_not_what_its_name_says() {
    let (other, bin) = served();
    put(&other, "tools/helm-3.22.0/helm", &program("v3.21.0", 0));
    let said = said(&other.devcluster(&["sums"], &[]).output().unwrap());
    assert!(said.ok);
    said.has(&["left out: tools/helm-3.22.0/helm is to be version 3.22.0", "SHA256SUMS: 4 files"]);
    assert!(!fs::read_to_string(bin.join("SHA256SUMS")).unwrap().contains("helm"));
    let said = super::world::said(&World::new().devcluster(&["sums"], &[]).output().unwrap());
    assert!(!said.ok);
    said.has(&["there is nothing in", "devcluster build"]);
}
