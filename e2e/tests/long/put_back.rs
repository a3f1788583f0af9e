//! The objects of the meta cluster are put back to an earlier state, as from a backup, and etcd's volumes are not: to before a member was
//! replaced, and to before a restore. etcd's data is newer than the record then. It serves again by itself, with everything in it, and the
//! same data is where it was.

use std::fs;

use anyhow::{Result, ensure};
use berth_e2e::{Tenant, World, apps, berth, core, run, s3, tenant::condition, until};
use serde_json::{Value, json};

const MEMBERS: [&str; 3] = ["etcd-0", "etcd-1", "etcd-2"];

#[test]
#[ignore = "make test-all: Berth is installed anew, twice, and an S3 server is built"]
fn volumes_that_are_newer_than_the_record_are_taken_up() {
    run("put_back", |world| {
        let place = tempfile::tempdir()?;
        let _server = s3::start(world, place.path())?;
        world.install(&s3::options(world))?;
        s3::credentials(world, "secret")?;
        let result = is_put_back(world);
        s3::end(world, &["etcdrestores", "etcdbackups"])?;
        result
    });
}

fn is_put_back(world: &World) -> Result<()> {
    let tenant = Tenant::ready(world, "put-back", &json!({"etcd": {"replicas": 3}}))?;
    write(&tenant, "first")?;
    // From the first replacement on there are members on record.
    replaced(world, &tenant, "etcd-2")?;

    println!("    to before a member was replaced");
    let before = Saved::of(world, &tenant)?;
    replaced(world, &tenant, "etcd-1")?;
    write(&tenant, "replaced")?;
    s3::taken(world, &tenant, "backup", "Verified")?;
    let (ids, epochs) = (ids(&tenant)?, epochs(&tenant)?);
    world.stop_operator()?;
    before.put_back(world, &tenant)?;
    end(world, &tenant, &["etcd-1"])?;
    is_held(world, &tenant, "etcd-1", "the data of the ID")?;
    ensure!(there(&tenant, "replaced")?, "two of three serve meanwhile");
    world.start_operator()?;
    settled(&tenant)?;
    ensure!(self::ids(&tenant)? == ids, "nobody was replaced");
    ensure!(self::epochs(&tenant)? == epochs, "its data is where it was");
    ensure!(there(&tenant, "first")? && there(&tenant, "replaced")?, "what was written is there");

    println!("    to before a restore");
    let before = Saved::of(world, &tenant)?;
    restored(world, &tenant)?;
    write(&tenant, "restored")?;
    let (ids, epochs) = (self::ids(&tenant)?, self::epochs(&tenant)?);
    world.stop_operator()?;
    world.kube.delete(&format!("{}/back", berth(&tenant.namespace, "etcdrestores")))?;
    before.put_back(world, &tenant)?;
    end(world, &tenant, &MEMBERS)?;
    for member in MEMBERS {
        is_held(world, &tenant, member, "in epoch 2")?;
    }
    world.start_operator()?;
    settled(&tenant)?;
    ensure!(self::ids(&tenant)? == ids, "they are the members of the restore");
    ensure!(self::epochs(&tenant)? == epochs, "their data is where it was");
    tenant.wait_ready()?;
    ensure!(there(&tenant, "first")? && there(&tenant, "restored")?, "what was written is there");
    // It goes on: a member is replaced by what is on record now.
    replaced(world, &tenant, "etcd-0")?;
    ensure!(there(&tenant, "restored")?);
    tenant.let_go()
}

/// What a backup of the meta cluster has of an etcd's record.
struct Saved {
    map: Value,
    set: Value,
}

impl Saved {
    fn paths(tenant: &Tenant<'_>) -> [String; 2] {
        let namespace = &tenant.cp_namespace;
        [
            format!("{}/etcd-bootstrap", core(namespace, "configmaps")),
            format!("{}/etcd", apps(namespace, "statefulsets")),
        ]
    }

