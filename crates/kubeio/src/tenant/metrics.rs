//! An API server's metrics, line by line: three of some thousand are kept.

use berth_api::version::Minor;
use berth_plan::asked::{DeprecatedApi, Metrics};
use futures::{AsyncBufRead, AsyncBufReadExt};
use std::collections::BTreeMap;
use std::pin::pin;

/// A longer line is passed over.
const LINE: usize = 8 << 10;

/// So many deprecated APIs, and so many features, are kept: a real API server has far fewer.
const MOST: usize = 2000;

/// Reads them to their end.
pub(super) async fn read(text: impl AsyncBufRead) -> std::io::Result<Metrics> {
    let mut text = pin!(text);
    let (mut metrics, mut line) = (Metrics::default(), Vec::with_capacity(LINE));
    loop {
        let chunk = text.fill_buf().await?;
        if chunk.is_empty() {
            take(&mut metrics, &line);
            return Ok(metrics);
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let part = &chunk[..end.unwrap_or(chunk.len())];
        // One byte more than may be: it counts as too long.
        line.extend(part.iter().take((LINE + 1).saturating_sub(line.len())));
        let used = part.len() + usize::from(end.is_some());
        text.consume_unpin(used);
        if end.is_some() {
            take(&mut metrics, &line);
            line.clear();
        }
    }
}

fn take(metrics: &mut Metrics, line: &[u8]) {
    let Ok(line) = std::str::from_utf8(line) else { return };
    let Some((name, rest)) = line.split_once('{').filter(|_| line.len() <= LINE) else { return };
    if !["apiserver_requested_deprecated_apis", "kubernetes_feature_enabled", "apiserver_request_total"].contains(&name)
    {
        return;
    }
    let Some((labels, value)) = labels(rest) else { return };
    let Ok(value) = value.trim().parse::<f64>() else { return };
    let label = |name: &str| labels.get(name).map(String::as_str).unwrap_or_default();
    match name {
        "apiserver_requested_deprecated_apis" if value > 0.0 && metrics.deprecated.len() < MOST => {
            let join =
                |a: &str, b: &str| [a, b].iter().filter(|word| !word.is_empty()).copied().collect::<Vec<_>>().join("/");
            let Ok(removed_in) = label("removed_release").parse::<Minor>() else { return };
            let group_version = join(label("group"), label("version"));
            let resource = join(label("resource"), label("subresource"));
            metrics.deprecated.insert(DeprecatedApi { removed_in, group_version, resource });
        }
        "kubernetes_feature_enabled" if metrics.features.len() < MOST => {
            metrics.features.insert(label("name").to_owned(), label("stage").to_owned());
        }
        // What has no resource is a health check, or discovery.
        "apiserver_request_total" if !label("resource").is_empty() && value.is_finite() && value >= 0.0 => {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a counter")]
            let count = value as u64;
            let answers = &mut metrics.answers;
            answers.all = answers.all.saturating_add(count);
            if label("code") == "429" || label("code").starts_with('5') {
                answers.failed = answers.failed.saturating_add(count);
            }
        }
        _ => {}
    }
}

/// Labels, and what comes after them. None: it is no line of metrics.
fn labels(mut rest: &str) -> Option<(BTreeMap<&str, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(value) = rest.strip_prefix('}') {
            return Some((labels, value));
        }
        let (name, text) = rest.split_once("=\"")?;
        let (mut value, mut chars) = (String::new(), text.char_indices());
        let end = loop {
            match chars.next()? {
                (at, '"') => break at,
                (_, '\\') => match chars.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        // What is kept of a value goes into messages.
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:".contains(c);
        labels.insert(name, value.chars().filter(|c| plain(*c)).take(128).collect());
        rest = &text[end + 1..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use futures::io::{BufReader, Cursor};

    fn of(text: &str) -> Metrics {
        // A few bytes at a time, so that lines come in parts.
        read(BufReader::with_capacity(7, Cursor::new(text))).now_or_never().unwrap().unwrap()
    }

    #[test]
    fn three_metrics_are_kept_of_all() {
        let text = r#"# HELP apiserver_request_total Counter of apiserver requests
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1"} 90
apiserver_request_total{code="503",resource="pods"} 7
apiserver_request_total{code="429",resource="nodes"} 1.2e+01
apiserver_request_total{code="500",resource="",subresource="/readyz"} 400
apiserver_requested_deprecated_apis{group="",removed_release="",resource="componentstatuses",subresource="",version="v1"} 1
apiserver_requested_deprecated_apis{group="policy",removed_release="1.36",resource="a",subresource="status",version="v1beta1"} 1
apiserver_requested_deprecated_apis{group="policy",removed_release="1.36",resource="b",subresource="",version="v1beta1"} 0
kubernetes_feature_enabled{name="A\"B",stage="ALPHA"} 0
kubernetes_feature_enabled{name="C",stage=""} 1
kubernetes_feature_enabled{name="D
other{le="+Inf"} 3
go_goroutines 5"#;
        let metrics = of(text);
        assert_eq!((metrics.answers.all, metrics.answers.failed), (109, 19));
        let api = DeprecatedApi {
            removed_in: "1.36".parse().unwrap(),
            group_version: "policy/v1beta1".into(),
            resource: "a/status".into(),
        };
        assert_eq!(metrics.deprecated.into_iter().collect::<Vec<_>>(), [api]);
        let features: Vec<_> = metrics.features.iter().map(|(name, stage)| format!("{name}:{stage}")).collect();
        assert_eq!(features, ["AB:ALPHA", "C:"]);
    }

    #[test]
    fn a_line_without_end_costs_no_memory_and_hides_no_other() {
        let long = format!("kubernetes_feature_enabled{{name=\"{}\",stage=\"\"}} 1", "x".repeat(4 * LINE));
        let metrics = of(&format!("{long}\nkubernetes_feature_enabled{{name=\"C\",stage=\"BETA\"}} 1\n"));
        assert_eq!(metrics.features.into_iter().collect::<Vec<_>>(), [("C".to_owned(), "BETA".to_owned())]);
    }
}
