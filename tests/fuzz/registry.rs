//! A registry that answers everything with the same bytes, and the questions that the controller
//! asks of one.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use swaplet::image::docker_config::Credentials;
use swaplet::image::for_controller::push_derived;
use swaplet::image::reference::ImageReference;
use swaplet::image::registry::{Access, RegistryOptions, is_public};

/// What a question may take: an answer that is cut off is waited for.
const PATIENCE: Duration = Duration::from_millis(100);

struct Registry {
    host: String,
    answer: Mutex<String>,
}

/// Loopback only; it ends with the process.
fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            listener
                .incoming()
                .filter_map(Result::ok)
                .for_each(|stream| drop(serve(stream)))
        });
        Registry {
            host,
            answer: Mutex::new(String::new()),
        }
    })
}

fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    // Questions without a body fit into one packet.
    let _ = stream.read(&mut [0; 8192])?;
    let answer = registry().answer.lock().unwrap().clone();
    stream.write_all(answer.as_bytes())
}

/// Asks a registry that answers with this whether an image is public, and to take one; what it wants
/// to be waited for is an hour at most.
pub fn ask(answer: &str) {
    registry().answer.lock().unwrap().clear();
    registry()
        .answer
        .lock()
        .unwrap()
        .push_str(&answer.replace('\n', "\r\n"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let reference =
        |path: &str| ImageReference::parse(&format!("{}/{path}", registry().host)).unwrap();
    let options = |access| RegistryOptions {
        access,
        timeout: PATIENCE,
        pauses: Vec::new(),
        note: |_| (),
        ..RegistryOptions::default()
    };
    runtime.block_on(async {
        let hour = Duration::from_secs(3600);
        drop(is_public(&reference("team/exit:1"), options(Access::Pull)).await);
        let (repository, paths) = (reference("derived"), ["/x".to_owned()]);
        let pushed = push_derived(
            &repository,
            Ok(Credentials::Anonymous),
            options(Access::PullAndPush),
            &paths,
        )
        .await;
        assert!(
            pushed
                .err()
                .and_then(|why| why.retry_after)
                .is_none_or(|wait| wait <= hour)
        );
    });
}
