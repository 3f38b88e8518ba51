//! The table of kubeconfigs and environments in `kubeconfigs.yaml`: which server a command asks, in
//! which namespace and with which credentials, or that it refuses. Each row has the answer of
//! kubectl, which is checked where kubectl is installed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use serde::Deserialize;

const TABLE: &str = include_str!("kubeconfigs.yaml");
/// The answer of a command that asks none of the servers.
const REFUSED: &str = "refused";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// What kubeconfigs have in common.
    pieces: BTreeMap<String, String>,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    /// The files, by their paths in the folder in which the commands run, which is their home.
    files: BTreeMap<String, String>,
    /// The variables, instead of `KUBECONFIG=config`.
    #[serde(default)]
    env: Option<BTreeMap<String, String>>,
    #[serde(default)]
    args: Vec<String>,
    /// The answer: server, namespace and credentials, or [`REFUSED`].
    kubectl: String,
    /// The answer of swaplet where it is another one, and why that is so.
    #[serde(default)]
    swaplet: Option<(String, String)>,
}

/// An authority, its certificate for a client, and an authority that has signed nothing.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    roots: Arc<RootCertStore>,
    /// The contents of files.
    files: BTreeMap<&'static str, String>,
}

impl Authority {
    fn new() -> Self {
        let ca = |key: &KeyPair| {
            let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let own = params.self_signed(key).unwrap();
            (params, own)
        };
        let key = KeyPair::generate().unwrap();
        let (params, own) = ca(&key);
        let issuer = Issuer::new(params, key);
        let mut roots = RootCertStore::empty();
        roots.add(own.der().clone()).unwrap();
        let client = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["client".to_owned()]).unwrap();
        let certificate = certificate.signed_by(&client, &issuer).unwrap();
        let (_, other) = ca(&KeyPair::generate().unwrap());
        let files = [
            ("ca.pem", own.pem()),
            ("other-ca.pem", other.pem()),
            ("client.pem", certificate.pem()),
            ("client.key", client.serialize_pem()),
        ];
        Self {
            issuer,
            roots: Arc::new(roots),
            files: files.into(),
        }
    }

    /// A server of this name, which asks for a certificate and does without one.
    fn server(&self, name: &str) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new([name.to_owned()]).unwrap();
        let own = own.signed_by(&key, &self.issuer).unwrap();
        let provider = Arc::new(default_provider());
        let clients =
            WebPkiClientVerifier::builder_with_provider(self.roots.clone(), provider.clone());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients.allow_unauthenticated().build().unwrap())
            .with_single_cert(
                vec![own.der().clone()],
                PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            );
        Arc::new(config.unwrap())
    }
}

type Asked = Arc<Mutex<BTreeSet<String>>>;

/// Starts a server, which notes what it is asked.
fn start(name: &'static str, tls: Option<Arc<ServerConfig>>, asked: Asked) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (tls, asked) = (tls.clone(), asked.clone());
            std::thread::spawn(move || serve(name, stream.unwrap(), tls, &asked));
        }
    });
    address
}

fn serve(name: &str, mut tcp: TcpStream, tls: Option<Arc<ServerConfig>>, asked: &Asked) {
    tcp.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // Before the answer: who has it may have ended before anything else is done here.
    let note = |words: Option<String>| asked.lock().unwrap().extend(words);
    let Some(tls) = tls else {
        if let Some(head) = request(&mut tcp) {
            note(noted(name, &head));
            answer(&mut tcp);
        }
        return;
    };
    let mut stream = StreamOwned::new(ServerConnection::new(tls).unwrap(), tcp);
    if let Some(head) = request(&mut stream) {
        let certified = stream.conn.peer_certificates().is_some();
        let with = if certified { " certificate" } else { "" };
        note(noted(name, &head).map(|words| words + with));
        answer(&mut stream);
    }
}

/// Reads a request and returns its head; `None` where there was none.
fn request(stream: &mut impl Read) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if head.is_empty() && byte == [5] {
            return Some("SOCKS5".to_owned());
        }
        stream.read_exact(&mut byte).ok()?;
        head.extend(byte.into_iter().filter(|byte| *byte != 5));
    }
    let head = String::from_utf8(head).ok()?;
    let length = header(&head, "content-length").and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or_default()];
    stream.read_exact(&mut body).ok()?;
    Some(head)
}

