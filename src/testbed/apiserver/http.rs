//! HTTP: requests in, answers out, with the faults in between.

mod discovery;
mod logs;
mod protobuf;
mod serve;

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::StreamExt as _;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request as HttpRequest, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Body, Bytes, Frame};
use jiff::fmt::rfc2822::DateTimePrinter;
use serde_json::Value;
use tower::BoxError;

use crate::apiserver::faults::{Effect, Reply, RuleId, WatchFaults};
use crate::apiserver::objects::status::ApiError;
use crate::apiserver::request::record::Recorded;
use crate::apiserver::request::{Path, Query, Request, Verb, path};
use crate::apiserver::server::ApiServer;
use crate::apiserver::storage::codec::show;
use crate::apiserver::storage::state::State;
use crate::apiserver::view::View;
use crate::apiserver::watch::Watch;
use crate::apiserver::write::Written;

use discovery::Answer;

/// The body of an answer: whole, or the stream of a watch.
pub type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

type Answered = Result<Response<ResponseBody>, BoxError>;

impl<B> tower::Service<HttpRequest<B>> for ApiServer
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Answered> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(Into::into)?.to_bytes();
            let mut answer = server.answer(&parts, body).await?;
            if let Some(date) = server.date() {
                answer.headers_mut().insert(header::DATE, date);
            }
            Ok(answer)
        })
    }
}

impl ApiServer {
    async fn answer(&self, parts: &Parts, body: Bytes) -> Answered {
        let Path::Resource {
            group,
            version,
            resource,
            namespace,
            name,
            subresource,
        } = path(parts.uri.path())
        else {
            return Ok(self.outside(parts.uri.path()));
        };
        let Some(kind) = self.shared.lock().find(&group, &version, &resource) else {
            return Ok(self.unknown(&group, &version));
        };
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let Some(verb) = verb(&parts.method, &name, &query) else {
            return Ok(refusal(&ApiError::method_not_allowed()));
        };
        let header = |name| header_text(&parts.headers, name);
        let (content_type, body) = in_json(header(header::CONTENT_TYPE), body);
        let request = Request {
            verb,
            kind,
            namespace,
            name,
            subresource,
            query,
            content_type,
            accept: header(header::ACCEPT),
            user_agent: header(header::USER_AGENT),
            body,
        };
        self.records().push(Recorded::of(&request));
        self.with_faults(&request).await
    }

    /// Returns the `Date` header of an answer, which a real API server sends too.
    fn date(&self) -> Option<HeaderValue> {
        let date = DateTimePrinter::new()
            .timestamp_to_rfc9110_string(&self.shared.clock().now())
            .ok()?;
        HeaderValue::from_str(&date).ok()
    }

    /// Handles a request with the fault that hits it.
    async fn with_faults(&self, request: &Request) -> Answered {
        let fault = self.faults.meet(request);
        match fault.as_ref().map(|(_, effect)| effect) {
            Some(Effect::Reply(reply)) => Ok(made_up(reply)),
            Some(Effect::Hang) => std::future::pending().await,
            Some(Effect::Drop) => Err("connection reset by peer".into()),
            Some(Effect::ApplyThenDrop) => {
                self.run(request, None);
                Err("connection reset by peer".into())
            }
            Some(Effect::ApplyThenDelay(time)) => {
                let answer = self.run(request, None);
                tokio::time::sleep(*time).await;
                Ok(answer)
            }
            Some(Effect::ApplyThenReply(reply)) => {
                self.run(request, None);
                Ok(made_up(reply))
            }
            Some(Effect::Delay(time)) => {
                tokio::time::sleep(*time).await;
                Ok(self.run(request, None))
            }
            _ => Ok(self.run(request, fault)),
        }
    }

    fn run(&self, request: &Request, fault: Option<(RuleId, Effect)>) -> Response<ResponseBody> {
        let mut state = self.shared.lock();
        let answer = execute(self, &mut state, request, fault);
        let revision = state.store.revision();
        drop(state);
        self.shared.announce(revision);
        answer.unwrap_or_else(|error| refusal(&error))
    }

    /// Handles all paths that are not resources.
    fn outside(&self, path: &str) -> Response<ResponseBody> {
        if let Some(Effect::Reply(reply)) = self.faults.meet_outside(path) {
            return made_up(&reply);
        }
        match discovery::answer(&self.shared.lock(), path) {
            Some(Answer::Json(value)) => json(200, &value),
            Some(Answer::Text(text)) => plain(200, text),
            None => plain(404, "404 page not found\n"),
        }
    }

    fn unknown(&self, group: &str, version: &str) -> Response<ResponseBody> {
        let served = self
            .shared
            .lock()
            .kinds
            .iter()
            .any(|kind| kind.group == group && kind.version == version);
        if served {
            refusal(&ApiError::no_such_resource())
        } else {
            plain(404, "404 page not found\n")
        }
    }
}

fn verb(method: &Method, name: &str, query: &Query) -> Option<Verb> {
    let one = !name.is_empty();
    match method.as_str() {
        "GET" if query.flag("watch") => Some(Verb::Watch),
        "GET" if one => Some(Verb::Get),
        "GET" => Some(Verb::List),
        "POST" => Some(Verb::Create),
        "PUT" if one => Some(Verb::Update),
        "PATCH" if one => Some(Verb::Patch),
        "DELETE" if one => Some(Verb::Delete),
        "DELETE" => Some(Verb::DeleteCollection),
        _ => None,
    }
}

