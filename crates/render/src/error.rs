//! What can go wrong while rendering. Every variant is a fault of a template or of the caller, never of a tenant's spec.

/// A template, or what it rendered, is wrong.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The template has a syntax error, or asks for something that its values do not have.
    #[error("template {template}, line {line}: {} ({source})", .expression.as_deref().unwrap_or("?"))]
    Template {
        /// Path within the template set.
        template: String,
        /// From 1; 0 if unknown.
        line: usize,
        /// The text of the failing expression, such as `workload.nosuch`.
        expression: Option<String>,
        /// What the engine says.
        source: Box<minijinja::Error>,
    },
    /// The rendered text is not YAML.
    #[error("template {template}: what it rendered is not YAML: {source}")]
    Yaml {
        /// Path within the template set.
        template: String,
        /// What the parser says.
        source: Box<serde_saphyr::Error>,
    },
    /// The rendered document is no object that Berth may apply.
    #[error("template {template}: {reason}")]
    Object {
        /// Path within the template set.
        template: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A template set has no folder for what was asked.
    #[error("template set {set} has no templates in {folder}")]
    NoTemplates {
        /// Name of the set, such as `v1.36`.
        set: String,
        /// The folder.
        folder: String,
    },
}

/// Pinned data is not a template set that this build can render.
#[derive(Debug, thiserror::Error)]
pub enum TemplateSetError {
    /// The key that names the format, the set's name, or its version table is missing or malformed.
    #[error("pinned template set: {0}")]
    Malformed(String),
    /// Written by a newer operator.
    #[error("pinned template set has format {found}, this build knows formats up to {known}")]
    UnknownFormat {
        /// What the data says.
        found: String,
        /// The newest format of this build.
        known: u32,
    },
}
