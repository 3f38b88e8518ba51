//! Passes a contestant's connections on and counts what it receives. It takes processor time, so
//! only rows that look at bytes go through it.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A relay; it ends with this value.
pub struct Relay {
    /// Where it listens.
    pub port: u16,
    received: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Relay {
    /// Passes connections on to this port of this machine.
    ///
    /// # Errors
    /// Where there is no port to listen on.
    pub async fn open(to: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let received = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&received);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, to, Arc::clone(&count)));
            }
        });
        Ok(Self {
            port,
            received,
            task,
        })
    }

    /// Bytes that have come from the server so far.
    pub fn received(&self) -> f64 {
        self.received.load(Ordering::Relaxed) as f64
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(client: TcpStream, to: u16, count: Arc<AtomicU64>) -> Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let up = async {
        copy(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await
    };
    let down = async {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = from_server.read(&mut buffer).await?;
            if read == 0 {
                return to_client.shutdown().await;
            }
            count.fetch_add(read as u64, Ordering::Relaxed);
            to_client.write_all(&buffer[..read]).await?;
        }
    };
    tokio::try_join!(up, down)?;
    Ok(())
}
