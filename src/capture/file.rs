//! The capture file, `NAME.shipcap.zst`: records of one byte kind (1 text, 2 binary), a four-byte
//! little-endian length and the payload, zstd around the whole. Record 0 is the ABI frame, record 1
//! the status result, the rest result frames as received.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::ship::message::{Answer, StatusResult};
use crate::ship::protocol::Protocol;

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// What is wrong with a capture file.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// It cannot be opened, read or written.
    #[error("{}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Not zstd.
    #[error("{}: not a capture: it does not begin as a zstd file does", .0.display())]
    NotZstd(PathBuf),
    /// A record that cannot be.
    #[error("{}: record {record} at byte {offset} (uncompressed): {what}", .path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Counted from 0.
        record: u64,
        /// Where it begins in the uncompressed data.
        offset: u64,
        /// What is wrong.
        what: String,
    },
}

/// Reads a capture record by record: as an iterator, its result frames.
pub struct CaptureReader {
    /// What the node's ABI frame said.
    pub protocol: Arc<Protocol>,
    /// The status of the moment of recording.
    pub status: StatusResult,
    records: Records,
}

/// Writes a capture to `NAME.part`, which becomes `NAME` when it is whole. Dropped before, `NAME.part` is left, as a
/// capture of what was written.
pub struct CaptureWriter {
    path: PathBuf,
    part: PathBuf,
    out: zstd::Encoder<'static, File>,
}

/// A capture in memory: to play it, to edit it.
#[derive(Debug, Clone)]
pub struct Capture {
    /// The ABI frame.
    pub abi: String,
    /// What the ABI frame said when the capture was read.
    pub protocol: Arc<Protocol>,
    /// The status result.
    pub status: StatusResult,
    /// The result frames.
    pub frames: Vec<Bytes>,
}

// === impl CaptureReader ===

impl CaptureReader {
    /// Opens the file and reads its first two records.
    pub fn open(path: &Path) -> Result<CaptureReader, CaptureError> {
        let mut records = Records::open(path)?;
        let abi = records.first(TEXT, "the protocol's ABI (a text)")?;
        let abi = std::str::from_utf8(&abi).map_err(|e| records.error(e.to_string()))?;
        let protocol = Protocol::parse(abi).map_err(|e| records.error(e.to_string()))?;
        let status = records.first(BINARY, "the status result")?;
        let status = match Answer::decode(&status, &protocol) {
            Ok(Answer::Status(status)) => status,
            Ok(Answer::Block(_)) => return Err(records.error("a block where the status result should be")),
            Err(e) => return Err(records.error(e.to_string())),
        };
        Ok(CaptureReader { protocol: Arc::new(protocol), status, records })
    }

    /// An error about the frame read last.
    pub fn error(&self, what: impl Into<String>) -> CaptureError {
        self.records.error(what)
    }
}

impl Iterator for CaptureReader {
    type Item = Result<Bytes, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.records.next()? {
            Ok((BINARY, frame)) => Some(Ok(frame)),
            Ok(_) => Some(Err(self.error("a text where a result frame should be"))),
            Err(e) => Some(Err(e)),
        }
    }
}

/// The records of a file, whatever they hold. After an error there are no more.
struct Records {
    path: PathBuf,
    input: zstd::Decoder<'static, BufReader<File>>,
    /// The record to be read next and where it begins.
    next: (u64, u64),
    /// The record read last and where it begins.
    last: (u64, u64),
    failed: bool,
}

// === impl Records ===

