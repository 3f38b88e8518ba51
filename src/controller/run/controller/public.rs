//! Learns whether exit images can be pulled without credentials.

use swaplet_core::cluster::exit_images::public::Public;
use swaplet_core::image::reference::ImageReference;
use tokio::time::{Instant, timeout_at};

use super::Controller;
use crate::run::settings::Settings;
use crate::terminate::public::{FIRST, Questions};

/// Asks about the exit images that the administrator names, unless the answer is known.
pub(super) fn questions(settings: &Settings) -> Questions {
    let exit_images = &settings.rules.exit_images;
    let mut questions = Questions::new(settings.ask_public.clone());
    let is_unknown =
        |image: &ImageReference| exit_images.is_public(image.as_str()) == Public::Unknown;
    for image in exit_images.named().filter(is_unknown) {
        questions.ask(&image);
    }
    questions
}

impl Controller {
    /// Asks about a derived exit image, unless the answer is known for its repository.
    pub(super) fn ask_about(&mut self, reference: &str) {
        let is_unknown = self.index.rules().exit_images.is_public(reference) == Public::Unknown;
        if is_unknown && let Ok(image) = ImageReference::parse(reference) {
            self.questions.ask(&image);
        }
    }

    /// Waits for the first answers, for a few seconds at most.
    pub(in crate::run) async fn first_answers(&mut self) {
        let until = Instant::now() + FIRST;
        while let Ok(Some((image, public))) = timeout_at(until, self.questions.next()).await {
            self.answered(&image, public);
        }
    }

    /// Handles the answer of a registry.
    pub(in crate::run) fn answered(&mut self, image: &ImageReference, public: Public) {
        tracing::info!(%image, ?public, "whether the exit image can be pulled without credentials");
        self.index.public_came(image, public);
    }
}
