//! Certificates in Secrets.
