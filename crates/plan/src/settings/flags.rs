//! The operator's flags on which plans depend. Whoever starts the operator gives them as arguments or in its environment; the command line
//! reads them there.

use berth_api::common::AgentDelivery;
use std::str::FromStr;

/// A flag of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Its name, without `--`.
    pub name: &'static str,
    /// The variable of the environment that says it where no argument does.
    pub variable: &'static str,
    /// What it is where neither does.
    pub default: &'static str,
}

/// Image of Berth's agent for new tenants. The operator does not start without; its default is for whoever has no operator to ask.
pub const AGENT_IMAGE: Flag =
    Flag { name: "agent-image", variable: "BERTH_AGENT_IMAGE", default: "berth.dev/agent:dev" };
/// How the agent gets into the pods of new tenants: a [`Delivery`].
pub const AGENT_DELIVERY: Flag = Flag { name: "agent-delivery", variable: "BERTH_AGENT_DELIVERY", default: "Auto" };
/// Image of `berth-backup`.
pub const BACKUP_IMAGE: Flag = Flag { name: "backup-image", variable: "BERTH_BACKUP_IMAGE", default: "" };
/// Registry with upstream's images. Empty: registry.k8s.io.
pub const IMAGE_REGISTRY: Flag = Flag { name: "image-registry", variable: "BERTH_IMAGE_REGISTRY", default: "" };
/// The operator's namespace.
pub const NAMESPACE: Flag = Flag { name: "namespace", variable: "POD_NAMESPACE", default: "berth-system" };
/// The operator's `ServiceAccount`. Empty: no `RoleBinding` is created.
pub const SERVICE_ACCOUNT: Flag = Flag { name: "service-account", variable: "BERTH_SERVICE_ACCOUNT", default: "" };
/// Lifetime of leaf certificates, in minutes.
pub const LEAF_LIFETIME: Flag =
    Flag { name: "leaf-lifetime-minutes", variable: "BERTH_LEAF_LIFETIME_MINUTES", default: "129600" };
/// Path of the configuration file. Empty: there is none, and its defaults hold.
pub const CONFIG: Flag = Flag { name: "config", variable: "BERTH_CONFIG", default: "" };

/// All of these.
pub const ALL: [Flag; 8] =
    [AGENT_IMAGE, AGENT_DELIVERY, BACKUP_IMAGE, IMAGE_REGISTRY, NAMESPACE, SERVICE_ACCOUNT, LEAF_LIFETIME, CONFIG];

/// What these flags say, but for [`CONFIG`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flags {
    /// [`AGENT_IMAGE`].
    pub agent_image: String,
    /// [`AGENT_DELIVERY`].
    pub agent_delivery: Delivery,
    /// [`BACKUP_IMAGE`].
    pub backup_image: String,
    /// [`IMAGE_REGISTRY`].
    pub image_registry: String,
    /// [`NAMESPACE`].
    pub namespace: String,
    /// [`SERVICE_ACCOUNT`].
    pub service_account: String,
    /// [`LEAF_LIFETIME`].
    pub leaf_lifetime_minutes: i64,
}

impl Flags {
    /// From what is said for each; and those of which the operator does not take what is said, with that. They are as by default.
    pub fn read(said: impl Fn(Flag) -> Option<String>) -> (Self, Vec<(Flag, String)>) {
        let mut wrong = vec![];
        let text = |flag: Flag| said(flag).unwrap_or_else(|| flag.default.to_owned());
        let flags = Self {
            agent_image: text(AGENT_IMAGE),
            agent_delivery: parsed(AGENT_DELIVERY, said(AGENT_DELIVERY), Delivery::default(), &mut wrong),
            backup_image: text(BACKUP_IMAGE),
            image_registry: text(IMAGE_REGISTRY),
            namespace: text(NAMESPACE),
            service_account: text(SERVICE_ACCOUNT),
            leaf_lifetime_minutes: parsed(LEAF_LIFETIME, said(LEAF_LIFETIME), LEAF_MINUTES, &mut wrong),
        };
        (flags, wrong)
    }
}

/// The default of [`LEAF_LIFETIME`].
const LEAF_MINUTES: i64 = 90 * 24 * 60;

fn parsed<T: FromStr>(flag: Flag, said: Option<String>, default: T, wrong: &mut Vec<(Flag, String)>) -> T {
    let Some(said) = said else { return default };
    said.parse().unwrap_or_else(|_| {
        wrong.push((flag, said));
        default
    })
}

/// How the agent gets into the pods of new tenants. As text: a name in [`Delivery::ALL`], whatever the case of its letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// As an image volume if all nodes can do it when the operator starts, or else by an init container.
    #[default]
    Auto,
    /// Always so.
    Always(AgentDelivery),
}

impl Delivery {
    /// All there are.
    pub const ALL: [Self; 3] =
        [Self::Auto, Self::Always(AgentDelivery::InitContainer), Self::Always(AgentDelivery::ImageVolume)];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "Auto",
            Self::Always(delivery) => delivery.as_str(),
        }
    }
}

impl FromStr for Delivery {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|delivery| delivery.as_str().eq_ignore_ascii_case(text)).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_says_is_the_default_and_what_the_operator_does_not_take_is_named() {
        let (silent, wrong) = Flags::read(|_| None);
        assert_eq!(wrong, []);
        assert_eq!(
            Flags::read(|flag| Some(flag.default.to_owned())),
            (silent.clone(), vec![]),
            "each default is taken"
        );
        let (all, wrong) = Flags::read(|flag| match flag {
            AGENT_DELIVERY => Some("imagevolume".into()),
            LEAF_LIFETIME => Some("a day".into()),
            flag => Some(flag.name.into()),
        });
        let wanted = Flags {
            agent_image: "agent-image".into(),
            agent_delivery: Delivery::Always(AgentDelivery::ImageVolume),
            backup_image: "backup-image".into(),
            image_registry: "image-registry".into(),
            namespace: "namespace".into(),
            service_account: "service-account".into(),
            leaf_lifetime_minutes: silent.leaf_lifetime_minutes,
        };
        let asked = std::cell::RefCell::new(vec![CONFIG]);
        let _ = Flags::read(|flag| {
            asked.borrow_mut().push(flag);
            None
        });
        assert!(ALL.iter().all(|flag| asked.borrow().contains(flag)) && asked.borrow().len() == ALL.len());
        assert_eq!((all, wrong), (wanted, vec![(LEAF_LIFETIME, "a day".to_owned())]));
    }
}