    fn of(world: &World, tenant: &Tenant<'_>) -> Result<Self> {
        let [map, set] = Self::paths(tenant);
        Ok(Self { map: world.kube.get(&map)?, set: world.kube.get(&set)? })
    }

    /// No status survives.
    fn put_back(&self, world: &World, tenant: &Tenant<'_>) -> Result<()> {
        let [map, set] = Self::paths(tenant);
        let annotations = |of: &Value| json!({"annotations": of["metadata"]["annotations"]});
        world.kube.merge(&map, &json!({"metadata": annotations(&self.map), "data": self.map["data"]}))?;
        world.kube.merge(&set, &json!({"metadata": annotations(&self.set), "spec": self.set["spec"]}))?;
        let etcd = format!("{}/etcd/status", berth(&tenant.cp_namespace, "etcdclusters"));
        world.kube.merge(&etcd, &json!({"status": null}))?;
        world.kube.merge(&format!("{}/status", tenant.path()), &json!({"status": null})).map(drop)
    }
}

/// Its volume is wiped, and Berth puts another member in its place.
fn replaced(world: &World, tenant: &Tenant<'_>, member: &str) -> Result<()> {
    let before = ids(tenant)?;
    for entry in fs::read_dir(tenant.volume_dir(member)?)?.flatten() {
        let path = entry.path();
        if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
    }
    end(world, tenant, &[member])?;
    until(&format!("{member} to be replaced"), || {
        let now = ids(tenant)?;
        ensure!(now.len() == 3 && now != before, "{now:?}");
        Ok(())
    })?;
    settled(tenant)
}

fn restored(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    s3::put_back(world, tenant, "backup")?;
    settled(tenant)?;
    tenant.wait_ready().map(drop)
}

fn end(world: &World, tenant: &Tenant<'_>, members: &[&str]) -> Result<()> {
    let delete = ["-n", &tenant.cp_namespace, "delete", "pod", "--grace-period=0", "--force", "--wait=false"];
    world.kubectl(&[&delete, members].concat()).map(drop)
}

/// Its guard says what it found.
fn is_held(world: &World, tenant: &Tenant<'_>, member: &str, what: &str) -> Result<()> {
    until(&format!("{member} to be held"), || {
        let pod = world.kube.get(&format!("{}/{member}", core(&tenant.cp_namespace, "pods")))?;
        let said = pod["status"]["containerStatuses"][0].to_string();
        ensure!(said.contains("ForeignData") && said.contains(what), "{said}");
        Ok(())
    })
}

/// All members are well and nothing is under way.
fn settled(tenant: &Tenant<'_>) -> Result<()> {
    until("three members", || {
        let etcd = tenant.etcd()?;
        let ready = condition(&etcd, "Ready")?;
        ensure!(etcd["status"]["readyMembers"] == "3/3" && etcd["status"]["operation"].is_null(), "{ready}");
        ensure!(ready["status"] == "True", "{ready}");
        Ok(())
    })
}

/// etcd's IDs of the members, in their order.
fn ids(tenant: &Tenant<'_>) -> Result<Vec<String>> {
    let etcd = tenant.etcd()?;
    let members = etcd["status"]["members"].as_array().cloned().unwrap_or_default();
    Ok(members.iter().filter_map(|m| m["id"].as_str().map(str::to_owned)).collect())
}

/// What is on the volumes, beside the data: what was set aside has a folder of its own.
fn epochs(tenant: &Tenant<'_>) -> Result<Vec<Vec<String>>> {
    let folders = |member: &&str| {
        let mut names: Vec<_> = fs::read_dir(tenant.volume_dir(member)?)?
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        Ok(names)
    };
    MEMBERS.iter().map(folders).collect()
}

fn write(tenant: &Tenant<'_>, name: &str) -> Result<()> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    tenant.api()?.create(&core("default", "configmaps"), &map).map(|_| ())
}

fn there(tenant: &Tenant<'_>, name: &str) -> Result<bool> {
    Ok(tenant.api()?.find(&format!("{}/{name}", core("default", "configmaps")))?.is_some())
}
