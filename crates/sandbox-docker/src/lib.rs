//! sandbox-docker.
