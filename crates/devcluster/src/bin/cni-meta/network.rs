//! A network's configuration as CNI's runtimes read it: one plugin, or a list of plugins that are called one after the other.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The version that a configuration has which names none.
const DEFAULT_VERSION: &str = "1.0.0";

/// A network: plugins in the order in which they attach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Network {
    /// CNI's name of the network.
    pub(crate) name: String,
    pub(crate) cni_version: String,
    /// Whether its CHECK is to be left out.
    #[serde(default)]
    pub(crate) disable_check: bool,
    /// Each plugin's configuration, without what is added for a call.
    pub(crate) plugins: Vec<Map<String, Value>>,
}

/// What a pod asks of one attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wishes {
    #[serde(default)]
    pub(crate) ips: Vec<String>,
    #[serde(default)]
    pub(crate) mac: Option<String>,
}

/// Reads a network's configuration. One without a name has `default_name`. An error names the field.
pub(crate) fn parse(conf: &Value, default_name: &str) -> Result<Network, String> {
    let Value::Object(conf) = conf else { return Err("it is no JSON object".to_owned()) };
    let text = |field: &str| match conf.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("{field}: a text is wanted")),
    };
    let plugins = match conf.get("plugins") {
        None => vec![conf.clone()],
        Some(Value::Array(list)) if list.is_empty() => return Err("plugins: the list is empty".to_owned()),
        Some(Value::Array(list)) => {
            let object = |(number, plugin): (usize, &Value)| match plugin {
                Value::Object(plugin) => Ok(plugin.clone()),
                _ => Err(format!("plugins[{number}]: it is no JSON object")),
            };
            list.iter().enumerate().map(object).collect::<Result<_, _>>()?
        }
        Some(_) => return Err("plugins: a list is wanted".to_owned()),
    };
    for (number, plugin) in plugins.iter().enumerate() {
        let field = if conf.contains_key("plugins") { format!("plugins[{number}].type") } else { "type".to_owned() };
        match plugin.get("type") {
            Some(Value::String(name)) if !name.is_empty() && !name.contains('/') => {}
            Some(Value::String(name)) if !name.is_empty() => {
                return Err(format!("{field}: `{name}` is no plugin's name"));
            }
            _ => return Err(format!("{field}: it is missing")),
        }
    }
    Ok(Network {
        name: text("name")?.unwrap_or_else(|| default_name.to_owned()),
        cni_version: text("cniVersion")?.unwrap_or_else(|| DEFAULT_VERSION.to_owned()),
        disable_check: conf.get("disableCheck") == Some(&Value::Bool(true)),
        plugins,
    })
}

impl Network {
    /// One plugin's configuration for a call. What a pod asks for goes to plugins that say that they have the capability; whether it
    /// was given is read from the result.
    pub(crate) fn for_call(&self, plugin: &Map<String, Value>, wishes: &Wishes, previous: Option<&Value>) -> Value {
        let mut conf = plugin.clone();
        conf.insert("name".to_owned(), json!(self.name));
        conf.insert("cniVersion".to_owned(), json!(self.cni_version));
        let capabilities = conf.remove("capabilities").unwrap_or_default();
        let asked = [
            ("ips", (!wishes.ips.is_empty()).then(|| json!(wishes.ips))),
            ("mac", wishes.mac.as_ref().map(|mac| json!(mac))),
        ];
        for (name, value) in asked {
            if let Some(value) = value.filter(|_| capabilities[name] == true) {
                let runtime = conf.entry("runtimeConfig").or_insert_with(|| json!({}));
                if !runtime.is_object() {
                    *runtime = json!({});
                }
                runtime[name] = value;
            }
        }
        if let Some(previous) = previous {
            conf.insert("prevResult".to_owned(), previous.clone());
        }
        Value::Object(conf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn macvlan() -> Value {
        json!({"type": "macvlan", "master": "vpc-a", "ipam": {"type": "static"}, "capabilities": {"ips": true}})
    }

    #[test]
    fn one_plugin_is_a_list_of_one_and_takes_the_definitions_name() {
        let network = parse(&macvlan(), "vpc-a").unwrap();
        assert_eq!((&*network.name, &*network.cni_version, network.plugins.len()), ("vpc-a", "1.0.0", 1));
        let list = json!({"cniVersion": "0.4.0", "name": "own", "plugins": [macvlan(), {"type": "tuning"}]});
        let network = parse(&list, "vpc-a").unwrap();
        assert_eq!((&*network.name, &*network.cni_version, network.plugins.len()), ("own", "0.4.0", 2));
    }

    #[test]
    fn capabilities_that_a_plugin_has_become_its_runtime_configuration() {
        let network = parse(&macvlan(), "vpc-a").unwrap();
        let wishes = Wishes { ips: vec!["172.20.0.2/24".to_owned()], mac: Some("02:00:00:00:00:01".to_owned()) };
        let conf = network.for_call(&network.plugins[0], &wishes, None);
        assert_eq!(conf["runtimeConfig"], json!({"ips": ["172.20.0.2/24"]}));
        assert_eq!((&conf["name"], &conf["cniVersion"]), (&json!("vpc-a"), &json!("1.0.0")));
        assert_eq!(conf.get("capabilities"), None);
        assert_eq!(conf.get("prevResult"), None);
        let conf = network.for_call(&network.plugins[0], &Wishes::default(), Some(&json!({"ips": []})));
        assert_eq!(conf.get("runtimeConfig"), None);
        assert_eq!(conf["prevResult"], json!({"ips": []}));
    }

    #[test]
    fn an_error_names_the_field() {
        for (conf, said) in [
            (json!("x"), "it is no JSON object"),
            (json!({}), "type: it is missing"),
            (json!({"type": "../sh"}), "type: `../sh` is no plugin's name"),
            (json!({"plugins": []}), "plugins: the list is empty"),
            (json!({"plugins": [{"type": "a"}, {}]}), "plugins[1].type: it is missing"),
            (json!({"plugins": {}}), "plugins: a list is wanted"),
            (json!({"type": "a", "name": 1}), "name: a text is wanted"),
        ] {
            assert_eq!(parse(&conf, "n").unwrap_err(), said);
        }
    }
}
