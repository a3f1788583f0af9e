//! The network of an API server's pod in a VPC: `berth-agent net`, a sidecar.
//!
//! `run` holds the pod's rules and routes (see [`wanted`]) and, if there is one, the virtual IP (see [`vrrp`]). `check` says whether
//! they are in place; the API server's container starts only then. Both know nothing of Kubernetes: what is wanted is in a file.

mod apply;
mod arp;
mod config;
mod netlink;
mod stop;
mod vrrp;
mod wanted;

use std::{
    net::IpAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail, ensure};
use berth_contract::vpc::{Cidr, Net, taken};
use clap::Subcommand;

use self::{
    arp::{Arp, Hears},
    config::Config,
    netlink::{Family, Netlink},
    stop::{Stop, Woken},
    vrrp::VirtualIp,
};
use crate::interface::Wanted as Interface;

/// Between two looks at the file and at the kernel.
const LOOK: Duration = Duration::from_secs(2);
/// Between two lines in the log that say the same.
const LOG_EVERY: Duration = Duration::from_secs(10);
/// How long another one may have the address before this process ends, so that its message is seen in the pod's status.
const CONFLICT: Duration = Duration::from_secs(20);

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Holds the pod's rules and the virtual IP until it is told to end.
    Run(Args),
    /// Whether the pod's address and rules are in place: 0 if they are.
    Check(Args),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file with the rules, JSON. It is read again when it changes.
    #[arg(long)]
    config: PathBuf,
    /// Number of this pod's slot, from 0. Default: the one that has the address.
    #[arg(long)]
    slot: Option<usize>,
    /// The address that the interface is to have, such as 172.20.0.2/24. Default: the one that it has.
    #[arg(long)]
    address: Option<Cidr>,
    /// Where it goes that somebody else has the address.
    #[arg(long, default_value = "/dev/termination-log")]
    termination_log: PathBuf,
}

pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Run(args) => Sidecar::start(args)?.map_or(Ok(()), Sidecar::run),
        Command::Check(args) => check(args),
    }
}

fn check(args: &Args) -> anyhow::Result<()> {
    let net = config::read(&args.config)?;
    let mut netlink = Netlink::open()?;
    let own = own(args, &net, &mut netlink)?;
    let kernel = apply::look(&mut netlink, &net)?;
    let difference = apply::difference(&net, own, &kernel);
    if difference.missing.is_nothing() {
        return Ok(());
    }
    if let (true, IpAddr::V4(v4)) = (kernel.rules.is_empty(), own.address)
        && let Some(mac) = Arp::open(&net.interface, Hears::Everything)?.probe(v4)?
    {
        bail!(taken(own.address, &mac.to_string()));
    }
    bail!("{}: {difference}", net.interface)
}

/// This pod's address in the VPC. An error says what is in its place.
fn own(args: &Args, net: &Net, netlink: &mut Netlink) -> anyhow::Result<Cidr> {
    if let Some(address) = args.address {
        let wanted: Interface =
            format!("{}={address}", net.interface).parse().map_err(|e| anyhow!("--address: {e}"))?;
        wanted.check().with_context(|| format!("waiting for {wanted}"))?;
        return Ok(address);
    }
    let interface = apply::index(net)?;
    let mut all = netlink.addresses()?.into_iter().filter(|one| one.interface == interface).map(|one| one.address);
    let own = all.find(|one| Family::of(one.address) == Family::V4 && Some(one.address) != net.virtual_ip);
    own.with_context(|| format!("{} has no IPv4 address", net.interface))
}

struct Sidecar {
    config: Config,
    net: Net,
    own: Cidr,
    /// Index of the interface that sockets are bound to, once there are any.
    interface: Option<u32>,
    slot: Option<usize>,
    netlink: Netlink,
    stop: Stop,
    virtual_ip: Option<VirtualIp>,
    /// Hears whether somebody else has the address.
    arp: Option<Arp>,
    log: Log,
}

impl Sidecar {
    /// Waits for the file and for the address, and for that nobody else has it. None: it was told to end.
    fn start(args: &Args) -> anyhow::Result<Option<Self>> {
        let (mut log, stop, mut netlink) = (Log::default(), Stop::new()?, Netlink::open()?);
        let mut config = Config::new(&args.config);
        let mut last = None;
        let mut conflict: Option<Instant> = None;
        loop {
            if let Some(read) = config.changed() {
                last = Some(read);
            }
            let ready = match &last {
                Some(Ok(net)) => ready(args, net, &mut netlink),
                Some(Err(error)) => Err(anyhow!("{error:#}")),
                None => Err(anyhow!("{} was not read", args.config.display())),
            };
            match ready {
                Ok(Ready { own, taken: None }) => {
                    let Some(Ok(net)) = last else { bail!("{} is broken", args.config.display()) };
                    let (slot, interface, virtual_ip, arp) = (args.slot, None, None, None);
                    return Ok(Some(Self { config, net, own, interface, slot, netlink, stop, virtual_ip, arp, log }));
                }
                Ok(Ready { taken: Some(message), .. }) => {
                    log.say(&message);
                    let since = *conflict.get_or_insert_with(Instant::now);
                    let written = std::fs::write(&args.termination_log, &message);
                    written
                        .with_context(|| args.termination_log.display().to_string())
                        .unwrap_or_else(|e| log.say(&format!("{e:#}")));
                    // It is seen in the pod's status only when the container ends. It is started again.
                    ensure!(since.elapsed() < CONFLICT, message);
                }
                Err(error) => {
                    conflict = None;
                    log.say(&format!("{error:#}"));
                }
            }
            if stop.wait(Duration::from_millis(150))? == Woken::ToStop {
                return Ok(None);
            }
        }
    }

