//! The TypeScript version's spellings of the commands over dead letters, word by word. Those of the others, which differ in
//! less, are aliases where the commands are.

use std::ffi::OsString;

/// A command in both spellings.
struct Spelling {
    there: &'static str,
    here: [&'static str; 2],
    /// Its options in both; one without a counterpart gives its value as a plain word.
    options: &'static [(&'static str, Option<&'static str>)],
}

const SPELLINGS: [Spelling; 2] = [
    Spelling {
        there: "list-dead-letters",
        here: ["dead-letters", "list"],
        options: &[("--sub-id", Some("--sub")), ("--all", Some("--all-subs"))],
    },
    Spelling {
        there: "replay-dead-letter",
        here: ["dead-letters", "replay"],
        options: &[("--sub-id", Some("--sub")), ("--event-id", None)],
    },
];

/// The words of a call, as they are spelled here.
pub(super) fn spelled_anew(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words = words.into_iter();
    let mut anew: Vec<OsString> = words.next().into_iter().collect();
    let Some(command) = words.next() else { return anew };
    let Some(Spelling { here, options, .. }) = SPELLINGS.iter().find(|spelling| command == spelling.there)
    else {
        anew.push(command);
        anew.extend(words);
        return anew;
    };
    anew.extend(here.map(OsString::from));
    for word in words {
        let text = word.to_str().unwrap_or_default();
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        match options.iter().find(|(there, _)| name == *there) {
            None => anew.push(word),
            Some((_, here)) => {
                anew.extend(here.map(OsString::from));
                anew.extend(value.map(OsString::from));
            }
        }
    }
    anew
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_letters_are_listed_and_replayed_as_before() {
        for (there, here) in [
            (
                "parser list-dead-letters --config c.yaml --sub-id web --limit 5",
                "parser dead-letters list --config c.yaml --sub web --limit 5",
            ),
            ("parser list-dead-letters --all --json", "parser dead-letters list --all-subs --json"),
            (
                "parser replay-dead-letter --sub-id=parser --event-id c:a:1:2:3 --dry-run",
                "parser dead-letters replay --sub parser c:a:1:2:3 --dry-run",
            ),
            ("parser replay-dead-letter --all", "parser dead-letters replay --all"),
            ("parser dead-letters list --sub-id web", "parser dead-letters list --sub-id web"),
            ("parser", "parser"),
        ] {
            let anew = spelled_anew(there.split(' ').map(OsString::from));
            assert_eq!(anew, here.split(' ').map(OsString::from).collect::<Vec<_>>());
        }
    }
}
