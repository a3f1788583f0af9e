//! Somebody else in the VPC has the address of a pod.

use std::{fs, time::Duration};

use super::{
    peers::{Vpc, address, config},
    sidecar::Sidecar,
};

#[test]
fn while_another_one_has_the_address_nothing_is_in_place_and_it_says_who() {
    let vpc = Vpc::new(2);
    let (pod, other) = (&vpc.pods[0], &vpc.pods[1]);
    other.ip("link set net1 address 02:00:00:00:00:ab");
    other.ip("addr add 172.20.0.2/24 dev net1");
    let mut sidecar = Sidecar::new(pod, &config(), &["--slot", "0", "--address", &address(0)]);
    sidecar.start();
    let message = "AddressTaken: 172.20.0.2 is in use by 02:00:00:00:00:ab; the API server is not started while it is";
    sidecar.wait_until("it says who has it", |sidecar| sidecar.log().contains(message));
    let check = sidecar.check();
    assert!(!check.status.success());
    assert_eq!(String::from_utf8(check.stderr).unwrap(), format!("berth-agent: {message}\n"));
    assert_eq!(fs::read_to_string(sidecar.termination_log()).unwrap(), message);

    other.ip("addr del 172.20.0.2/24 dev net1");
    sidecar.wait_until("the address is free", |sidecar| sidecar.check().status.success());

    // The API server may run from here on: a new sidecar holds what is there, whoever has the address.
    other.ip("addr add 172.20.0.2/24 dev net1");
    sidecar.kill();
    sidecar.start();
    assert_eq!(sidecar.ended(Duration::from_secs(2)), None);
    assert!(sidecar.check().status.success());
    // As soon as the other one sends something, it is in the log.
    let _ = other.dial_from("172.20.0.2".parse().unwrap(), "172.20.0.99:7000".parse().unwrap());
    let message = "172.20.0.2 is in use by 02:00:00:00:00:ab, too";
    sidecar.wait_until("it says who has it, too", |sidecar| sidecar.log().contains(message));
}

#[test]
fn it_ends_with_the_message_when_the_address_stays_taken() {
    let vpc = Vpc::new(2);
    vpc.pods[1].ip("addr add 172.20.0.2/24 dev net1");
    let mut sidecar = Sidecar::new(&vpc.pods[0], &config(), &["--slot", "0", "--address", &address(0)]);
    sidecar.start();
    assert_eq!(sidecar.ended(Duration::from_secs(40)), Some(1));
    assert!(fs::read_to_string(sidecar.termination_log()).unwrap().starts_with("AddressTaken: 172.20.0.2 "));
    assert!(vpc.pods[0].ip("rule").lines().count() == 3, "no rules");
}

#[test]
fn it_says_what_the_interface_has_in_place_of_the_address() {
    let vpc = Vpc::new(1);
    let mut sidecar = Sidecar::new(&vpc.pods[0], &config(), &["--slot", "0", "--address", "172.20.0.7/24"]);
    sidecar.start();
    let message = "waiting for 172.20.0.7/24 at interface net1: net1 has 172.20.0.2/24";
    sidecar.wait_until("it says so", |sidecar| sidecar.log().contains(message));
    assert!(String::from_utf8(sidecar.check().stderr).unwrap().contains(message));
    vpc.pods[0].ip("addr add 172.20.0.7/24 dev net1");
    sidecar.wait_until("it goes on", |sidecar| sidecar.check().status.success());
}