    fn run(mut self) -> anyhow::Result<()> {
        let mut looked: Option<Instant> = None;
        loop {
            if looked.is_none_or(|at| at.elapsed() >= LOOK) {
                looked = Some(Instant::now());
                self.look()?;
            }
            let Self { stop, virtual_ip, netlink, .. } = &mut self;
            let rest = LOOK.saturating_sub(looked.map_or(Duration::ZERO, |at| at.elapsed()));
            let woken = match virtual_ip {
                Some(virtual_ip) => stop.wait_for(&virtual_ip.wakes(), rest.min(virtual_ip.rest()))?,
                None => stop.wait(rest)?,
            };
            if let Some(virtual_ip) = virtual_ip {
                virtual_ip.turn(netlink);
                if woken == Woken::ToStop {
                    virtual_ip.stop(netlink);
                }
            }
            if woken == Woken::ToStop {
                println!("told to end; rules stay");
                return Ok(());
            }
        }
    }

    /// An error: only a new start helps.
    fn look(&mut self) -> anyhow::Result<()> {
        match self.config.changed() {
            Some(Ok(net)) => {
                println!(
                    "the file has changed: {} ranges are closed, {} parts of them open",
                    net.closed.len(),
                    net.open.len()
                );
                self.net = net;
                if let Some(virtual_ip) = &mut self.virtual_ip {
                    virtual_ip.update(&self.net);
                }
            }
            Some(Err(error)) => self.log.say(&format!("the former rules stay: {error:#}")),
            None => {}
        }
        if let Err(error) = self.hold() {
            self.log.say(&format!("{error:#}"));
        }
        // Sockets stay bound to the interface that is gone: they would hear nobody, and say so to nobody.
        match (self.interface, apply::index(&self.net)) {
            (Some(bound), Ok(now)) if bound != now => bail!("{} was made anew: starting again", self.net.interface),
            _ => Ok(()),
        }
    }

    /// Lays rules that are not there, and starts to take part in who has the virtual IP.
    fn hold(&mut self) -> anyhow::Result<()> {
        let kernel = apply::look(&mut self.netlink, &self.net)?;
        let difference = apply::difference(&self.net, self.own, &kernel);
        if !difference.is_nothing() {
            println!("{}: {difference}", self.net.interface);
            apply::apply(&mut self.netlink, &difference)?;
            println!("{}: rules are in place", self.net.interface);
        }
        self.interface.get_or_insert(kernel.interface);
        self.defend()?;
        if self.virtual_ip.is_none() {
            self.virtual_ip = VirtualIp::start(&self.net, self.own, self.slot, kernel.interface, &mut self.netlink)?;
        }
        Ok(())
    }

    /// Says that the address is here, first of all and whenever somebody else says the same (RFC 5227): the pod that had it before had
    /// another MAC. It is given up to nobody, since kubelets know no other address.
    fn defend(&mut self) -> anyhow::Result<()> {
        let IpAddr::V4(own) = self.own.address else { return Ok(()) };
        if let Some(arp) = &mut self.arp {
            if let Some(mac) = arp.heard(own)? {
                self.log.say(&format!("{own} is in use by {mac}, too"));
                arp.announce(own)?;
            }
        } else {
            let arp = self.arp.insert(Arp::open(&self.net.interface, Hears::Everything)?);
            arp.announce(own)?;
        }
        Ok(())
    }
}

struct Ready {
    own: Cidr,
    /// Says who else has it.
    taken: Option<String>,
}

/// Whether rules can be laid. Nobody is asked for the address where there are rules: the API server may run already.
fn ready(args: &Args, net: &Net, netlink: &mut Netlink) -> anyhow::Result<Ready> {
    let own = own(args, net, netlink)?;
    let laid = netlink.rules(Family::V4)?.is_some_and(|rules| !rules.is_empty());
    let (false, IpAddr::V4(v4)) = (laid, own.address) else {
        return Ok(Ready { own, taken: None });
    };
    let other =
        Arp::open(&net.interface, Hears::Everything)?.probe(v4).with_context(|| format!("cannot ask for {v4}"))?;
    Ok(Ready { own, taken: other.map(|mac| taken(own.address, &mac.to_string())) })
}

/// Says what is new at once, and what stays as it is now and then.
#[derive(Debug, Default)]
struct Log {
    last: String,
    at: Option<Instant>,
}

impl Log {
    fn say(&mut self, what: &str) {
        if self.last != what || self.at.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
            eprintln!("berth-agent: {what}");
            what.clone_into(&mut self.last);
            self.at = Some(Instant::now());
        }
    }
}
