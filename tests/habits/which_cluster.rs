//! Which cluster a command talks to, and by which way: kubeconfigs and proxies as kubectl takes
//! them. Nothing takes the place of a kubeconfig that cannot be used.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::{Home, closed, said};

/// A proxy with the API server behind it, whatever that is called; remembers where it was asked to
/// connect to, and with which credentials.
struct Proxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

fn head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

impl Proxy {
    fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let proxy = Self {
            address: listener.local_addr().unwrap(),
            asked: Arc::default(),
        };
        let asked = proxy.asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let connect = head(&mut stream);
                asked.lock().unwrap().push(connect);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
                head(&mut stream);
                let body = r#"{"major":"1","minor":"37","gitVersion":"v1.37.2","gitCommit":"","gitTreeState":"","buildDate":"","goVersion":"","compiler":"","platform":""}"#;
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        proxy
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

/// A kubeconfig with one context for this server, and more in its cluster.
fn kubeconfig(home: &Home, name: &str, server: &str, more: &str) -> String {
    let file = home.0.path().join(name);
    let config = format!(
        "{{clusters: [{{name: {name}, cluster: {{server: '{server}'{more}}}}}], users: [{{name: u, user: {{}}}}], \
         contexts: [{{name: {name}, context: {{cluster: {name}, user: u}}}}], current-context: {name}}}"
    );
    std::fs::write(&file, config).unwrap();
    file.to_str().unwrap().to_owned()
}

/// What `swaplet version` says, with these variables.
fn version(home: &Home, variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let program = Path::new(env!("CARGO_BIN_EXE_swaplet"));
    let mut command = home.command(program, &["version"]);
    for name in ["HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command.env_remove("KUBECONFIG");
    said(command.envs(variables.iter().copied()).output().unwrap())
}

#[test]
fn proxies_are_used_and_left_out_as_kubectl_does() {
    let (home, proxy) = (Home::of(closed()), Proxy::start());
    let at = format!("http://user:word@{}", proxy.address);
    let own = kubeconfig(
        &home,
        "own",
        "http://api.invalid:6443",
        &format!(", proxy-url: '{at}'"),
    );
    let plain = kubeconfig(&home, "plain", "http://api.invalid:6443", "");
    for (what, file, variables, expected) in [
        ("proxy-url", &own, vec![], true),
        (
            "proxy-url before NO_PROXY",
            &own,
            vec![("NO_PROXY", "*")],
            true,
        ),
        ("HTTP_PROXY", &plain, vec![("HTTP_PROXY", &*at)], true),
        ("http_proxy", &plain, vec![("http_proxy", &*at)], true),
        (
            "of the other kind",
            &plain,
            vec![("HTTPS_PROXY", &*at)],
            false,
        ),
        (
            "NO_PROXY",
            &plain,
            vec![("HTTP_PROXY", &*at), ("NO_PROXY", "b.invalid,.invalid")],
            false,
        ),
    ] {
        let variables = [&[("KUBECONFIG", &**file)], &variables[..]].concat();
        let (_, out, err) = version(&home, &variables);
        let asked = proxy.asked();
        assert_eq!(!asked.is_empty(), expected, "{what}: {out}{err}");
        if expected {
            assert!(out.contains("v1.37.2"), "{what}: {out}{err}");
            assert!(
                asked[0].starts_with("CONNECT api.invalid:6443 "),
                "{asked:?}"
            );
            assert!(asked[0].contains("Basic dXNlcjp3b3Jk"), "{asked:?}");
        }
    }
    let dead = format!("http://user:word@{}", closed());
    let (_, out, err) = version(&home, &[("KUBECONFIG", &plain), ("HTTP_PROXY", &dead)]);
    let words = format!("{out}{err}");
    assert!(
        words.contains("api.invalid:6443 through the proxy http://127.0.0.1:")
            && !words.contains("word"),
        "{words}"
    );
    let (_, out, err) = version(
        &home,
        &[("KUBECONFIG", &plain), ("HTTP_PROXY", "ftp://p.invalid")],
    );
    assert!(
        format!("{out}{err}")
            .contains("write http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT"),
        "{out}{err}"
    );
}

#[test]
fn a_kubeconfig_that_cannot_be_used_is_an_error_that_names_it() {
    let home = Home::of(closed());
    let good = kubeconfig(&home, "good", &format!("http://{}", closed()), "");
    let other = kubeconfig(&home, "other", "http://127.0.0.1:1", "");
    let write = |name: &str, text: &str| {
        let file = home.0.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let no_yaml = write("no-yaml", "{clusters: [");
    let no_context = write("no-context", "{clusters: [], contexts: []}");
    let missing = write(
        "missing",
        "{clusters: [], contexts: [], current-context: gone}",
    );
    let empty = write("empty", "");
    let folder = home.0.path().to_str().unwrap();
    for (list, expected) in [
        (no_yaml.clone(), "no-yaml"),
        (no_context, "no current-context"),
        (missing, "gone"),
        (empty, "no current-context"),
        (folder.to_owned(), folder),
        ("/nothere".to_owned(), "no file of this list exists"),
        (":".to_owned(), "no file of this list exists"),
        (format!("{good}:{no_yaml}"), "no-yaml"),
        // The first context counts, and missing files are skipped.
        (format!("/nothere:{good}"), "cannot connect"),
        (format!("{other}:{good}"), "127.0.0.1:1"),
    ] {
        let (_, out, err) = version(&home, &[("KUBECONFIG", &list)]);
        let words = format!("{out}{err}");
        assert!(words.contains(expected), "{list}: {words}");
    }
    // A default file is one, too.
    std::fs::create_dir(home.0.path().join(".kube")).unwrap();
    write(".kube/config", "{clusters: [");
    let (_, out, err) = version(&home, &[]);
    assert!(format!("{out}{err}").contains(".kube/config"), "{out}{err}");
    let (_, out, err) = version(&home, &[("KUBECONFIG", "")]);
    assert!(format!("{out}{err}").contains(".kube/config"), "{out}{err}");
}
