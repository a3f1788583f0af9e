//! `cni-meta`: a CNI plugin that attaches a pod to the cluster's network and to those that the pod asks for.
//!
//! It follows the Kubernetes Network Custom Resource Definition De-facto Standard, version 1.3: NetworkAttachmentDefinitions, the pod's
//! annotation `k8s.v1.cni.cncf.io/networks`, and `k8s.v1.cni.cncf.io/network-status` written back. Its configuration is that of multus
//! as a thin plugin, so that either can take the other's place.
//!
//! containerd runs it once for each sandbox of a pod that begins or ends. What is decided ([`config`], [`selection`], [`network`],
//! [`attachment`], [`status`]) needs no I/O; [`commands`] carries it out.

mod api;
mod attachment;
mod commands;
mod config;
mod delegate;
mod error;
mod kubeconfig;
mod network;
mod selection;
mod status;
mod store;

use std::{
    io::{Read, Write},
    process::ExitCode,
};

use serde_json::{Value, json};

use crate::{
    commands::Call,
    error::{Code, Error, Result},
};

/// The versions of CNI's protocol that it speaks.
const VERSIONS: [&str; 4] = ["0.3.1", "0.4.0", "1.0.0", "1.1.0"];

fn main() -> ExitCode {
    let mut stdin = Vec::new();
    let read =
        std::io::stdin().read_to_end(&mut stdin).map_err(|e| Error::new(Code::Io, format!("standard input: {e}")));
    let version =
        serde_json::from_slice::<Value>(&stdin).ok().and_then(|conf| Some(conf["cniVersion"].as_str()?.to_owned()));
    let version = version.unwrap_or_else(|| "1.0.0".to_owned());
    match read.and_then(|_| run(&stdin, &version)) {
        Ok(answer) => {
            print(answer.as_ref());
            ExitCode::SUCCESS
        }
        Err(error) => {
            print(Some(&json!({"cniVersion": version, "code": error.code as u32, "msg": error.message})));
            ExitCode::FAILURE
        }
    }
}

fn run(stdin: &[u8], version: &str) -> Result<Option<Value>> {
    let command = env("CNI_COMMAND")?;
    if command == "VERSION" {
        return Ok(Some(json!({"cniVersion": version, "supportedVersions": VERSIONS})));
    }
    if !VERSIONS.contains(&version) {
        let known = VERSIONS.join(", ");
        return Err(Error::new(Code::Version, format!("cniVersion {version} is none of {known}")));
    }
    let conf = config::parse(stdin)?;
    // Both ask about the plugin, not about a pod.
    if ["STATUS", "GC"].contains(&&*command) {
        return Ok(None);
    }
    let call = Call::from_env(conf)?;
    match &*command {
        "ADD" => call.add().map(Some),
        "DEL" => call.del().map(|()| None),
        "CHECK" => call.check().map(|()| None),
        other => Err(Error::new(Code::Environment, format!("CNI_COMMAND {other} is not known"))),
    }
}

/// A variable that the runtime has to set.
fn env(name: &str) -> Result<String> {
    let value = std::env::var(name).unwrap_or_default();
    if value.is_empty() { Err(Error::new(Code::Environment, format!("{name} is not set"))) } else { Ok(value) }
}

fn print(answer: Option<&Value>) {
    if let Some(answer) = answer {
        // Whoever closed the pipe does not want the answer.
        let _ = writeln!(std::io::stdout(), "{answer}");
    }
}
