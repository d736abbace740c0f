//! The raw connection that transactions are written to.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::failure::Failure;
use super::replies::{Replies, Token, unexpected};
use super::server::Server;
use crate::out::Out;
use crate::resp;
use crate::transport::{self, Stream};

/// How long connecting and logging in may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// A connection that is logged in: bytes out, replies in.
pub struct Connection {
    pub(super) stream: Stream,
    pub(super) replies: Replies,
}

impl Connection {
    /// Connects, logs in, chooses the database and sets the name that CLIENT LIST shows.
    pub async fn open(server: &Server, name: &str) -> Result<Connection, Failure> {
        let open = async {
            let stream = transport::connect(&server.target).await?;
            let mut connection = Connection { stream, replies: Replies::default() };
            connection.login(server, name).await?;
            Ok(connection)
        };
        timeout(CONNECT_LIMIT, open).await.unwrap_or_else(|_| {
            Err(Failure::Disconnected(format!("not connected within {} seconds", CONNECT_LIMIT.as_secs())))
        })
    }

    async fn login(&mut self, server: &Server, name: &str) -> Result<(), Failure> {
        let login = &server.login;
        let mut commands = Out::default();
        let mut due = 1;
        if let Some(password) = login.password() {
            match login.username() {
                Some(user) => {
                    resp::command(&mut commands, &[b"AUTH", user.as_bytes(), password.as_bytes()]);
                }
                None => resp::command(&mut commands, &[b"AUTH", password.as_bytes()]),
            }
            due += 1;
        }
        if login.db() != 0 {
            resp::command(&mut commands, &[b"SELECT", login.db().to_string().as_bytes()]);
            due += 1;
        }
        resp::command(&mut commands, &[b"CLIENT", b"SETNAME", name.as_bytes()]);
        self.stream.write_all(&commands).await?;
        self.stream.flush().await?;
        while due > 0 {
            match self.replies.token()? {
                Some(Token::Simple(_)) => due -= 1,
                Some(Token::Error(message)) => {
                    return Err(Failure::from_reply(&String::from_utf8_lossy(message)));
                }
                Some(_) => return Err(unexpected("while logging in")),
                None => receive(&mut self.stream, &mut self.replies).await?,
            }
        }
        Ok(())
    }

    /// Sends commands, whose replies are then read as tokens.
    pub async fn send(&mut self, commands: &[u8]) -> Result<(), Failure> {
        self.stream.write_all(commands).await?;
        Ok(self.stream.flush().await?)
    }

    /// Waits for more of the replies. Nothing is lost if it is given up.
    pub async fn receive(&mut self) -> Result<(), Failure> {
        receive_up_to(&mut self.stream, &mut self.replies, 256 * 1024).await
    }

    /// Whether [`Connection::token`] has one.
    pub fn has_token(&self) -> Result<bool, Failure> {
        self.replies.has_token()
    }

    /// The next token, or `None` as long as it has not come whole.
    pub fn token(&mut self) -> Result<Option<Token<'_>>, Failure> {
        self.replies.token()
    }

    /// The stream itself, for a connection that has nothing under way.
    pub(super) fn into_stream(self) -> Stream {
        self.stream
    }
}

/// Waits for more bytes. Nothing is lost if it is given up.
pub(super) async fn receive(
    stream: &mut (impl tokio::io::AsyncRead + Unpin),
    replies: &mut Replies,
) -> Result<(), Failure> {
    receive_up_to(stream, replies, 16 * 1024).await
}

async fn receive_up_to(
    stream: &mut (impl tokio::io::AsyncRead + Unpin),
    replies: &mut Replies,
    bytes: usize,
) -> Result<(), Failure> {
    replies.compact();
    replies.buffer.reserve(bytes);
    match stream.read_buf(&mut replies.buffer).await? {
        0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "Redis closed the connection").into()),
        _ => Ok(()),
    }
}
