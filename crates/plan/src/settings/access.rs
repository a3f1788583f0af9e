//! One login for all tenants: the chart's value `access`.

use serde::Deserialize;

/// Where `berth-access` is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Its namespace, in which it and the operator find each other.
    pub namespace: String,
    /// Host and port at which it reaches the platform's gateway, and through that the tenants behind it. Default: it reaches these as all others, at
    /// their Services.
    pub gateway: Option<String>,
}

/// As the file has it.
#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
pub(super) struct OfFile {
    namespace: String,
    gateway: Option<String>,
}

impl OfFile {
    pub(super) fn read(self) -> Result<Access, String> {
        let Self { namespace, gateway } = self;
        if namespace.is_empty() {
            return Err("access.namespace: it is missing. Set the namespace of berth-access".to_owned());
        }
        Ok(Access { namespace, gateway })
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::Config;

    #[test]
    fn it_is_somewhere_or_there_is_none() {
        let read = |text: &str| Config::parse(text).map(|config| config.access);
        assert_eq!(read("access:"), Ok(None));
        let behind = read("access: {namespace: berth-access, gateway: 'gw.svc:443'}").unwrap().unwrap();
        assert_eq!((&*behind.namespace, behind.gateway.as_deref()), ("berth-access", Some("gw.svc:443")));
        assert!(read("access: {}").unwrap_err().starts_with("access.namespace: it is missing. Set "));
    }
}
