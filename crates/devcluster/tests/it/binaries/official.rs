//! Publishers' binaries: complete, cut, slow, missing, of another sum, version or processor, behind proxies and pages.

use std::{
    collections::HashMap,
    fs,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use super::{
    publishers::{Answer, Publishers, Way},
    world::{Said, World, arch, archive, foreign, program, said, sum},
};

const HELM: &str = "bin/tools/helm-3.22.0/helm";
const VERSION: &str = "v3.22.0+g0000000";

fn helm_address() -> String {
    format!("get.helm.sh/helm-v3.22.0-linux-{}.tar.gz", arch())
}

fn member() -> String {
    format!("linux-{}/helm", arch())
}

/// An archive as Helm's, with files beside the program that nobody wants.
fn helm_archive(program: &[u8]) -> Vec<u8> {
    archive(&[("README.md", b"no"), (&member(), program), ("linux-other/helm", b"no")])
}

/// A file and its list of sums, as the publisher has them.
fn published(file: &[u8]) -> HashMap<String, Answer> {
    let (address, name) = (helm_address(), helm_address().rsplit('/').next().unwrap().to_owned());
    let list = format!("{}  {name}\n", sum(file));
    HashMap::from([(format!("{address}.sha256sum"), Answer::File(list.into())), (address, Answer::File(file.to_vec()))])
}

struct Site {
    world: World,
    publishers: Publishers,
}

impl Site {
    fn new(way: Way, files: HashMap<String, Answer>) -> Self {
        let world = World::new();
        let publishers = Publishers::new(way, files, &world.path("ca.pem"));
        Self { world, publishers }
    }

    fn command(&self, artifact: &str, mode: &str) -> Command {
        let ca = self.world.path("ca.pem");
        let variables = [
            ("BERTH_BINARIES", mode),
            ("HTTPS_PROXY", &*self.publishers.proxy),
            ("SSL_CERT_FILE", ca.to_str().unwrap()),
        ];
        self.world.devcluster(&["build", artifact], &variables)
    }

    fn build(&self, artifact: &str, mode: &str) -> Said {
        said(&self.command(artifact, mode).output().unwrap())
    }

    fn content(&self, path: &str) -> Vec<u8> {
        fs::read(self.world.path("cache").join(path)).unwrap()
    }
}

#[test]
fn what_is_offered_is_fetched_checked_and_nothing_else_is_unpacked() {
    let helm = program(VERSION, 300_000);
    for mode in ["auto", "download", ""] {
        let site = Site::new(Way::Open, published(&helm_archive(&helm)));
        let said = site.build("helm", mode);
        assert!(said.ok, "{}", said.text);
        said.has(&["[1/1] helm-3.22.0: helm-v3.22.0-linux-", " fetched in "]);
        assert_eq!(site.world.files(), [HELM]);
        assert!(site.content(HELM) == helm && site.world.builds() == 0);
        assert_eq!(site.publishers.asked(), [format!("{}.sha256sum", helm_address()), helm_address()]);
        // What is there is not asked for, whatever the variable says.
        assert!(site.build("helm", "no such word").ok && site.publishers.asked().is_empty());
    }
}

#[test]
fn each_program_of_kubernetes_is_a_file_and_its_sum_is_all_of_its_list() {
    let mut files = HashMap::new();
    let names = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];
    let kube = program("Kubernetes v1.34.4", 0);
    for name in names {
        let address = format!("dl.k8s.io/release/v1.34.4/bin/linux/{}/{name}", arch());
        files.insert(format!("{address}.sha256"), Answer::File(sum(&kube).into()));
        // The publisher's address leads to another.
        let elsewhere = format!("objects.example.com/{name}");
        files.insert(address, Answer::Redirect(format!("https://{elsewhere}")));
        files.insert(elsewhere, Answer::Slow(kube.clone()));
    }
    let site = Site::new(Way::Open, files);
    // One that is there already is neither asked for nor touched.
    let there = site.world.bin("kubernetes/v1.34.4/kube-scheduler");
    fs::create_dir_all(there.parent().unwrap()).unwrap();
    fs::write(&there, "there").unwrap();
    let said = site.build("kubernetes-v1.34.4", "download");
    assert!(said.ok, "{}", said.text);
    assert_eq!(site.world.files(), names.map(|name| format!("bin/kubernetes/v1.34.4/{name}")));
    assert_eq!(fs::read(&there).unwrap(), b"there");
    assert!(site.publishers.asked().iter().all(|address| !address.contains("kube-scheduler")));
}