/// Carries out a request.
fn execute(
    server: &ApiServer,
    state: &mut State,
    request: &Request,
    fault: Option<(RuleId, Effect)>,
) -> Result<Response<ResponseBody>, ApiError> {
    check_subresource(request)?;
    check_media_type(request)?;
    match request.verb {
        Verb::Get if request.subresource == "log" => {
            let log = whole(logs::read(state, request)?);
            Ok(response(200, "text/plain", log))
        }
        Verb::Watch => {
            let faults = WatchFaults::new(&server.faults, request, fault);
            Ok(stream(Watch::start(
                server.shared.clone(),
                state,
                request,
                faults,
            )?))
        }
        Verb::List => {
            let pinned = match fault {
                Some((_, Effect::ReplayList(revision))) => Some(revision),
                _ => None,
            };
            let page = state.list(request, pinned)?;
            Ok(json(
                200,
                &View::of(request).many(&request.kind, &page, server.clock().now()),
            ))
        }
        Verb::DeleteCollection => {
            let mut page = state.list(request, None)?;
            page.items = state.delete_all(request, page.items)?;
            Ok(json(
                200,
                &View::of(request).many(&request.kind, &page, server.clock().now()),
            ))
        }
        _ => {
            let (object, code) = one(state, request)?;
            let shown = if object["kind"] == "Status" {
                object
            } else {
                show(&request.kind, &object)
            };
            Ok(json(
                code,
                &View::of(request).one(&request.kind, &shown, server.clock().now(), true),
            ))
        }
    }
}

/// Handles the verbs that concern one object.
fn one(state: &mut State, request: &Request) -> Result<Written, ApiError> {
    match (request.verb, request.subresource.as_str()) {
        (Verb::Create, "binding") => state.bind(request, &request.json()?),
        (Verb::Create, _) => state.create(request, request.json()?),
        (Verb::Update, _) => state.replace(request, request.json()?),
        (Verb::Patch, _) => state.patch(request),
        (Verb::Delete, _) => Ok((state.delete(request)?, 200)),
        _ => Ok((state.current(request)?, 200)),
    }
}

fn check_subresource(request: &Request) -> Result<(), ApiError> {
    if request.kind.namespaced && request.namespace.is_empty() {
        // Without a namespace only lists and watches are allowed.
        match request.verb {
            Verb::Create | Verb::DeleteCollection => return Err(ApiError::method_not_allowed()),
            _ if !request.name.is_empty() => return Err(ApiError::no_such_resource()),
            _ => {}
        }
    }
    match (request.subresource.as_str(), request.verb) {
        ("", Verb::Create) if !request.name.is_empty() => Err(ApiError::method_not_allowed()),
        ("", _) => Ok(()),
        ("status", Verb::Get | Verb::Update | Verb::Patch) if request.kind.status => Ok(()),
        ("status", _) if request.kind.status => Err(ApiError::method_not_allowed()),
        ("binding", Verb::Create) | ("log", Verb::Get) if request.kind.is_core("pods") => Ok(()),
        _ => Err(ApiError::no_such_resource()),
    }
}

/// Converts the body to JSON, if it is protobuf that can be decoded.
fn in_json(content_type: String, body: Bytes) -> (String, Bytes) {
    let read = content_type
        .contains("protobuf")
        .then(|| protobuf::as_json(&body));
    match read.flatten() {
        Some(json) => ("application/json".to_owned(), json),
        None => (content_type, body),
    }
}

/// Refuses bodies other than JSON. `kubectl create deployment ...` sends such a body.
fn check_media_type(request: &Request) -> Result<(), ApiError> {
    let foreign = ["protobuf", "application/yaml", "cbor"]
        .iter()
        .any(|name| request.content_type.contains(name));
    if foreign
        && matches!(
            request.verb,
            Verb::Create | Verb::Update | Verb::Delete | Verb::DeleteCollection
        )
    {
        let message = "the body of the request was in an unknown format - accepted media types include: application/json; \
                       this server reads no protobuf: append --dry-run=client -o yaml | kubectl create -f -";
        return Err(ApiError::new(415, "UnsupportedMediaType", message));
    }
    Ok(())
}

fn header_text(headers: &HeaderMap, name: header::HeaderName) -> String {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_owned()
}

fn response(code: u16, media_type: &'static str, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

fn whole(bytes: impl Into<Bytes>) -> ResponseBody {
    Full::new(bytes.into()).boxed_unsync()
}

fn json(code: u16, value: &Value) -> Response<ResponseBody> {
    response(code, "application/json", whole(value.to_string()))
}

fn plain(code: u16, text: &'static str) -> Response<ResponseBody> {
    response(code, "text/plain; charset=utf-8", whole(text))
}

fn refusal(error: &ApiError) -> Response<ResponseBody> {
    json(error.code, &error.body())
}

fn made_up(reply: &Reply) -> Response<ResponseBody> {
    let mut response = if reply.is_of_flow_control() {
        plain(429, "Too many requests, please try again later.\n")
    } else {
        refusal(&reply.error())
    };
    if let Some(seconds) = reply.seconds() {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

fn stream(watch: Watch) -> Response<ResponseBody> {
    let lines = futures::stream::unfold(watch, |mut watch| async move {
        let line = watch.next().await?;
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from(line))), watch))
    });
    response(
        200,
        "application/json",
        StreamBody::new(lines.boxed()).boxed_unsync(),
    )
}
