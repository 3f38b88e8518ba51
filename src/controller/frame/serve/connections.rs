//! The connections that are served, and for how long: the port has no authentication, so a client
//! that only connects must not cost anything.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, yield_now};
use tokio::time::{sleep, timeout};

use super::{Health, answer};

/// The most connections at once; kubelets and Prometheus need two or three. One more ends the one
/// that was accepted first: whoever keeps connections open, from however many addresses, keeps
/// nobody else waiting, for an answer takes less time than that many further connections.
const CONNECTIONS: usize = 64;
/// The deadline for the headers of a request.
const HEADERS_WITHIN: Duration = Duration::from_secs(5);
/// The pause after an error, which lasts if it is a lack of file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_secs(1);

/// Serves all connections, forever.
pub async fn serve(listener: TcpListener, registry: Arc<Registry>, health: Health) {
    serve_those(accepted_by(listener), HEADERS_WITHIN, registry, health).await;
}

type Accepted = std::io::Result<(TcpStream, SocketAddr)>;
type Accepting = Pin<Box<dyn Future<Output = Accepted> + Send>>;

fn accepted_by(listener: TcpListener) -> impl FnMut() -> Accepting {
    let listener = Arc::new(listener);
    move || {
        let listener = listener.clone();
        Box::pin(async move { listener.accept().await })
    }
}

/// Serves one request per connection, so that no idle client keeps one.
async fn serve_those<F>(
    mut accept: impl FnMut() -> F,
    headers_within: Duration,
    registry: Arc<Registry>,
    health: Health,
) where
    F: Future<Output = Accepted>,
{
    let mut open = VecDeque::<AbortHandle>::new();
    loop {
        let stream = match accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "a connection cannot be accepted");
                sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        if open.len() >= CONNECTIONS
            && let Some(first) = open.pop_front()
        {
            first.abort();
        }
        let (registry, health) = (registry.clone(), health.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let response = answer(request.uri().path(), &registry, &health);
            async move { Ok::<_, Infallible>(response) }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(headers_within)
            .keep_alive(false);
        let connection = http.serve_connection(TokioIo::new(stream), service);
        // A connection that reads its answer slowly is closed as well.
        let served = tokio::spawn(timeout(headers_within * 2, connection));
        open.push_back(served.abort_handle());
        // Those that are accepted are served before more of a backlog are.
        yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// What is answered to a request for `/healthz` from this address, or nothing.
    async fn healthz(server: SocketAddr, from: &str) -> String {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
        let mut stream = socket.connect(server).await.unwrap();
        let _ = stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            .await;
        let mut answer = Vec::new();
        let _ = timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await;
        String::from_utf8(answer).unwrap()
    }

    async fn is_answered(server: SocketAddr, from: &str) -> bool {
        healthz(server, from).await.starts_with("HTTP/1.1 200")
    }

    /// Four addresses with a hundred connections each.
    #[tokio::test]
    async fn a17_who_connects_and_sends_nothing_keeps_nobody_else_waiting_and_is_gone_soon() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let within = Duration::from_secs(5);
        let server = tokio::spawn(async move {
            serve_those(
                accepted_by(listener),
                within,
                Arc::default(),
                Health::default(),
            )
            .await;
        });
        let mut silent = Vec::new();
        for nth in 0..400 {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            let from = format!("127.0.1.{}:0", nth % 4 + 1);
            socket.bind(from.parse().unwrap()).unwrap();
            silent.push(socket.connect(address).await.unwrap());
            if nth % 50 == 0 {
                assert!(is_answered(address, "127.0.0.2").await, "{nth}");
                assert!(is_answered(address, "127.0.1.1").await, "{nth}");
            }
        }
        assert!(is_answered(address, "127.0.0.2").await);
        for stream in &mut silent {
            let mut nothing = Vec::new();
            let ended = timeout(within * 4, stream.read_to_end(&mut nothing)).await;
            assert!(ended.is_ok(), "a connection without a request has an end");
        }
        server.abort();
    }

    #[tokio::test]
    async fn a17_one_connection_is_for_one_request() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(serve(listener, Arc::default(), Health::default()));
        let answer = timeout(Duration::from_secs(2), healthz(address, "127.0.0.1")).await;
        assert!(
            answer.is_ok_and(|answer| answer.contains("connection: close")),
            "it ends with the answer"
        );
        server.abort();
    }

    /// Without file descriptors each try fails at once.
    #[tokio::test(start_paused = true)]
    async fn a17_an_error_that_lasts_is_not_met_over_and_over() {
        let tries = std::cell::Cell::new(0);
        let accept = || {
            tries.set(tries.get() + 1);
            std::future::ready(Err(std::io::Error::other("too many open files")))
        };
        let serving = serve_those(accept, HEADERS_WITHIN, Arc::default(), Health::default());
        assert!(timeout(Duration::from_secs(60), serving).await.is_err());
        assert!((30..=61).contains(&tries.get()), "{}", tries.get());
    }
}