/// Each is said in a line, never gets the program's name, and is built in one mode and an error in the other.
#[test]
fn whatever_is_wrong_with_a_file_is_never_taken_for_the_program() {
    let helm = program(VERSION, 100_000);
    let good = helm_archive(&helm);
    let (file, list) = (helm_address(), format!("{}.sha256sum", helm_address()));
    let with = |address: &str, answer: Answer| {
        let mut files = published(&good);
        files.insert(address.to_owned(), answer);
        files
    };
    let without = |address: &str| {
        let mut files = published(&good);
        files.remove(address);
        files
    };
    let page = b"<!DOCTYPE html>\n<title>Sign in</title>".to_vec();
    let other = helm_archive(&program("v3.21.9", 0));
    let linked = {
        let mut archive = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        archive.append_link(&mut header, member(), "/bin/true").unwrap();
        archive.into_inner().unwrap().finish().unwrap()
    };
    let cases = [
        ("no file", without(&file), "answers 404"),
        ("no list", without(&list), ".sha256sum answers 404"),
        ("cut", with(&file, Answer::Cut(good.clone())), "is cut: "),
        ("cut list", with(&list, Answer::Cut(sum(&good).into())), "is cut: "),
        ("another file", with(&file, Answer::File(other.clone())), &format!("is to have the sum {}", sum(&good))),
        ("another sum", with(&list, Answer::File(format!("{}  {file}\n", sum(b"")).into())), &sum(&good)),
        ("a page as the list", with(&list, Answer::File(page.clone())), "it begins with `<!DOCTYPE html>`"),
        ("a page as the file", with(&file, Answer::File(page.clone())), "is to have the sum"),
        ("a page with its sum", published(&page), "is no archive"),
        ("another version", published(&other), "is to be version 3.22.0, but `helm version --short` says `v3.21.9`"),
        ("another processor", published(&helm_archive(&foreign(helm.clone()))), "but is one for another processor"),
        ("no program", published(&helm_archive(b"#!/bin/sh\necho v3.22.0\n")), "but begins with `#!/bin/sh`"),
        ("no such member", published(&archive(&[("helm", &helm)])), &format!("has no {}", member())),
        ("a link as the member", published(&linked), "is no file"),
        ("half an archive", published(&good[..good.len() / 2]), "is no archive"),
        ("an address without TLS", with(&file, Answer::Redirect("http://objects.example.com/x".into())), "without TLS"),
    ];
    thread::scope(|scope| {
        for (name, files, why) in &cases {
            scope.spawn(move || {
                let site = Site::new(Way::Open, files.clone());
                let said = site.build("helm", "download");
                assert!(!said.ok && site.world.builds() == 0, "{name}: {}", said.text);
                said.has(&["helm", why, "BERTH_BINARIES=build"]);
                assert_eq!(site.world.files(), [""; 0], "{name}");

                let said = site.build("helm", "auto");
                assert!(said.ok && site.world.builds() == 1, "{name}: {}", said.text);
                said.has(&[why, "; builds it instead\n"]);
                assert!(!said.text.contains("no other address"), "{name}: {}", said.text);
                assert_eq!(site.world.files(), [HELM], "{name}");
                assert_eq!(site.content(HELM), b"#!/bin/sh\necho built\n", "{name}");
            });
        }
    });
}

