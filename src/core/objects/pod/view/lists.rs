//! The lists of a container that are not kept as a whole.

use serde::de::SeqAccess;

use super::volumes::MountView;
use crate::objects::values::bounds;
use crate::objects::values::lenient::{Filled, Lenient, Object, Shape, Text, drain_array};

/// `command`, of which only the first item is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandView {
    pub(crate) first: Option<Box<str>>,
    pub(crate) malformed: bool,
}

impl Shape for CommandView {
    fn from_array<'de, A: SeqAccess<'de>>(
        mut array: A,
        _: usize,
    ) -> Result<Option<Self>, A::Error> {
        let Some(first) = array.next_element::<Text<{ bounds::ARGUMENT }>>()? else {
            return Ok(Some(Self::default()));
        };
        let mut command = Self {
            first: Some(first.value.unwrap_or_default()),
            malformed: first.malformed,
        };
        while let Some(item) = array.next_element::<Lenient<Filled>>()? {
            command.malformed |= item.malformed;
        }
        Ok(Some(command))
    }
}

/// `volumeMounts`; empty if there are too many.
#[derive(Clone, Debug, Default)]
pub(crate) struct MountsView {
    pub(crate) list: Vec<Lenient<Object<MountView>>>,
    pub(crate) too_many: bool,
}

impl Shape for MountsView {
    fn from_array<'de, A: SeqAccess<'de>>(
        mut array: A,
        _: usize,
    ) -> Result<Option<Self>, A::Error> {
        let (mut list, mut bytes) = (Vec::new(), 0);
        while let Some(mount) = array.next_element::<Lenient<Object<MountView>>>()? {
            bytes += mount
                .value
                .0
                .mount_path
                .value
                .as_ref()
                .map_or(0, |path| path.len());
            if list.len() >= bounds::MOUNTS || bytes > bounds::MOUNT_PATHS {
                return drain_array(array).map(|()| {
                    Some(Self {
                        list: Vec::new(),
                        too_many: true,
                    })
                });
            }
            list.push(mount);
        }
        Ok(Some(Self {
            list,
            too_many: false,
        }))
    }
}
