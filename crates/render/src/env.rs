//! The template engine: strict about what is undefined, and JSON-escaping, so that no value can break out of its scalar.

use std::collections::HashSet;

use minijinja::{AutoEscape, Environment, ErrorKind, Template, UndefinedBehavior, syntax::SyntaxConfig, value::Serde};
use serde::Serialize;

use crate::{RenderError, merge};

/// Renders one text. `name` is the path within the template set, for errors.
///
/// Escaping is JSON for every template, whatever its name: `{{ x }}` prints a whole YAML scalar (or list, or map) and never part
/// of one. Hence `{{ "--flag=" ~ x }}`, not `--flag={{ x }}`.
pub(crate) fn render(name: &str, text: &str, context: &impl Serialize) -> Result<String, RenderError> {
    with_template(environment(), name, text, |template| template.render(Serde(context)))
}

/// Renders one text with `print` in place of every value that a template prints; values decide about branches and loops as ever.
/// What a template marks as safe stays as it is.
pub(crate) fn render_printed(
    name: &str,
    text: &str,
    context: &impl Serialize,
    print: impl Fn(&minijinja::Value) -> String + Send + Sync + 'static,
) -> Result<String, RenderError> {
    let printing = environment().map(|mut env| {
        env.set_formatter(move |out, state, value| {
            if value.is_safe() {
                return minijinja::escape_formatter(out, state, value);
            }
            out.write_str(&print(value)).map_err(minijinja::Error::from)
        });
        env
    });
    with_template(printing, name, text, |template| template.render(Serde(context)))
}

/// The variables that a template reads, with nested names such as `workload.image`.
pub(crate) fn variables(name: &str, text: &str) -> Result<HashSet<String>, RenderError> {
    with_template(environment(), name, text, |template| Ok(template.undeclared_variables(true)))
}

fn with_template<T>(
    env: Result<Environment<'_>, minijinja::Error>,
    name: &str,
    text: &str,
    then: impl FnOnce(Template<'_, '_>) -> Result<T, minijinja::Error>,
) -> Result<T, RenderError> {
    env.and_then(|env| then(env.template_from_named_str(name, text)?)).map_err(|error| RenderError::Template {
        template: error.name().unwrap_or(name).to_owned(),
        line: error.line().unwrap_or_default(),
        expression: error.range().and_then(|range| text.get(range)).map(str::to_owned),
        source: Box::new(error),
    })
}

fn environment<'a>() -> Result<Environment<'a>, minijinja::Error> {
    let mut env = Environment::new();
    // A line that holds only a block tag leaves nothing behind.
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build()?;
    env.set_syntax(syntax);
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_auto_escape_callback(|_| AutoEscape::Json);
    env.add_filter("merged", merged);
    // Errors carry the source, so that they can name the expression.
    env.set_debug(true);
    Ok(env)
}

/// `{{ text|merged(fields) }}`: a YAML object as text, with what a user sets laid over it.
fn merged(text: &str, over: minijinja::Value) -> Result<String, minijinja::Error> {
    let broken = |why: String| minijinja::Error::new(ErrorKind::InvalidOperation, why);
    let over = serde_json::to_value(over).map_err(|error| broken(error.to_string()))?;
    let over = over.as_object().ok_or_else(|| broken("what is merged in is no object".to_owned()))?;
    merge::merged(text, over).map_err(broken)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_cannot_break_out() {
        let text = "a: {{ x }}\nb: {{ \"--f=\" ~ x }}\nc: {{ l }}\n";
        let out = render("t", text, &json!({"x": "y\"\nz: 1", "l": ["q"]})).unwrap();
        assert_eq!(crate::yaml::documents(&out).unwrap()[0]["a"], "y\"\nz: 1");
        assert_eq!(crate::yaml::documents(&out).unwrap()[0]["b"], "--f=y\"\nz: 1");
    }

    #[test]
    fn undefined_is_an_error_that_says_where() {
        let error = render("dir/t.yaml.j2", "a: 1\nb: {{ w.nosuch }}\n", &json!({"w": {}})).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("dir/t.yaml.j2, line 2") && text.contains("w.nosuch"), "{text}");
        render("t", "{% if nosuch %}a{% endif %}", &json!({})).unwrap_err();
    }
}
