//! Servers in a cluster, against the API server in this process. The test plays the controller.

mod api_server;
mod cache;
mod crashes;
mod crowd;
mod failures;
mod life;
mod namespaces;
mod start;
mod test_cluster;
