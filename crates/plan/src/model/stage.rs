//! A plan, and its stages: what each waits for, and what is to be done for it.

use super::action::Action;
use berth_api::conditions::Reason;
use berth_render::{Binary, ObjectKey, RenderError};
use serde::Serialize;

/// What a stage is about. The order is the order in which a tenant comes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum StageId {
    /// The spec itself.
    Spec,
    /// The control-plane namespace and the operator's rights in it.
    Namespace,
    /// The record of the release.
    Revision,
    /// The Service of the API and its address.
    Endpoint,
    /// CAs, keys and certificates.
    Pki,
    /// etcd.
    Etcd,
    /// A component of the control plane.
    ControlPlane(Binary),
    /// Kubeconfigs that are handed out.
    Kubeconfig,
    /// What makes the tenant known elsewhere.
    Registration,
    /// Objects inside the tenant.
    Tenant,
    /// A backup of an etcd.
    Backup,
    /// A restore of an etcd.
    Restore,
    /// An app in a tenant.
    App,
    /// Taking everything down.
    Deletion,
}

impl StageId {
    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Namespace => "namespace",
            Self::Revision => "revision",
            Self::Endpoint => "endpoint",
            Self::Pki => "pki",
            Self::Etcd => "etcd",
            Self::ControlPlane(component) => component.name(),
            Self::Kubeconfig => "kubeconfig",
            Self::Registration => "registration",
            Self::Tenant => "tenant",
            Self::Backup => "backup",
            Self::Restore => "restore",
            Self::App => "app",
            Self::Deletion => "deletion",
        }
    }
}

/// The state of a stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum State {
    /// Done; nothing to do.
    Ready,
    /// Something that comes by itself is awaited. Not an error.
    Waiting {
        /// Why, for machines.
        reason: Reason,
        /// What for, for people.
        on: String,
    },
    /// It goes on, and what it waits for is said in words of its own, such as those of another controller. Not an error.
    Reported {
        /// Why, for machines.
        reason: Reason,
        /// The words.
        message: String,
    },
    /// Nothing goes on until a person does something.
    Blocked {
        /// Why, for machines.
        reason: Reason,
        /// What is wrong and the way out.
        message: String,
    },
    /// Not asked for.
    Disabled,
}

impl State {
    /// Waiting for `on`.
    pub fn waiting(on: impl Into<String>) -> Self {
        Self::Waiting { reason: Reason::Waiting, on: on.into() }
    }
    /// Blocked.
    pub fn blocked(reason: Reason, message: impl Into<String>) -> Self {
        Self::Blocked { reason, message: message.into() }
    }
    /// True if done or not asked for.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Ready | Self::Disabled)
    }
    /// True if what is awaited comes by itself.
    pub fn goes_on(&self) -> bool {
        matches!(self, Self::Waiting { .. } | Self::Reported { .. })
    }
    /// Reason and text, if not done.
    pub fn problem(&self) -> Option<(Reason, &str)> {
        match self {
            Self::Waiting { reason, on } => Some((*reason, on)),
            Self::Reported { reason, message } | Self::Blocked { reason, message } => Some((*reason, message)),
            Self::Ready | Self::Disabled => None,
        }
    }
    /// Says more of what is not done for that reason.
    pub fn add(&mut self, of: Reason, more: &str) {
        if let Self::Waiting { reason, on: text }
        | Self::Reported { reason, message: text }
        | Self::Blocked { reason, message: text } = self
            && *reason == of
        {
            text.push_str("; ");
            text.push_str(more);
        }
    }
    /// [`State::problem`] as a sentence for people.
    pub fn sentence(&self) -> Option<(Reason, String)> {
        let (reason, text) = self.problem()?;
        let waits = matches!(self, Self::Waiting { .. });
        Some((reason, if waits { format!("waiting for {text}") } else { text.to_owned() }))
    }
}

impl From<RenderError> for State {
    fn from(bug: RenderError) -> Self {
        Self::blocked(Reason::Error, bug.to_string())
    }
}

/// Reasons that do not go away by waiting.
pub const LASTING: [Reason; 9] = [
    Reason::ImageUnavailable,
    Reason::ContainerFailing,
    Reason::Unschedulable,
    Reason::Rejected,
    Reason::QuorumLost,
    Reason::EtcdAlarm,
    Reason::NotLeading,
    Reason::WebhookInTheWay,
    Reason::AppsNotReady,
];

/// One stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stage {
    /// What it is about.
    pub id: StageId,
    /// Which one it is, where there are several of that id: what fails in one holds up no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<ObjectKey>,
    /// Its state.
    pub state: State,
    /// What belongs to it, also while it waits; nothing here is an orphan.
    pub owns: Vec<ObjectKey>,
    /// What to do now.
    pub actions: Vec<Action>,
    /// What is wrong with objects of it, and holds up nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Stage {
    /// A stage without actions.
    pub fn new(id: StageId, state: State) -> Self {
        Self { id, of: None, state, owns: vec![], actions: vec![], notes: vec![] }
    }
    /// Whether it is not done for one of these reasons.
    pub fn is_for(&self, reasons: &[Reason]) -> bool {
        self.state.problem().is_some_and(|(reason, _)| reasons.contains(&reason))
    }
    /// What is not done, with the stage's name, unless the text begins with it.
    pub fn sentence(&self) -> Option<(Reason, String)> {
        let (reason, text) = self.state.sentence()?;
        let name = self.id.name();
        Some((reason, if text.starts_with(name) { text } else { format!("{name}: {text}") }))
    }
}

/// What to do for one tenant now, and why not more.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// In the order of coming up.
    pub stages: Vec<Stage>,
    /// Orphans to delete, once everything else is settled.
    pub prune: Vec<Action>,
    /// The finalizer may go.
    pub finished: bool,
    /// What the platform team alone is told, such as names of its nodes: in the operator's log, and in no status.
    #[serde(skip)]
    pub for_platform: Vec<String>,
}

impl Plan {
    /// That stage.
    pub fn stage(&self, id: StageId) -> Option<&Stage> {
        self.stages.iter().find(|s| s.id == id)
    }
    /// All actions in order.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.stages.iter().flat_map(|s| &s.actions).chain(&self.prune)
    }
    /// What is wrong with single objects, and holds up nothing; as one text, if anything is.
    pub fn notes(&self) -> Option<String> {
        let all: Vec<_> = self.stages.iter().flat_map(|s| &s.notes).map(String::as_str).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
    /// True if there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.actions().next().is_none()
    }
    /// The first blocked stage.
    pub fn blocked(&self) -> Option<(&Stage, Reason, &str)> {
        self.stages.iter().find_map(|s| match &s.state {
            State::Blocked { reason, message } => Some((s, *reason, message.as_str())),
            _ => None,
        })
    }
    /// The first of the worst, as a sentence: a stage that is blocked; or else one that waits for what does not come by waiting; or
    /// else one that waits.
    pub fn first_problem(&self) -> Option<(Reason, String)> {
        let first = self.blocked().map(|(stage, ..)| stage).or_else(|| self.lasting());
        first.or_else(|| self.stages.iter().find(|s| !s.state.is_done())).and_then(Stage::sentence)
    }
    /// The first stage that waits for what does not come by waiting.
    pub fn lasting(&self) -> Option<&Stage> {
        self.stages.iter().find(|s| s.is_for(&LASTING))
    }
}
