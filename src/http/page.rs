//! The page for people: one document with its style and script inside, and a policy that lets nothing else in.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) html: String,
    /// The `Content-Security-Policy`: this script and this style, and nothing from elsewhere.
    pub(super) policy: String,
}

const HTML: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

impl Page {
    pub(super) fn new() -> Page {
        let hash = |text: &str| BASE64_STANDARD.encode(Sha256::digest(text));
        Page {
            html: HTML.replace("/* style */", STYLE).replace("/* script */", SCRIPT),
            policy: format!(
                "default-src 'none'; connect-src 'self'; img-src data:; style-src 'sha256-{}'; script-src 'sha256-{}'; \
                 base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
                hash(STYLE),
                hash(SCRIPT)
            ),
        }
    }
}
