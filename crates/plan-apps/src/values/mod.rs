//! Values of an app in one tenant. Those of [`config_maps`] and [`secrets`] count least; those of `spec.valuesTemplate` know the tenant; `spec.values` count most, and
//! are taken as they stand.
//!
//! The operator, and `kubectl berth apps render`, make them here.

#[cfg(test)]
mod catalog;
pub mod config_maps;
mod facts;
mod language;
pub mod secrets;
#[cfg(test)]
mod tests;

pub use facts::{EndpointFacts, NetworkFacts, TenantFacts};

use berth_api::app::{AppRelease, ReadValues};
use berth_api::conditions::Reason;
use berth_plan::State;
use berth_render::merge_fields;
use language::LONGEST;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, machinery};
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// Most that is known of a tenant, in bytes. Labels are its team's.
const KNOWN: usize = 32 << 10;
/// Steps that a template may take.
const FUEL: u64 = 5000;
/// What messages call it.
const FIELD: &str = "spec.valuesTemplate";

/// Why there are no values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Something of the tenant is not known yet: which field.
    Waits(String),
    /// Something is wrong: what, and the way out.
    Wrong(String),
}

impl From<Problem> for State {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Waits(on) => Self::waiting(on),
            Problem::Wrong(why) => Self::blocked(Reason::InvalidSpec, why),
        }
    }
}

/// The values of an app in that tenant, without those of Secrets and ConfigMaps. `read`: what is in the latter, which goes the same way.
pub fn of(release: &AppRelease, read: &[ReadValues], tenant: &TenantFacts) -> Result<Map<String, Value>, Problem> {
    let mut values =
        release.values_template.as_deref().map_or_else(|| Ok(Map::new()), |text| rendered(text, tenant))?;
    merge_fields(&mut values, release.values.clone());
    let size = serde_json::to_vec(&values).map_or(0, |text| text.len()) + config_maps::size(read);
    if size <= LONGEST {
        return Ok(values);
    }
    let beside = [(release.values_template.is_some(), FIELD), (!read.is_empty(), "the ConfigMaps of spec.valuesFrom")];
    let beside: Vec<&str> = beside.into_iter().filter_map(|(is_there, what)| is_there.then_some(what)).collect();
    let with = if beside.is_empty() { String::new() } else { format!(" with {}", beside.join(" and ")) };
    Err(Problem::Wrong(format!(
        "spec.values{with}: {size} bytes are more than {LONGEST}: put them into a Secret, and name it in spec.valuesFrom of the App"
    )))
}

/// Whether a template can be read, and says nothing that is not taken; whatever the tenant. Err: what is wrong, and the way out.
pub fn check(text: &str) -> Result<(), String> {
    let at = |line: usize, why: &str| format!("{FIELD}, line {line}: {why}. Correct it");
    let refused = |refused: language::Refused| match refused.line {
        0 => format!("{FIELD}: {}. Correct it", refused.why),
        line => at(line.into(), &refused.why),
    };
    let syntax = syntax().map_err(|error| error.to_string())?;
    language::check_tags(text, syntax.clone()).map_err(refused)?;
    let parsed = machinery::parse(text, FIELD, syntax);
    let parsed = parsed.map_err(|error| at(error.line().unwrap_or(1), &words(&error)))?;
    language::check(&[parsed]).map_err(refused)
}

fn rendered(text: &str, tenant: &TenantFacts) -> Result<Map<String, Value>, Problem> {
    check(text).map_err(Problem::Wrong)?;
    let of = format!("Cluster {}/{}", tenant.namespace, tenant.name);
    let wrong = |why: String| Problem::Wrong(format!("{FIELD} for {of}{why}"));
    let known = json!({"cluster": tenant});
    if known.to_string().len() > KNOWN {
        return Err(wrong(format!(": its labels have more than {KNOWN} bytes. Remove some")));
    }
    let env = environment().map_err(|error| wrong(format!(": {error}")))?;
    let template = env.template_from_named_str(FIELD, text).map_err(|error| wrong(failure(text, &error)))?;
    let variables = template.undeclared_variables(true);
    if let Some(field) = tenant.unknown().find(|field| language::reads(&variables, field)) {
        return Err(Problem::Waits(format!("{of} to have cluster.{field}, which {FIELD} of the App uses")));
    }
    let mut out = Bounded::default();
    let written = template.render_captured_to(Serde(&known), &mut out).map(drop);
    if out.is_full {
        return Err(wrong(format!(": it comes to more than {LONGEST} bytes. Shorten it")));
    }
    written.map_err(|error| wrong(failure(text, &error)))?;
    let text = String::from_utf8(out.text).map_err(|error| wrong(format!(": {error}")))?;
    yaml(&text).map_err(|why| wrong(format!(": what it comes to is not YAML of an object: {why}. Correct it")))
}

/// YAML 1.2: `on` is a text.
fn yaml(text: &str) -> Result<Map<String, Value>, String> {
    let options = serde_saphyr::options! { strict_booleans: true };
    match serde_saphyr::from_str_with_options::<Value>(text, options).map_err(|error| error.to_string())? {
        Value::Object(values) => Ok(values),
        Value::Null => Ok(Map::new()),
        _ => Err("it has no names of values".to_owned()),
    }
}

/// As Berth's own templates are read: `{{ x }}` prints a whole YAML scalar, list or map.
fn environment<'a>() -> Result<Environment<'a>, Error> {
    let mut env = Environment::new();
    env.set_syntax(syntax()?);
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_auto_escape_callback(|_| AutoEscape::Json);
    env.set_fuel(Some(FUEL));
    env.add_filter("join", language::join);
    env.add_filter("replace", language::replace);
    // Errors carry the source, so that they can name the expression.
    env.set_debug(true);
    Ok(env)
}

fn syntax() -> Result<SyntaxConfig, Error> {
    SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build()
}

/// Where it fails, why, and the way out.
fn failure(text: &str, error: &Error) -> String {
    let line = error.line().map(|line| format!(", line {line}")).unwrap_or_default();
    let expression = error.range().and_then(|range| text.get(range)).unwrap_or_default();
    // What is not there is named by the words, and whole.
    let is_named = expression.is_empty() || error.kind() == ErrorKind::UndefinedError;
    let expression = if is_named { String::new() } else { format!("{expression}: ") };
    let way_out = match error.kind() {
        ErrorKind::UndefinedError => "Set it in the Cluster, or say what else counts by |default(…)",
        ErrorKind::OutOfFuel => "Shorten it",
        _ => "Correct it",
    };
    format!("{line}: {expression}{}. {way_out}", words(error))
}

fn words(error: &Error) -> String {
    let kind = error.kind().to_string();
    error.detail().map_or(kind.clone(), |detail| format!("{kind}: {detail}"))
}

/// A text that ends where it is too long.
#[derive(Default)]
struct Bounded {
    text: Vec<u8>,
    is_full: bool,
}

impl Write for Bounded {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        if self.text.len() + more.len() > LONGEST {
            self.is_full = true;
            return Err(io::Error::other("too long"));
        }
        self.text.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
