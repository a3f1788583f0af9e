//! One question to cluster DNS, asked from the host: it proves CoreDNS, kube-proxy and the route at once, and unlike an
//! object's status it cannot be left over from before a restart.

use std::{
    net::{Ipv4Addr, UdpSocket},
    time::Duration,
};

const ID: [u8; 2] = [0xbe, 0x47];
const IS_REPLY: u8 = 0x80;
const ERROR_CODE: u8 = 0x0f;

/// Whether the server knows an IPv4 address for the name within half a second.
pub(crate) fn resolves(server: Ipv4Addr, name: &str) -> bool {
    ask(server, name).is_ok_and(|reply| is_answer(&reply))
}

fn ask(server: Ipv4Addr, name: &str) -> std::io::Result<Vec<u8>> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    socket.connect((server, 53))?;
    socket.send(&question(name))?;
    let mut reply = vec![0; 512];
    let length = socket.recv(&mut reply)?;
    reply.truncate(length);
    Ok(reply)
}

/// A query of type A: header (ID, recursion desired, one question), name, type and class.
fn question(name: &str) -> Vec<u8> {
    let mut message = vec![ID[0], ID[1], 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(u8::try_from(label.len()).unwrap_or(0));
        message.extend(label.as_bytes());
    }
    message.extend([0, 0, 1, 0, 1]);
    message
}

/// A reply to our question, without an error code, with at least one record.
fn is_answer(reply: &[u8]) -> bool {
    reply.len() > 12
        && reply[..2] == ID
        && reply[2] & IS_REPLY != 0
        && reply[3] & ERROR_CODE == 0
        && (reply[6], reply[7]) != (0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_laid_out_as_in_rfc_1035() {
        assert_eq!(question("a.bc")[12..], [1, b'a', 2, b'b', b'c', 0, 0, 1, 0, 1]);
    }

    #[test]
    fn only_a_reply_with_a_record_is_an_answer() {
        let reply = |flags: [u8; 2], records: u8| {
            let mut message = question("a");
            message[2..4].copy_from_slice(&flags);
            message[7] = records;
            message
        };
        assert!(is_answer(&reply([0x85, 0x80], 1)));
        assert!(!is_answer(&reply([0x85, 0x83], 0)), "no such name");
        assert!(!is_answer(&reply([0x01, 0x00], 1)), "a question is no reply");
        assert!(!is_answer(&[]));
    }
}
