//! The real binary of every minor accepts what its templates render: each flag exists, is not deprecated, and its value parses.
//!
//! The binaries come from `$BERTH_CACHE/bin` (default `~/.cache/berth/bin`): `kubernetes/v<version>/` and `etcd/v<version>/`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::{Command, Stdio},
};

use crate::fixtures::{Fixture, args, everything, minimal};
use berth_api::{ClusterSpec, common::Arg};
use berth_render::{Binary, Catalog, FLAGS, Flag, Source, TemplateSet, extra_args, names_a_file, render_apiserver};

/// `make test` asks the binaries of the oldest and the newest minor. A minor in between could fail where they do not only by an argument
/// that one of them has not got; of those there is none, see [`a_minor_in_between_renders_what_both_neighbours_do`].
const ENDS: [&str; 2] = ["1.34.4", "1.36.3"];
const BETWEEN: [&str; 1] = ["1.35.4"];
const ETCD: [&str; 2] = ["3.5.35", "3.6.16"];

/// Flags that templates set and users may set again: defaults of taste, or where more is not worse.
const OVERRIDABLE: &[&str] = &[
    "allow-privileged",
    "auto-compaction-mode",
    "auto-compaction-retention",
    "cipher-suites",
    "controller-shutdown-timeout",
    "controllers",
    "enable-admission-plugins",
    "enable-pprof",
    "experimental-compact-hash-check-enabled",
    "experimental-initial-corrupt-check",
    "feature-gates",
    "goaway-chance",
    "kube-api-burst",
    "kube-api-qps",
    "leader-elect-lease-duration",
    "leader-elect-renew-deadline",
    "leader-elect-retry-period",
    "profiling",
    "service-account-extend-token-expiration",
    "service-account-lookup",
    "terminated-pod-gc-threshold",
    "tls-cipher-suites",
    "tls-curve-preferences",
    "tls-min-version",
];

fn binary(component: Binary, version: &str) -> PathBuf {
    let cache = std::env::var_os("BERTH_CACHE").map(PathBuf::from);
    let cp_namespace = std::env::var_os("HOME").map(|cp_namespace| PathBuf::from(cp_namespace).join(".cache/berth"));
    let cache = cache.or(cp_namespace).expect("HOME or BERTH_CACHE is set");
    let folder = if component == Binary::Etcd { "etcd" } else { "kubernetes" };
    let path = cache.join("bin").join(folder).join(format!("v{version}")).join(component.name());
    assert!(path.exists(), "{} is missing: build the binaries of all minors first (make binaries)", path.display());
    path
}

fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("the binary runs");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn help(component: Binary, version: &str) -> String {
    output(Command::new(binary(component, version)).arg("--help"))
}

/// The flags that a binary knows, with what it says about them.
fn known(component: Binary, version: &str) -> BTreeMap<String, String> {
    let help = help(component, version);
    let mut flags: BTreeMap<String, String> = BTreeMap::new();
    let mut current = None;
    for line in help.lines() {
        let text = line.trim_start();
        // `-v, --v Level` has a short form before the long one.
        let flag = text.split_once("--").filter(|(before, _)| before.is_empty() || before.starts_with('-'));
        if let Some((_, rest)) = flag.filter(|_| line.starts_with(' ')) {
            let name = rest.split([' ', '=']).next().unwrap_or_default();
            current = Some(name.to_owned());
        }
        if let Some(current) = &current {
            flags.entry(current.clone()).or_default().push_str(text);
        }
    }
    assert!(flags.len() > 50, "{component:?} {version}: --help was not understood: {} flags", flags.len());
    flags
}

fn all() -> Vec<&'static str> {
    ENDS.into_iter().chain(BETWEEN).collect()
}