fn answer(stream: &mut impl Write) {
    let body = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":"NotFound","code":404}"#;
    let _ = write!(
        stream,
        "HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.flush();
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    let found = lines.find(|(of, _)| of.eq_ignore_ascii_case(name));
    Some(found?.1)
}

/// What is noted of a request: the server with the path before its API, the namespace, the
/// credentials; of a proxy, where it is to connect to. Requests without a namespace are not noted:
/// the two programs make different ones.
fn noted(name: &str, head: &str) -> Option<String> {
    let mut words = name.to_owned();
    let path = head.split(' ').nth(1).unwrap_or_default();
    let proxied = path
        .strip_prefix("http://")
        .and_then(|to| to.split('/').next());
    if head == "SOCKS5" {
        words += " by SOCKS5";
    } else if let Some(to) = proxied.or_else(|| head.starts_with("CONNECT ").then_some(path)) {
        write!(words, " to {to}").unwrap();
    } else {
        let (before, rest) = path.split_once("/api")?;
        let (_, namespace) = rest.split_once("/namespaces/")?;
        let namespace = namespace.split('/').next()?;
        write!(words, "{before} {namespace}").unwrap();
    }
    let given = ["proxy-authorization", "authorization"];
    for credentials in given.iter().filter_map(|name| header(head, name)) {
        write!(words, " {credentials}").unwrap();
    }
    if let Some(user) = header(head, "impersonate-user") {
        write!(words, " as {user}").unwrap();
        let groups = head.lines().filter_map(|line| line.split_once(": "));
        for (_, group) in groups.filter(|(of, _)| of.eq_ignore_ascii_case("impersonate-group")) {
            write!(words, "/{group}").unwrap();
        }
    }
    Some(words)
}

/// Where the rows are tried.
struct Field {
    asked: Asked,
    /// What stands for `${NAME}` in a row.
    names: BTreeMap<String, String>,
    authority: Authority,
}

impl Field {
    fn new(pieces: &BTreeMap<String, String>) -> Self {
        let (authority, asked) = (Authority::new(), Asked::default());
        let (a, b) = (authority.server("127.0.0.1"), authority.server("127.0.0.1"));
        let named = authority.server("api.example");
        let mut names = pieces.clone();
        for (name, tls) in [
            ("A", Some(a)),
            ("B", Some(b)),
            ("NAMED", Some(named)),
            ("PLAIN", None),
        ] {
            let address = start(name, tls, asked.clone()).to_string();
            names.insert(name.to_owned(), address);
        }
        for (name, text) in &authority.files {
            names.insert(format!("base64 {name}"), STANDARD.encode(text));
        }
        Self {
            asked,
            names,
            authority,
        }
    }

    fn filled(&self, text: &str, folder: &Path) -> String {
        let mut text = text.to_owned();
        // Pieces have names in them.
        while let Some((before, rest)) = text.split_once("${") {
            let (name, after) = rest.split_once('}').unwrap();
            let value = match name {
                "HERE" => folder.to_str().unwrap(),
                name => &self.names[name],
            };
            text = format!("{before}{value}{after}");
        }
        text
    }

    /// Writes the files of a row.
    fn folder(&self, row: &Row) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let given = self.authority.files.iter();
        let given = given.map(|(name, text)| ((*name).to_owned(), text.clone()));
        let own = row.files.iter();
        let own = own.map(|(name, text)| (name.clone(), self.filled(text, folder.path())));
        for (name, text) in given.chain(own) {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &text).unwrap();
            if text.starts_with("#!") {
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
        folder
    }

    /// Returns the answer of a command to a row, and what it has said.
    fn answer(&self, row: &Row, program: &str, words: &[&str]) -> (String, String) {
        let folder = self.folder(row);
        let mut command = Command::new(program);
        command
            .args(words)
            .args(row.args.iter().map(|word| self.filled(word, folder.path())))
            .current_dir(folder.path())
            .env("HOME", folder.path())
            .stdin(Stdio::null());
        for name in ["HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"] {
            command.env_remove(name).env_remove(name.to_lowercase());
        }
        command.env_remove("KUBECONFIG");
        match &row.env {
            Some(variables) => command.envs(
                variables
                    .iter()
                    .map(|(name, value)| (name, self.filled(value, folder.path()))),
            ),
            None => command.env("KUBECONFIG", "config"),
        };
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        let answer = match asked.len() {
            0 => REFUSED.to_owned(),
            _ => Vec::from_iter(asked).join(" and "),
        };
        (answer, String::from_utf8_lossy(&said).into_owned())
    }
}

fn has_kubectl() -> bool {
    let mut command = Command::new("kubectl");
    command.args(["version", "--client"]);
    command.output().is_ok_and(|output| output.status.success())
}

#[test]
fn a_command_asks_the_cluster_that_kubectl_would_ask() {
    let table: Table = serde_saphyr::from_str(TABLE).unwrap();
    assert!(table.rows.len() >= 30);
    let (field, has_kubectl) = (Field::new(&table.pieces), has_kubectl());
    let mut wrong = String::new();
    for row in &table.rows {
        let differs = row.swaplet.as_ref();
        let expected = differs.map_or(&row.kubectl, |(answer, _)| answer);
        assert!(
            differs.is_none_or(|(answer, why)| *answer != row.kubectl && !why.is_empty()),
            "{}",
            row.name
        );
        let swaplet = (
            env!("CARGO_BIN_EXE_swaplet"),
            &["explain", "x"][..],
            expected,
        );
        // Of all commands this one asks first, and nothing else.
        let kubectl = ("kubectl", &["create", "token", "x"][..], &row.kubectl);
        for (program, words, expected) in [Some(swaplet), has_kubectl.then_some(kubectl)]
            .into_iter()
            .flatten()
        {
            let (answer, said) = field.answer(row, program, words);
            if answer != *expected {
                writeln!(
                    wrong,
                    "{}: {program} gives {answer:?}, not {expected:?}: {said}",
                    row.name
                )
                .unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
