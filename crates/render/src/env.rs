//! The template engine: strict about what is undefined, and JSON-escaping, so that no value can break out of its scalar.

use std::collections::HashSet;

use minijinja::{AutoEscape, Environment, UndefinedBehavior, syntax::SyntaxConfig, value::Serde};
use serde::Serialize;

use crate::RenderError;

/// Renders one text. `name` is the path within the template set, for errors.
///
/// Escaping is JSON for every template, whatever its name: `{{ x }}` prints a whole YAML scalar (or list, or map) and never part
/// of one. Hence `{{ "--flag=" ~ x }}`, not `--flag={{ x }}`.
pub(crate) fn render(name: &str, text: &str, context: &impl Serialize) -> Result<String, RenderError> {
    let fault = |error: minijinja::Error| template_error(name, text, error);
    let mut env = environment().map_err(fault)?;
    env.add_template(name, text).map_err(fault)?;
    let template = env.get_template(name).map_err(fault)?;
    template.render(Serde(context)).map_err(fault)
}

/// Renders one text with `print` in place of every value that a template prints; values decide about branches and loops as ever.
/// What a template marks as safe stays as it is.
pub(crate) fn render_printed(
    name: &str,
    text: &str,
    context: &impl Serialize,
    print: impl Fn(&minijinja::Value) -> String + Send + Sync + 'static,
) -> Result<String, RenderError> {
    let fault = |error: minijinja::Error| template_error(name, text, error);
    let mut env = environment().map_err(fault)?;
    env.set_formatter(move |out, state, value| {
        if value.is_safe() {
            return minijinja::escape_formatter(out, state, value);
        }
        out.write_str(&print(value)).map_err(minijinja::Error::from)
    });
    env.add_template(name, text).map_err(fault)?;
    let template = env.get_template(name).map_err(fault)?;
    template.render(Serde(context)).map_err(fault)
}

/// The variables that a template reads, with nested names such as `workload.image`.
pub(crate) fn variables(name: &str, text: &str) -> Result<HashSet<String>, RenderError> {
    let fault = |error: minijinja::Error| template_error(name, text, error);
    let mut env = environment().map_err(fault)?;
    env.add_template(name, text).map_err(fault)?;
    Ok(env.get_template(name).map_err(fault)?.undeclared_variables(true))
}

fn environment<'a>() -> Result<Environment<'a>, minijinja::Error> {
    let mut env = Environment::new();
    // A line that holds only a block tag leaves nothing behind.
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build()?;
    env.set_syntax(syntax);
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_auto_escape_callback(|_| AutoEscape::Json);
    // Errors carry the source, so that they can name the expression.
    env.set_debug(true);
    Ok(env)
}

fn template_error(name: &str, text: &str, error: minijinja::Error) -> RenderError {
    RenderError::Template {
        template: error.name().unwrap_or(name).to_owned(),
        line: error.line().unwrap_or_default(),
        expression: error.range().and_then(|range| text.get(range)).map(str::to_owned),
        source: Box::new(error),
    }
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
