//! The same server on a real port, for `kubectl` and other processes.

use std::io;
use std::net::SocketAddr;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::apiserver::server::ApiServer;

impl ApiServer {
    /// Serves plain HTTP on a listener until it is dropped. There is no authentication: listen on
    /// loopback only.
    ///
    /// # Errors
    /// The listener fails, or it listens to more than this machine.
    pub async fn serve(&self, listener: TcpListener) -> io::Result<()> {
        refuse_public(listener.local_addr()?)?;
        // Connections end with this future.
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    connections.spawn(self.clone().converse(accepted?.0));
                }
                Some(_) = connections.join_next() => {}
            }
        }
    }

    async fn converse(self, stream: TcpStream) {
        let service = TowerToHyperService::new(self);
        // A connection that ends early, also by an injected fault, is for the client to notice.
        let _ = http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    /// Returns a kubeconfig for a server on this address.
    pub fn kubeconfig(address: SocketAddr) -> String {
        let cluster = format!("- name: swaplet\n  cluster:\n    server: http://{address}\n");
        let context = "- name: swaplet\n  context:\n    cluster: swaplet\n    user: swaplet\n    namespace: default\n";
        let user = "- name: swaplet\n  user: {}\n";
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: swaplet\nclusters:\n{cluster}contexts:\n{context}users:\n{user}"
        )
    }
}

fn refuse_public(address: SocketAddr) -> io::Result<()> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    let message =
        format!("{address} is not a loopback address, and this server asks nobody who they are");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}
