//! A registry of a few lines that answers as a test wants, for everything that a real one does not
//! do on request.

use std::io::{BufRead, BufReader, Read, Write, copy, sink};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What came in.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub authorization: Option<String>,
    /// The length of the body, if it is said.
    pub length: Option<u64>,
}

impl Request {
    /// Whether this begins an upload.
    pub fn is_upload(&self) -> bool {
        self.method == "POST" && self.path.contains("/blobs/uploads")
    }
}

/// What goes out.
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

impl Answer {
    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: String::new(),
        }
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn body(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        self
    }
}

/// The registry; its threads end with the process.
pub struct FakeRegistry {
    /// Host and port.
    pub host: String,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl FakeRegistry {
    /// Answers each request with what `answer` says; it is also told how many came before.
    pub fn start(answer: impl Fn(&Request, usize) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let own = host.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                serve(stream.unwrap(), &own, &log, &answer);
            }
        });
        Self { host, seen }
    }

    /// Everything that came in.
    pub fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }
}

fn serve(
    mut stream: TcpStream,
    own: &str,
    log: &Mutex<Vec<Request>>,
    answer: &impl Fn(&Request, usize) -> Answer,
) {
    let Some(request) = read(&stream) else { return };
    let before = {
        let mut log = log.lock().unwrap();
        log.push(request.clone());
        log.len() - 1
    };
    let Answer {
        status,
        headers,
        body,
    } = answer(&request, before);
    // A test does not know the port when it writes its answers.
    let headers: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {}\r\n", value.replace("HOST", own)))
        .collect();
    let length = body.len();
    let body = if request.method == "HEAD" {
        String::new()
    } else {
        body
    };
    let text = format!(
        "HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    let _ = stream.write_all(text.as_bytes());
}

/// The request line and the headers; no test looks at a body, but the answer would be lost if it
/// were not read.
fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut lines = reader.by_ref().lines().map_while(Result::ok);
    let first = lines.next()?;
    let (method, rest) = first.split_once(' ')?;
    let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let header = |wanted: &str| {
        let pairs = headers.iter().filter_map(|line| line.split_once(": "));
        let mut values = pairs.filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        values.next().map(|(_, value)| value.to_owned())
    };
    let length = header("content-length").and_then(|length| length.parse().ok());
    copy(&mut reader.take(length.unwrap_or_default()), &mut sink()).ok()?;
    Some(Request {
        method: method.to_owned(),
        path: rest.split(' ').next()?.to_owned(),
        authorization: header("authorization"),
        length,
    })
}
