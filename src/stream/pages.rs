//! Going through a stream some entries at a time: an entry can have a few hundred bytes or megabytes.

use redis::Value;
use redis::aio::MultiplexedConnection;
use redis::streams::{StreamId, StreamRangeReply};

use crate::publish::Failure;

/// Entries of the first page: often enough to find one of a kind.
const FIRST: usize = 4;
/// Entries read at once, at most, and about how many bytes of them.
const MOST: usize = 1_000;
const BYTES: usize = 8 << 20;

/// The entries of a stream, page after page. The pages grow as far as the entries' sizes allow.
pub struct Pages {
    stream: String,
    /// Where the next page begins; `None` behind the last one.
    from: Option<String>,
    back: bool,
    count: usize,
}

impl Pages {
    /// From `id` (`-` for all) on.
    pub fn forward(stream: &str, id: &str) -> Pages {
        Pages { stream: stream.to_owned(), from: Some(id.to_owned()), back: false, count: FIRST }
    }

    /// From `id` (`+` for all) back.
    pub fn back(stream: &str, id: &str) -> Pages {
        Pages { back: true, ..Pages::forward(stream, id) }
    }

    /// The next page; never an empty one.
    pub async fn next(
        &mut self,
        connection: &mut MultiplexedConnection,
    ) -> Result<Option<Vec<StreamId>>, Failure> {
        let Some(from) = self.from.take() else { return Ok(None) };
        let (command, end) = if self.back { ("XREVRANGE", "-") } else { ("XRANGE", "+") };
        let page: StreamRangeReply = redis::cmd(command)
            .arg((&self.stream, from, end, "COUNT", self.count))
            .query_async(connection)
            .await?;
        let Some(last) = page.ids.last() else { return Ok(None) };
        if page.ids.len() == self.count {
            self.from = Some(format!("({}", last.id));
        }
        let bytes: usize = page.ids.iter().map(size).sum();
        let fit = BYTES.checked_div(bytes / page.ids.len()).unwrap_or(MOST);
        self.count = fit.min(self.count * 4).clamp(1, MOST);
        Ok(Some(page.ids))
    }
}

/// Bytes of an entry's values.
fn size(entry: &StreamId) -> usize {
    let values = entry.map.values().map(|value| match value {
        Value::BulkString(bytes) => bytes.len(),
        _ => 0,
    });
    values.sum()
}
