//! Adopts containers that ran before this kubelet: containers continue while a kubelet is away.

use jiff::Timestamp;
use swaplet_core::image::ImageReference;

use super::Kubelet;
use super::state::unit::{Record, State};
use crate::virtual_node::images::{Images, Local};
use crate::virtual_node::life::{End, Life};
use crate::virtual_node::pod::{Container, SeenStatus};

impl Kubelet {
    /// Adopts the containers that the status shows, once.
    pub(super) fn adopt(&mut self, images: &mut Images) {
        if std::mem::replace(&mut self.adopted, true) {
            return;
        }
        for index in 0..self.units.len() {
            if let Some(record) = self.found(index, images) {
                self.units[index].records.push(record);
                self.has_sandbox = true;
            }
        }
        self.started = self
            .pod
            .status
            .start_time
            .as_ref()
            .and_then(|text| text.parse::<Timestamp>().ok());
        self.status.phase = if self.has_sandbox {
            self.pod.status.phase.clone()
        } else {
            String::new()
        };
    }

    fn found(&self, index: usize, images: &mut Images) -> Option<Record> {
        let unit = &self.units[index];
        let status = &self.pod.status;
        let statuses = if unit.init {
            &status.init_container_statuses
        } else {
            &status.container_statuses
        };
        let status = statuses
            .iter()
            .find(|status| status.name == unit.spec.name)?;
        let state = match (status.running_since(), status.ended()) {
            (Some(since), _) => {
                // It runs the image with which it was started, whatever the spec has by now.
                let spec = Container {
                    image: wanted(&unit.spec, status),
                    ..unit.spec.clone()
                };
                let behaviour = spec
                    .behaviour(images, self.policy(), self.options.exit_runs)
                    .ok()?;
                State::Running(since, Life::start(behaviour, status.restart_count, since))
            }
            (None, Some((since, at, code))) => State::Ended(since, End { at, code }),
            (None, None) => return None,
        };
        images.pull(&status.image);
        let local = Local {
            image: status.image.clone(),
            image_id: status.image_id.clone(),
        };
        Some(Record {
            wanted: wanted(&unit.spec, status),
            local,
            id: status.container_id.clone()?,
            restarts: status.restart_count,
            state,
        })
    }
}

/// Returns the image with which the container was started: that of the spec, unless the status
/// contradicts it.
fn wanted(spec: &Container, status: &SeenStatus) -> String {
    let same = ImageReference::parse(&spec.image).is_ok_and(|image| match image.digest() {
        Some(digest) => status.image_id.ends_with(digest),
        None => image.normalized() == status.image,
    });
    if same || spec.image == status.image_id {
        spec.image.clone()
    } else {
        status.image.clone()
    }
}
