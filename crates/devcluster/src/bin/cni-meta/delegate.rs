//! Calling other plugins.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::{
    attachment::Attachment,
    error::{Code, Error, Result},
};

/// What plugins are told in their environment, beside the interface.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    pub(crate) container: String,
    /// Empty when the sandbox's namespace is gone already.
    pub(crate) netns: String,
    pub(crate) args: String,
    /// Where plugins are, as in PATH.
    pub(crate) path: String,
}

impl Environment {
    /// Attaches; gives what the last plugin answered.
    pub(crate) fn add(&self, attachment: &Attachment) -> Result<Value> {
        let mut result: Option<Value> = None;
        for plugin in &attachment.network.plugins {
            let conf = attachment.network.for_call(plugin, &attachment.wishes, result.as_ref());
            result = Some(self.call("ADD", attachment, &conf)?);
        }
        Ok(result.unwrap_or_default())
    }

    /// Detaches, in the order opposite to ADD's.
    pub(crate) fn del(&self, attachment: &Attachment) -> Result<()> {
        for plugin in attachment.network.plugins.iter().rev() {
            let conf = attachment.network.for_call(plugin, &attachment.wishes, attachment.result.as_ref());
            self.call("DEL", attachment, &conf)?;
        }
        Ok(())
    }

    pub(crate) fn check(&self, attachment: &Attachment) -> Result<()> {
        if attachment.network.disable_check {
            return Ok(());
        }
        for plugin in &attachment.network.plugins {
            let conf = attachment.network.for_call(plugin, &attachment.wishes, attachment.result.as_ref());
            self.call("CHECK", attachment, &conf)?;
        }
        Ok(())
    }

    /// Fails if a plugin is not there, before anything is attached: what cannot be called for ADD cannot be for DEL either, and the pod
    /// could not be deleted.
    pub(crate) fn check_programs(&self, all: &[Attachment]) -> Result<()> {
        let plugins = all.iter().flat_map(|one| one.network.plugins.iter().map(move |plugin| (one, plugin)));
        plugins.into_iter().try_for_each(|(attachment, plugin)| {
            self.program(attachment, plugin["type"].as_str().unwrap_or_default()).map(drop)
        })
    }

    fn program(&self, attachment: &Attachment, plugin: &str) -> Result<PathBuf> {
        let missing =
            || format!("{}: type {plugin}: there is no such program in CNI_PATH {}", attachment.origin, self.path);
        find(&self.path, plugin).ok_or_else(|| Error::new(Code::Delegate, missing()))
    }

    fn call(&self, command: &str, attachment: &Attachment, conf: &Value) -> Result<Value> {
        let plugin = conf["type"].as_str().unwrap_or_default();
        let failed = |why: String| Error::new(Code::Delegate, format!("{}: plugin {plugin}: {why}", attachment.origin));
        let program = self.program(attachment, plugin)?;
        let mut child = Command::new(program)
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", &self.container)
            .env("CNI_NETNS", &self.netns)
            .env("CNI_IFNAME", &attachment.interface)
            .env("CNI_ARGS", &self.args)
            .env("CNI_PATH", &self.path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| failed(e.to_string()))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A plugin that ends without reading says why in its answer.
            let _ = stdin.write_all(conf.to_string().as_bytes());
        }
        let output = child.wait_with_output().map_err(|e| failed(e.to_string()))?;
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if !output.status.success() {
            let said = answer["msg"].as_str().map(|message| match answer["details"].as_str() {
                Some(details) if !details.is_empty() => format!("{message}; {details}"),
                _ => message.to_owned(),
            });
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(failed(said.unwrap_or_else(|| format!("{}, {}", output.status, stderr.trim()))));
        }
        Ok(answer)
    }
}

fn find(path: &str, plugin: &str) -> Option<PathBuf> {
    path.split(':').map(|directory| Path::new(directory).join(plugin)).find(|file| file.is_file())
}
