//! keepalived as a peer.
