//! The parts that every object of the API has.

use serde::Deserialize;

use super::lenient::{Lenient, Object};

/// An object as it comes over the wire. Each part is read leniently by itself, so an object decodes
/// whatever its fields hold.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "M: Part, S: Part, T: Part"))]
pub(crate) struct Parts<M, S, T> {
    pub metadata: Lenient<Object<M>>,
    pub spec: Lenient<Object<S>>,
    pub status: Lenient<Object<T>>,
}

/// A part that [`Parts`] can decode.
pub trait Part: Default + for<'a> Deserialize<'a> {}

impl<T: Default + for<'a> Deserialize<'a>> Part for T {}
