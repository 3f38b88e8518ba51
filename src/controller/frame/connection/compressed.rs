//! Lists that the API server compresses: pages of more than 128 KiB and, from Kubernetes 1.37 on,
//! streams, in which each few events are compressed by themselves (`perFlushGzipWriter` in its
//! `endpoints/handlers/watch.go`).

use std::io;

use async_compression::tokio::bufread::GzipDecoder;
use futures::TryStreamExt as _;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::{Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Body, Bytes, Frame};
use tokio_util::io::{ReaderStream, StreamReader};
use tower::BoxError;

use super::{asks, is_watch};

/// Returns true for what may be a list. Of watches after one no API server compresses anything, and a
/// proxy that does may hold events back.
pub(super) fn is_worth_it(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    !is_watch(query) || asks(query, &["sendInitialEvents=true"])
}

/// Returns the answer as it was before it was compressed. Each piece is passed on as it comes.
///
/// The body fails where it is not what its header says, and where it ends within an event.
pub(super) fn decoded<B>(response: Response<B>) -> Response<UnsyncBoxBody<Bytes, BoxError>>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let (mut head, body) = response.into_parts();
    let body = body.map_err(Into::into);
    if head
        .headers
        .get(CONTENT_ENCODING)
        .is_none_or(|name| name != "gzip")
    {
        return Response::from_parts(head, body.boxed_unsync());
    }
    head.headers.remove(CONTENT_ENCODING);
    head.headers.remove(CONTENT_LENGTH);
    let compressed = StreamReader::new(body.into_data_stream().map_err(io::Error::other));
    let mut decoder = GzipDecoder::new(compressed);
    decoder.multiple_members(true);
    let pieces = ReaderStream::new(decoder).map_ok(Frame::data);
    let body = StreamBody::new(pieces.map_err(Into::into));
    Response::from_parts(head, body.boxed_unsync())
}

#[cfg(test)]
mod tests {
    use async_compression::tokio::write::GzipEncoder;
    use futures::FutureExt as _;
    use tokio::io::AsyncWriteExt as _;
    use tokio::sync::mpsc;

    use super::*;

    type Pieces = mpsc::UnboundedSender<Vec<u8>>;

    async fn member(text: &str) -> Vec<u8> {
        let mut member = GzipEncoder::new(Vec::new());
        member.write_all(text.as_bytes()).await.unwrap();
        member.shutdown().await.unwrap();
        member.into_inner()
    }

    /// A body of what is sent, decoded.
    fn body(encoding: &str) -> (Pieces, UnsyncBoxBody<Bytes, BoxError>) {
        let (pieces, sent) = mpsc::unbounded_channel::<Vec<u8>>();
        let sent = futures::stream::unfold(sent, async |mut sent| {
            let piece = sent.recv().await?;
            Some((Ok::<_, BoxError>(Frame::data(Bytes::from(piece))), sent))
        });
        let answer = Response::builder().header(CONTENT_ENCODING, encoding);
        let answer = answer.header(CONTENT_LENGTH, 5).body(StreamBody::new(sent));
        let answer = decoded(answer.unwrap());
        let (head, body) = answer.into_parts();
        let is_decoded = encoding == "gzip";
        assert_eq!(head.headers.is_empty(), is_decoded);
        (pieces, body)
    }

    /// What can be read without more being sent.
    fn present(body: &mut UnsyncBoxBody<Bytes, BoxError>) -> String {
        let mut text = Vec::new();
        while let Some(Some(piece)) = body.frame().now_or_never() {
            text.extend(piece.unwrap().into_data().unwrap());
        }
        String::from_utf8(text).unwrap()
    }

    #[tokio::test]
    async fn each_event_is_read_when_it_comes_whatever_its_pieces_are() {
        let (pieces, mut body) = body("gzip");
        let (first, second) = (member("first\n").await, member(&"x".repeat(100_000)).await);
        pieces.send(first).unwrap();
        assert_eq!(present(&mut body), "first\n");
        let (begin, end) = second.split_at(second.len() / 2);
        pieces.send(begin.to_vec()).unwrap();
        let begun = present(&mut body);
        pieces.send(end.to_vec()).unwrap();
        assert_eq!(begun.len() + present(&mut body).len(), 100_000);
        drop(pieces);
        assert!(body.frame().await.is_none(), "it ends between two events");
    }

    #[tokio::test]
    async fn an_answer_that_ends_within_an_event_or_is_none_fails() {
        let whole = member(&"an event".repeat(1000)).await;
        for sent in [whole[..whole.len() / 2].to_vec(), b"{\"kind\"".to_vec()] {
            let (pieces, body) = body("gzip");
            pieces.send(sent).unwrap();
            drop(pieces);
            assert!(body.collect().await.is_err());
        }
    }

    #[tokio::test]
    async fn what_is_not_compressed_stays_as_it_is() {
        let (pieces, mut body) = body("identity");
        pieces.send(b"{}".to_vec()).unwrap();
        assert_eq!(present(&mut body), "{}");
    }
}