/// Refused, a page of a proxy, no TLS, a CA that nobody knows: one address is asked, and all else is built.
#[test]
fn after_a_failure_to_connect_no_other_address_is_asked() {
    for (way, why) in [(Way::Page, "403"), (Way::Portal, "no connection (")] {
        let site = Site::new(way, HashMap::new());
        let said = said(&site.command("helm", "auto").arg("cni-plugins").output().unwrap());
        assert!(said.ok, "{}", said.text);
        said.has(&["github.com through the proxy 127.0.0.1:", why, "; builds it instead, and asks no other address\n"]);
        assert_eq!(said.text.matches("instead").count(), 1, "{}", said.text);
        assert!(!said.text.contains("secret"), "{}", said.text);
        assert_eq!(site.publishers.asked(), ["github.com"]);
        assert_eq!((site.world.files().len(), site.world.builds()), (8, 8));

        let said = site.build("crane", "download");
        assert!(said.ok && site.publishers.asked().is_empty(), "nobody offers it: it is built. {}", said.text);
    }
    // A certificate of a CA that this machine does not know.
    let site = Site::new(Way::Open, published(b""));
    fs::copy(Site::new(Way::Open, HashMap::new()).world.path("ca.pem"), site.world.path("ca.pem")).unwrap();
    let refused = site.build("helm", "download");
    assert!(!refused.ok && site.world.files().is_empty());
    refused.has(&["get.helm.sh", "certificate", "BERTH_BINARIES=build"]);
    // A proxy that is not there, and a value that is none.
    for proxy in ["http://127.0.0.1:1", "no proxy"] {
        let site = Site::new(Way::Open, HashMap::new());
        let said = said(&site.command("helm", "auto").env("HTTPS_PROXY", proxy).output().unwrap());
        assert!(said.ok && site.world.builds() == 1, "{}", said.text);
        said.has(&["and asks no other address"]);
    }
}

#[test]
fn an_address_has_five_seconds_to_connect() {
    let site = Site::new(Way::Silent, HashMap::new());
    let start = Instant::now();
    let said = said(&site.command("helm", "auto").arg("cni-plugins").output().unwrap());
    let took = start.elapsed();
    assert!(said.ok && site.world.builds() == 8 && site.publishers.asked().len() == 1, "{}", said.text);
    said.has(&["no connection within 5 s; builds it instead, and asks no other address"]);
    assert!(took > Duration::from_secs(4) && took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn two_runs_at_once_fetch_once() {
    let mut files = published(&helm_archive(&program(VERSION, 100_000)));
    let slow = match files.remove(&helm_address()) {
        Some(Answer::File(file)) => Answer::Slow(file),
        other => unreachable!("{other:?}"),
    };
    files.insert(helm_address(), slow);
    let site = Site::new(Way::Open, files);
    let both = [site.command("helm", "auto").spawn().unwrap(), site.command("helm", "auto").spawn().unwrap()];
    for child in both {
        let said = said(&child.wait_with_output().unwrap());
        assert!(said.ok, "{}", said.text);
    }
    assert_eq!(site.publishers.asked().iter().filter(|address| **address == helm_address()).count(), 1);
    assert_eq!(site.world.files(), [HELM]);
}

#[test]
fn a_run_that_is_killed_leaves_nothing_that_counts_and_the_next_one_tidies_up() {
    let archive = helm_archive(&program(VERSION, 100_000));
    let mut files = published(&archive);
    files.insert(helm_address(), Answer::Slow(archive.clone()));
    let site = Site::new(Way::Open, files);
    let mut killed = site.command("helm", "auto").spawn().unwrap();
    // Amid the file: its server pauses for two seconds.
    while site.world.files().is_empty() {
        assert!(killed.try_wait().unwrap().is_none(), "it ended before it was killed");
        thread::sleep(Duration::from_millis(20));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let left = site.world.files();
    assert!(left.len() == 1 && left[0].starts_with("build/helm-3.22.0/staging-"), "{left:?}");
    let said = site.build("helm", "auto");
    assert!(said.ok, "{}", said.text);
    assert_eq!(site.world.files(), [HELM]);
}

#[test]
fn build_asks_nobody_and_what_is_neither_word_nor_place_is_refused() {
    let site = Site::new(Way::Open, HashMap::new());
    for word in ["biuld", "/no/such/folder", "ftp://example.com"] {
        let said = site.build("helm", word);
        assert!(!said.ok && site.world.files().is_empty());
        said.has(&["BERTH_BINARIES", word.split(':').next().unwrap()]);
    }
    let said = site.build("helm", "build");
    assert!(said.ok && site.publishers.asked().is_empty() && site.world.builds() == 1, "{}", said.text);
    said.has(&["to build: 1, which takes some 2 min", " built in "]);
}
