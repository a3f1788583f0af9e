//! What a control plane consists of: its programs, and what each is to the others.

use berth_api::version::Version;
use serde::Serialize;

/// The parts of a tenant that Berth runs in pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Binary {
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// etcd.
    Etcd,
}

impl Binary {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::ApiServer, Self::ControllerManager, Self::Scheduler, Self::Etcd];

    /// Name, field and folder.
    fn row(self) -> [&'static str; 3] {
        match self {
            Self::ApiServer => ["kube-apiserver", "apiServer", "apiserver"],
            Self::ControllerManager => ["kube-controller-manager", "controllerManager", "controller-manager"],
            Self::Scheduler => ["kube-scheduler", "scheduler", "scheduler"],
            Self::Etcd => ["etcd", "etcd", "cluster"],
        }
    }

    /// The name of the binary, of its container and of the label `app.kubernetes.io/component`; but for etcd also of the
    /// Deployment.
    pub fn name(self) -> &'static str {
        self.row()[0]
    }

    /// Its part of a `Cluster`'s spec: `spec.<field>`.
    pub fn field(self) -> &'static str {
        self.row()[1]
    }

    /// The folder of its templates.
    pub fn folder(self) -> &'static str {
        self.row()[2]
    }

    /// The tag of its image.
    /// The tag of upstream's image of a version.
    pub fn tag(self, version: Version) -> String {
        match self {
            // Upstream counts its builds of etcd's image; the first is enough, since tags are never moved.
            Self::Etcd => format!("{version}-0"),
            _ => format!("v{version}"),
        }
    }
}

/// What a program is to the others while a release changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It serves the API: a new release begins with it, and ends on the way back.
    Api,
    /// It talks to the API, is never newer, and emulates with it. A release is through once it is.
    Client,
    /// It talks to the API and emulates nothing: it stays at the old release as long as there is a way back. Nothing waits for it.
    Extension,
}

/// The programs of a control plane, beside its etcd.
#[derive(Debug)]
pub struct Distribution {
    /// The first one serves the API.
    pub programs: &'static [(Binary, Role)],
    /// Signs client certificates of kubelets; `berth-approve` runs beside it.
    pub signer: Binary,
}

/// Upstream's.
pub static KUBERNETES: Distribution = Distribution {
    programs: &[
        (Binary::ApiServer, Role::Api),
        (Binary::ControllerManager, Role::Client),
        (Binary::Scheduler, Role::Client),
    ],
    signer: Binary::ControllerManager,
};

impl Distribution {
    /// The program that serves the API.
    pub fn api(&self) -> Binary {
        self.programs[0].0
    }

    /// Those that a release changes after the API, and waits for.
    pub fn clients(&self) -> impl Iterator<Item = Binary> {
        self.programs.iter().filter(|(_, role)| *role == Role::Client).map(|(binary, _)| *binary)
    }

    /// Those that a release waits for, in the order in which they change.
    pub fn awaited(&self) -> impl Iterator<Item = Binary> {
        std::iter::once(self.api()).chain(self.clients())
    }
}
