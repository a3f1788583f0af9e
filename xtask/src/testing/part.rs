//! Parts of test programs: what is run at once, and counts as a step.

use std::collections::BTreeMap;
use std::process::Command;

use super::E2E;
use super::binaries::Stage;
use super::program::Program;
use crate::crates::PURE;
use crate::shell::Result;

/// What takes longest begins first, so that nothing is waited for at the end.
const LONGEST: [&str; 5] = [
    "berth-operator test alone",
    "berth-operator test shared",
    "berth-operator test processes",
    "berth-etcdio test it",
    "berth-cli test it",
];

/// Some tests of a program, or all.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) program: Program,
    /// The modules that it consists of. None: it is the whole program.
    modules: Vec<String>,
    /// Their tests.
    tests: Vec<String>,
    pub(super) needs: Stage,
}

impl Part {
    /// All of a program, which needs no more than its target says.
    pub(super) fn whole(program: Program) -> Self {
        let needs = needs(&program, "");
        Self { program, modules: vec![], tests: vec![], needs }
    }

    /// A program with pods is run module by module: each is a step, and a run that is cut off goes on behind the last one that passed.
    /// Others are run as a whole, but for modules that wait for more binaries than the rest, and than are `there`.
    pub(super) fn of(program: Program, there: Stage) -> Result<Vec<Self>> {
        let tests = program.tests()?;
        Ok(Self::split(program, tests, there))
    }

    fn split(program: Program, tests: Vec<String>, there: Stage) -> Vec<Self> {
        let mut parts: BTreeMap<(Stage, String), (Vec<String>, Vec<String>)> = BTreeMap::new();
        for test in tests {
            let module = test.split_once("::").map_or("", |(module, _)| module).to_owned();
            let group = if program.has_pods() { module.clone() } else { String::new() };
            let needs = match needs(&program, &module) {
                Stage::Nothing => Stage::Nothing,
                stage => stage.max(there),
            };
            let (modules, tests) = parts.entry((needs, group)).or_default();
            if !modules.contains(&module) {
                modules.push(module);
            }
            tests.push(test);
        }
        if parts.len() < 2 {
            let needs = parts.into_keys().next().map_or_else(|| needs(&program, ""), |(needs, _)| needs);
            return vec![Self { needs, ..Self::whole(program) }];
        }
        let part = |((needs, _), (modules, tests))| Self { program: program.clone(), modules, tests, needs };
        parts.into_iter().map(part).collect()
    }

    pub(super) fn name(&self) -> String {
        [&[self.program.name()][..], &self.modules].concat().join(" ")
    }

    /// Runs its tests that are not ignored.
    pub(super) fn command(&self) -> Command {
        let exact = if self.tests.is_empty() { None } else { Some("--exact") };
        let arguments: Vec<&str> = exact.into_iter().chain(self.tests.iter().map(|test| &**test)).collect();
        self.program.command(&arguments)
    }

    /// How many tests it has.
    pub(super) fn len(&self) -> Result<u32> {
        let len = if self.tests.is_empty() { self.program.tests()?.len() } else { self.tests.len() };
        Ok(u32::try_from(len)?)
    }

    /// Those with the least are run first.
    pub(super) fn order(&self) -> (bool, usize, String) {
        let name = self.program.name();
        let place = LONGEST.iter().position(|long| *long == name).unwrap_or(LONGEST.len());
        (self.program.makes_a_cluster(), place, self.name())
    }
}

/// What has to be built of Kubernetes before a module of a program can run.
fn needs(program: &Program, module: &str) -> Stage {
    if !program.is_integration() {
        return Stage::Nothing;
    }
    match (&*program.package, module) {
        (E2E, "versions" | "conformance")
        | ("berth-render", "flags")
        | ("berth-plan-cluster", "jwt")
        | ("berth-operator", "etcd_versions" | "minor")
        // An S3 server; and tests that leave out a version that is not there.
        | ("berth-backup" | "berth-etcdio", _) => Stage::Core,
        // They make what they fetch.
        ("berth-devcluster", "binaries") => Stage::Nothing,
        (E2E | "berth-devcluster", _) => Stage::Cluster,
        (package, _) if PURE.contains(&package) => Stage::Nothing,
        _ => Stage::Server,
    }
}

#[cfg(test)]
mod tests {
    use super::super::program::named;
    use super::*;

    fn split(package: &str, target: &str, tests: &[&str], there: Stage) -> Vec<(String, Stage, usize)> {
        let tests = tests.iter().map(ToString::to_string).collect();
        let parts = Part::split(named(package, target), tests, there);
        parts.into_iter().map(|part| (part.name(), part.needs, part.tests.len())).collect()
    }

    #[test]
    fn one_with_pods_is_run_module_by_module() {
        let parts = split(E2E, "test usual", &["create::a", "versions::b", "versions::c"], Stage::Nothing);
        let of = |name: &str, needs, tests| (format!("berth-e2e test usual {name}"), needs, tests);
        assert_eq!(parts, [of("create", Stage::Cluster, 1), of("versions", Stage::Core, 2)]);
    }

    #[test]
    fn others_are_run_as_a_whole_but_for_what_waits_longer() {
        let whole = split("berth-operator", "test alone", &["idle::a", "faults::b::c"], Stage::Nothing);
        assert_eq!(whole, [("berth-operator test alone".to_owned(), Stage::Server, 0)]);
        let parts = split("berth-render", "test it", &["digests::a", "flags::b", "limits::c"], Stage::Server);
        let (rest, flags) = ("berth-render test it digests limits".to_owned(), "berth-render test it flags".to_owned());
        assert_eq!(parts, [(rest, Stage::Nothing, 2), (flags, Stage::Core, 1)]);
        let alone = |there| split("berth-operator", "test alone", &["idle::a", "etcd_versions::b"], there);
        assert_eq!((alone(Stage::Server).len(), alone(Stage::Core).len()), (2, 1), "all that it waits for is there");
        let lib = split("berth-e2e", "lib berth_e2e", &["images::tests::a", "pages::tests::b"], Stage::Nothing);
        assert_eq!(lib, [("berth-e2e lib berth_e2e".to_owned(), Stage::Nothing, 0)]);
    }

    #[test]
    fn what_needs_only_a_processor_waits_for_no_binaries() {
        let needs = |package: &str, target: &str, module: &str| needs(&named(package, target), module);
        assert_eq!(needs("berth-plan", "lib berth_plan", "cluster"), Stage::Nothing);
        assert_eq!(needs("berth-operator", "lib berth_operator", "run"), Stage::Nothing);
        assert_eq!(needs("berth-operator", "test alone", "faults"), Stage::Server);
        assert_eq!(needs("berth-operator", "test shared", "minor"), Stage::Core);
        assert_eq!(needs(E2E, "test usual", "create"), Stage::Cluster);
        assert_eq!(needs(E2E, "test usual", "versions"), Stage::Core);
    }

    #[test]
    fn what_takes_longest_begins_first_and_what_calls_make_is_last() {
        let programs = [(E2E, "test make"), ("berth-plan", "lib berth_plan"), ("berth-operator", "test alone")];
        let mut parts = programs.map(|(package, target)| Part::whole(named(package, target)));
        parts.sort_by_key(Part::order);
        assert_eq!(parts.map(|part| part.program.target), ["test alone", "lib berth_plan", "test make"]);
    }
}
