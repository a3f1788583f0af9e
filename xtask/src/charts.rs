//! `helm lint --strict` and `helm template`, without a cluster. What the charts do in one is tested in tests/charts.

use std::process::Command;

use crate::root;
use crate::shell::{Result, cache, output};

pub(crate) fn check() -> Result<()> {
    let helm = crate::demo::newest(&cache().join("bin/tools"), "helm")?;
    let charts = root().join("charts");
    let values = [
        "etcdNamespaces={a,b}",
        "imagePullSecrets[0].name=x",
        "tenants.pullSecrets={a,b}",
        "operator.env[0].name=A",
        "metrics.serviceMonitor=true",
        "metrics.prometheusRule=true",
        "metrics.dashboard=true",
        "metrics.labels.release=x",
    ]
    .map(|value| format!("--set={value}"));
    let gateway = [
        "gateway.enabled=true",
        "gateway.domain=api.example.com",
        "gateway.hostPort=443",
        "gateway.namedHostPort=6444",
        "gateway.proxyProtocolFrom={10.0.0.0/8}",
        "gateway.apiServerPeers[0].ipBlock.cidr=10.0.0.7/32",
        "gateway.priorityClassName=x",
        "gateway.podAnnotations.x=y",
        "gateway.nodeSelector.x=y",
        "gateway.tolerations[0].key=x",
        "gateway.affinity.nodeAffinity.x=y",
        "gateway.engines={Berth,GatewayAPI}",
        "gateway.parents[0].namespace=x",
        "gateway.parents[0].name=x",
        "imagePullSecrets[0].name=x",
        "metrics.serviceMonitor=true",
    ]
    .map(|value| format!("--set={value}"));
    let access = [
        "gateway.enabled=true",
        "gateway.domain=api.example.com",
        "access.enabled=true",
        "access.tls.secretName=x",
        "access.login.command=x",
        "access.apiServerPeers[0].ipBlock.cidr=10.0.0.7/32",
        "access.priorityClassName=x",
        "access.podAnnotations.x=y",
        "access.podLabels.x=y",
        "access.nodeSelector.x=y",
        "access.tolerations[0].key=x",
        "access.affinity.nodeAffinity.x=y",
        "imagePullSecrets[0].name=x",
        "metrics.serviceMonitor=true",
    ]
    .map(|value| format!("--set={value}"));
    let catalog =
        ["api.host=10.0.0.7", "serviceCIDRs={10.112.0.0/16}", "imagePullSecrets[0].name=x", "extraArgs={--v=2}"]
            .map(|value| format!("--set={value}"));
    for (chart, values) in [
        ("../examples/apps/charts/kube-router", &[][..]),
        ("../examples/apps/charts/kube-router", &catalog[..]),
        ("berth-crds", &[][..]),
        ("berth", &[][..]),
        ("berth", &values[..]),
        ("berth", &gateway[..]),
        ("berth", &access[..]),
    ] {
        let path = charts.join(chart);
        let name = chart.rsplit('/').next().unwrap_or(chart);
        output(Command::new(&helm).args(["lint", "--strict", "--kube-version", "1.36.3"]).arg(&path).args(values))?;
        output(Command::new(&helm).args(["template", name, "--kube-version", "1.36.3"]).arg(&path).args(values))?;
    }
    Ok(())
}