type Rendered = Vec<(Binary, &'static str, Fixture)>;

fn control_plane() -> impl Iterator<Item = Binary> {
    Binary::ALL.into_iter().filter(|component| *component != Binary::Etcd)
}

fn of_kubernetes(versions: &[&'static str]) -> Rendered {
    let of = |version| control_plane().map(move |component| (component, version));
    let fixtures = |(component, version)| [minimal, everything].map(|f| (component, version, f(version, "3.6.16")));
    versions.iter().copied().flat_map(of).flat_map(fixtures).collect()
}

fn of_etcd() -> Rendered {
    ETCD.into_iter()
        .flat_map(|version| [minimal, everything].map(|f| (Binary::Etcd, version, f("1.36.3", version))))
        .collect()
}

/// What `make test` asks binaries about.
fn asked() -> Rendered {
    of_kubernetes(&ENDS).into_iter().chain(of_etcd()).collect()
}

fn name(arg: &str) -> &str {
    arg.trim_start_matches('-').split('=').next().unwrap_or_default()
}

#[test]
fn every_flag_exists_and_is_not_deprecated() {
    exist(asked());
}

#[test]
fn every_value_parses() {
    parse(asked());
}

#[test]
#[ignore = "make test-all: the binaries of that minor take minutes to build, and its neighbours' are asked"]
fn flags_and_values_of_a_minor_in_between_are_taken() {
    exist(of_kubernetes(&BETWEEN));
    parse(of_kubernetes(&BETWEEN));
    of_the_table(&all());
}

/// What the first step of a change of the minor runs with.
#[test]
fn every_component_can_emulate_the_minor_before_it() {
    for (version, before) in [("1.36.3", "1.35"), ("1.34.4", "1.33")] {
        for component in control_plane() {
            let known = known(component, version);
            let help = known.get("emulated-version").unwrap_or_else(|| panic!("{} {version}", component.name()));
            let (_, range) = help.split_once("kube=").filter(|_| help.contains("..")).expect("a range of minors");
            let range = help.rsplit_once("Options are:").map_or(range, |(_, options)| options);
            let (least, _) = range.trim().trim_start_matches("kube=").split_once("..").expect("the least minor");
            let minor = |text: &str| text.split_once('.').and_then(|(_, minor)| minor.parse::<u32>().ok());
            assert!(
                minor(least).is_some_and(|least| Some(least) <= minor(before)),
                "{} {version}: {help}",
                component.name()
            );
        }
    }
}

fn exist(rendered: Rendered) {
    let mut seen = BTreeMap::new();
    for (component, version, fixture) in rendered {
        let known = seen.entry((component, version)).or_insert_with(|| known(component, version));
        for arg in args(&fixture.component(component).expect("renders")) {
            let help = known.get(name(&arg));
            let help = help.unwrap_or_else(|| panic!("{} {version} does not know {arg}", component.name()));
            let deprecated = help.contains("DEPRECATED") || help.contains("Deprecated in v");
            assert!(!deprecated, "{} {version}: {arg} is deprecated: {help}", component.name());
        }
    }
}

/// With the rendered command line and then a flag that does not exist: whoever complains about that one has parsed all before it.
fn parse(rendered: Rendered) {
    const PROBE: &str = "berth-no-such-flag";
    for (component, version, fixture) in rendered {
        let mut command = Command::new(binary(component, version));
        command.args(args(&fixture.component(component).expect("renders"))).arg(format!("--{PROBE}"));
        let output = output(&mut command);
        let understood = [format!("unknown flag: --{PROBE}"), format!("not defined: -{PROBE}")];
        let errors = || output.lines().filter(|line| line.contains("rror")).collect::<Vec<_>>();
        assert!(understood.iter().any(|text| output.contains(text)), "{} {version}: {:?}", component.name(), errors());
        assert!(!output.contains("has been deprecated"), "{} {version}: {output}", component.name());
    }
}

#[test]
fn every_rendered_flag_is_owned_or_listed() {
    let mut used = BTreeSet::new();
    for (component, version, mut fixture) in of_kubernetes(&all()).into_iter().chain(of_etcd()) {
        fixture.apiserver.workload.extra_args.clear();
        for arg in args(&fixture.component(component).expect("renders")) {
            let name = name(&arg).to_owned();
            let listed = OVERRIDABLE.contains(&name.as_str());
            let source = Flag::find(FLAGS, component, &name).map(|flag| flag.source);
            let good = if listed { source.is_none() } else { matches!(source, Some(Source::Template)) };
            assert!(good, "{} {version}: --{name} is {source:?}, overridable: {listed}", component.name());
            used.insert((component, name));
        }
    }
    let unused: Vec<_> = OVERRIDABLE.iter().filter(|name| !used.iter().any(|(_, used)| used == *name)).collect();
    assert!(unused.is_empty(), "no template sets {unused:?}");
    for flag in FLAGS.iter().filter(|flag| matches!(flag.source, Source::Template)) {
        for component in flag.components {
            let unused: Vec<_> =
                flag.names.iter().filter(|name| !used.contains(&(*component, (**name).to_owned()))).collect();
            assert!(unused.is_empty(), "{}: no template sets {unused:?}", component.name());
        }
    }
}

#[test]
fn every_flag_of_the_table_exists() {
    of_the_table(&ENDS);
}

/// A flag of a field goes to tenants of all minors; of any other it is enough that some minor has it.
fn of_the_table(kubernetes: &[&str]) {
    for component in Binary::ALL {
        let versions = if component == Binary::Etcd { &ETCD } else { kubernetes };
        let helps: Vec<String> = versions.iter().map(|version| help(component, version)).collect();
        for flag in FLAGS.iter().filter(|flag| flag.components.contains(&component)) {
            for name in flag.names {
                let text = format!("--{name}");
                let knows = |help: &&String| {
                    help.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').any(|word| word == text)
                };
                let minors = helps.iter().filter(knows).count();
                let all = matches!(flag.source, Source::Field(_));
                assert!(if all { minors == versions.len() } else { minors > 0 }, "{}: {text}", component.name());
            }
        }
    }
}

/// Flags whose help speaks of files, and whose value names none.
const NO_FILE: &[&str] = &["kube-api-content-type"];

/// A flag whose value names a file has a row, so that no pod is started with a file that it has not got.
#[test]
fn every_flag_that_names_a_file_has_a_row() {
    const WORDS: [&str; 9] =
        ["file", "filename", "files", "directory", "socket", "manifest", "kubeconfig", "filepath", "path"];
    let mut open = BTreeSet::new();
    for (component, version) in control_plane().flat_map(|c| ENDS.map(|version| (c, version))) {
        for (name, help) in known(component, version) {
            let (_, help) = help.split_once(&format!("--{name}")).unwrap_or_default();
            let kind = help.split_whitespace().next().unwrap_or_default();
            let takes_text = ["string", "stringArray", "namedCertKey"].contains(&kind);
            let text = format!("{name} {help}").to_lowercase();
            let speaks = text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| WORDS.contains(&word));
            let has_row = Flag::find(FLAGS, component, &name).is_some() || names_a_file(component, &name);
            if takes_text && speaks && !has_row && !NO_FILE.contains(&&*name) {
                open.insert(format!("{} --{name} {help}", component.name()));
            }
        }
    }
    assert!(open.is_empty(), "add a row to FILES, or to NO_FILE: {open:#?}");
}

/// What comes from a field needs no template: a set of before the field has room for it, too.
#[test]
fn a_flag_with_a_field_reaches_tenants_with_older_templates() {
    const FIELD: &[Flag] = &[Flag {
        components: &[Binary::ApiServer],
        names: &["external-hostname"],
        source: Source::Field(|spec| spec.endpoint.host.iter().cloned().collect()),
        instead: "spec.endpoint.host",
    }];
    let mut data = Catalog::builtin().kubernetes("1.36".parse().expect("a minor")).expect("built in").to_data();
    let text = data.get_mut("apiserver__deployment.yaml.j2").expect("a template");
    *text = text.replace("            - --profiling=false\n", "");
    let older = TemplateSet::from_data(data).expect("a set");
    let mut spec = ClusterSpec::default();
    spec.endpoint.host = Some("acme.example.com".to_owned());
    let own = [Arg { name: "v".to_owned(), value: "2".to_owned() }];
    let mut values = minimal("1.36.3", "3.6.16").apiserver;
    values.workload.extra_args = extra_args(FIELD, Binary::ApiServer, &spec, &own).expect("both are taken");
    let args = args(&render_apiserver(&older, &values).expect("renders"));
    assert!(!args.contains(&"--profiling=false".to_owned()), "{args:#?}");
    assert!(args.ends_with(&["--external-hostname=acme.example.com".to_owned(), "--v=2".to_owned()]), "{args:#?}");
}

/// So whoever asks the binaries of both neighbours learns of no argument less.
#[test]
fn a_minor_in_between_renders_what_both_neighbours_do() {
    let of = |component, version, fixture: fn(&'static str, &'static str) -> Fixture| -> BTreeSet<String> {
        args(&fixture(version, "3.6.16").component(component).expect("renders")).into_iter().collect()
    };
    for (component, fixture) in control_plane().flat_map(|c| [minimal, everything].map(|f| (c, f))) {
        let [oldest, newest] = ENDS.map(|version| of(component, version, fixture));
        for version in BETWEEN {
            let all = of(component, version, fixture);
            let own: Vec<_> = all.iter().filter(|arg| !oldest.contains(*arg) || !newest.contains(*arg)).collect();
            let name = component.name();
            assert!(own.is_empty(), "only {name} {version} can say whether it takes {own:?}: move {version} to ENDS");
        }
    }
}