impl Records {
    fn open(path: &Path) -> Result<Records, CaptureError> {
        let io_error = |source| CaptureError::Io { path: path.to_owned(), source };
        let mut magic = [0; 4];
        let mut file = File::open(path).map_err(io_error)?;
        match file.read_exact(&mut magic) {
            Ok(()) if magic == ZSTD_MAGIC => {}
            Ok(()) => return Err(CaptureError::NotZstd(path.to_owned())),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(CaptureError::NotZstd(path.to_owned()));
            }
            Err(e) => return Err(io_error(e)),
        }
        io::Seek::rewind(&mut file).map_err(io_error)?;
        let input = zstd::Decoder::new(file).map_err(io_error)?;
        Ok(Records { path: path.to_owned(), input, next: (0, 0), last: (0, 0), failed: false })
    }

    fn error(&self, what: impl Into<String>) -> CaptureError {
        let (record, offset) = self.last;
        CaptureError::Record { path: self.path.clone(), record, offset, what: what.into() }
    }

    /// One of the two records a capture begins with.
    fn first(&mut self, kind: u8, what: &str) -> Result<Bytes, CaptureError> {
        match self.next() {
            Some(Ok((found, bytes))) if found == kind => Ok(bytes),
            Some(Ok(_)) => Err(self.error(format!("{what} is expected here"))),
            Some(Err(e)) => Err(e),
            None => {
                self.last = self.next;
                Err(self.error(format!("the file ends where {what} is expected")))
            }
        }
    }

    fn next(&mut self) -> Option<Result<(u8, Bytes), CaptureError>> {
        if self.failed {
            return None;
        }
        self.last = self.next;
        let record = self.read().map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => self.error("the file is cut short here"),
            _ => self.error(e.to_string()),
        });
        self.failed = record.is_err();
        record.transpose()
    }

    fn read(&mut self) -> io::Result<Option<(u8, Bytes)>> {
        let mut head = [0; 5];
        // An end in front of a record is the end of the file.
        if self.input.read(&mut head[..1])? == 0 {
            return Ok(None);
        }
        self.input.read_exact(&mut head[1..])?;
        let [kind, length @ ..] = head;
        if kind != TEXT && kind != BINARY {
            let what = format!("its kind is {kind}, which is neither 1 (text) nor 2 (binary)");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let length = u64::from(u32::from_le_bytes(length));
        // A lying length must not cost memory that the file does not fill.
        let mut payload = Vec::with_capacity(length.min(1 << 20) as usize);
        let read = (&mut self.input).take(length).read_to_end(&mut payload)?;
        if (read as u64) < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.next = (self.next.0 + 1, self.next.1 + 5 + length);
        Ok(Some((kind, payload.into())))
    }
}

// === impl CaptureWriter ===

impl CaptureWriter {
    /// Begins `path` as `path.part`, with the two first records.
    pub fn create(path: &Path, abi: &str, status: &[u8]) -> Result<CaptureWriter, CaptureError> {
        // Found out now, not when all is recorded and the file gets its name.
        if path.is_dir() {
            return Err(CaptureError::Io {
                path: path.to_owned(),
                source: io::ErrorKind::IsADirectory.into(),
            });
        }
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let out = File::create(&part)
            .and_then(|file| zstd::Encoder::new(file, 0))
            .map_err(|source| CaptureError::Io { path: part.clone(), source })?;
        let mut writer = CaptureWriter { path: path.to_owned(), part, out };
        writer.record(TEXT, abi.as_bytes())?;
        writer.record(BINARY, status)?;
        Ok(writer)
    }

    /// Appends a result frame.
    pub fn frame(&mut self, frame: &[u8]) -> Result<(), CaptureError> {
        self.record(BINARY, frame)
    }

    /// Completes the file and gives it its name.
    pub fn finish(mut self) -> Result<(), CaptureError> {
        self.out
            .do_finish()
            .and_then(|()| self.out.get_ref().sync_all())
            .and_then(|()| fs::rename(&self.part, &self.path))
            .map_err(|source| CaptureError::Io { path: self.path.clone(), source })
    }

    fn record(&mut self, kind: u8, payload: &[u8]) -> Result<(), CaptureError> {
        let written = match u32::try_from(payload.len()) {
            Ok(length) => self
                .out
                .write_all(&[kind])
                .and_then(|()| self.out.write_all(&length.to_le_bytes()))
                .and_then(|()| self.out.write_all(payload)),
            Err(_) => Err(io::Error::other(format!(
                "a frame of {} bytes: a capture holds frames of up to 4 GiB",
                payload.len()
            ))),
        };
        written.map_err(|source| CaptureError::Io { path: self.part.clone(), source })
    }
}

impl Drop for CaptureWriter {
    fn drop(&mut self) {
        // Nothing is left to do for a file that is finished; and nobody is there to tell of an error.
        let _ = self.out.do_finish();
    }
}

// === impl Capture ===

impl Capture {
    /// Reads a whole file.
    pub fn load(path: &Path) -> Result<Capture, CaptureError> {
        let reader = CaptureReader::open(path)?;
        let (protocol, status) = (reader.protocol.clone(), reader.status.clone());
        let frames = reader.collect::<Result<_, _>>()?;
        Ok(Capture { abi: protocol.abi.to_string(), protocol, status, frames })
    }

    /// Writes it to a file.
    pub fn save(&self, path: &Path) -> Result<(), CaptureError> {
        let mut writer = CaptureWriter::create(path, &self.abi, &self.status.encode(&self.protocol))?;
        for frame in &self.frames {
            writer.frame(frame)?;
        }
        writer.finish()
    }
}
