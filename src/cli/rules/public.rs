//! Whether the exit image can be pulled without credentials, for commands that decide about pods
//! without the controller.

use std::time::Duration;

use futures::future::join_all;
use swaplet_controller::terminate::public::{Answer, AskPublic};
use swaplet_core::cluster::exit_images::{ExitImages, Public};
use swaplet_core::image::reference::ImageReference;
use tokio::time::timeout;

use super::ASSUMED_EXIT_IMAGE;

/// How long an answer is waited for: a person waits for it too.
const WAITS: Duration = Duration::from_secs(5);

/// Asks the registries of the exit images that are named in full from here, unless the answer is
/// known. Returns a remark for each that gives no clear one.
pub async fn learn(exit_images: &mut ExitImages, ask: &AskPublic) -> Vec<String> {
    let is_unknown =
        |image: &ImageReference| exit_images.is_public(image.as_str()) == Public::Unknown;
    let images: Vec<_> = exit_images.named().filter(is_unknown).collect();
    let answers = join_all(images.iter().map(|image| answer(image, ask))).await;
    let mut remarks = Vec::new();
    for (image, answer) in images.iter().zip(answers) {
        match answer {
            Ok(public) => {
                let public = if public { Public::Yes } else { Public::No };
                exit_images.answered_public(image, public);
            }
            Err(error) => {
                remarks.push(format!(
                    "it is not known here whether {image} can be pulled without credentials, so pods under restartPolicy Never count as ended by their phase: say it with --exit-image-is-public ({error})"
                ))
            }
        }
    }
    remarks
}

async fn answer(image: &ImageReference, ask: &AskPublic) -> Answer {
    if image.as_str() == ASSUMED_EXIT_IMAGE {
        return Ok(true);
    }
    let asked = timeout(WAITS, ask.ask(image)).await;
    asked.unwrap_or_else(|_| Err(format!("no answer within {} s", WAITS.as_secs())))
}
