//! Lists that are read in pages.

use std::fmt::Debug;
use std::time::Duration;

use kube::Resource;
use serde::de::DeserializeOwned;
use swaplet_core::objects::values::bounds::{MESSAGE, cut};

use super::answers::{asked_for, is_no_question, trouble};
use super::{ASK_ONCE_MORE, Closed, Event, NO_QUESTION, Watch};
use crate::frame::list::pages::page;

impl<K: Resource + Clone + DeserializeOwned + Debug + Send + 'static> Watch<K> {
    /// Reports the objects page by page. Returns the list's version, or `None` if a page failed.
    pub(super) async fn pages(&mut self) -> Result<Option<String>, Closed> {
        let mut params = self.params.clone();
        loop {
            let list = match page(&self.api, &params, &mut self.page_size).await {
                Ok(Ok(list)) => list,
                Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
                    self.age.forbidden();
                    return self
                        .list_failed(
                            Event::Forbidden(cut(&status.message, MESSAGE)),
                            Duration::ZERO,
                        )
                        .await;
                }
                Ok(Err(error)) if self.is_chosen && is_no_question(&error) => {
                    self.age.forbidden();
                    let why = trouble("list", &error);
                    if std::mem::replace(&mut self.is_refused, true) {
                        return self.list_failed(Event::Hidden(why), NO_QUESTION).await;
                    }
                    return self.list_failed(Event::Trouble(why), ASK_ONCE_MORE).await;
                }
                Ok(Err(error)) => {
                    return self
                        .list_failed(Event::Trouble(trouble("list", &error)), asked_for(&error))
                        .await;
                }
                Err(_) => {
                    return self
                        .list_failed(
                            Event::Trouble("list: no answer in time".to_owned()),
                            Duration::ZERO,
                        )
                        .await;
                }
            };
            self.age.heard();
            self.is_refused = false;
            for object in list.items {
                self.send(Event::Listed(object)).await?;
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => {
                    self.send(Event::ListEnd).await?;
                    return Ok(list.metadata.resource_version);
                }
            }
        }
    }
}
