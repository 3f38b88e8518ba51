//! The mounts of the containers of a pod.

use super::volumes::{Mount, Volume};
use super::{Container, Spec};

impl Spec {
    /// Sets for each mount what its volume is.
    pub fn join(&mut self) {
        let is_configuration = |volume: &Volume| {
            volume.config_map.is_some() || volume.secret.is_some() || volume.projected.is_some()
        };
        for container in self.init_containers.iter_mut().chain(&mut self.containers) {
            for mount in &mut container.volume_mounts {
                let volume = self.volumes.iter().find(|volume| volume.name == mount.name);
                mount.is_configuration = volume.is_some_and(is_configuration);
            }
        }
    }
}

impl Container {
    /// Returns true if the program is on a volume, where it stays whatever the image is.
    pub fn command_is_on_a_volume(&self) -> bool {
        self.mount_of_command()
            .is_some_and(|mount| !mount.is_configuration)
    }

    /// Returns true if the program is a script: only its interpreter depends on the image.
    pub fn command_is_a_script(&self) -> bool {
        self.mount_of_command()
            .is_some_and(|mount| mount.is_configuration)
    }

    /// Returns the innermost mount that contains the command.
    fn mount_of_command(&self) -> Option<&Mount> {
        let command = self.command.first()?;
        let below = |mount: &&Mount| {
            command
                .strip_prefix(mount.mount_path.trim_end_matches('/'))
                .is_some_and(|rest| rest.starts_with('/'))
        };
        self.volume_mounts
            .iter()
            .filter(|mount| !mount.mount_path.is_empty())
            .filter(below)
            .max_by_key(|mount| mount.mount_path.len())
    }
}
