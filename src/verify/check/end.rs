//! Where the stream ends.

use super::super::report::{Kind, Report};
use super::Checker;
use crate::publish::EntryId;
use crate::publish::checkpoint::Checkpoint;

impl Checker {
    /// There is no stream under that key.
    pub fn finish_without(mut self, checkpoint: &Checkpoint, key: &str) -> Report {
        match (checkpoint.block, checkpoint.stream_id) {
            (Some(block), Some(_)) => {
                let message =
                    format!("the checkpoint is at block {}, but there is no stream `{key}`", block.num);
                self.find(Kind::WrongEnd, None, block.num, message);
            }
            (Some(_), None) => self.report.unproven.push("no event was published yet".to_owned()),
            (None, _) => self.report.unproven.push("nothing is published here yet".to_owned()),
        }
        self.missing_end(checkpoint);
        self.report
    }

    /// There was nothing to read.
    pub fn finish_empty(mut self, checkpoint: &Checkpoint) -> Report {
        self.report.unproven.push("the stream holds no entries: all are trimmed".to_owned());
        self.missing_end(checkpoint);
        self.report
    }

    /// All is read, up to the entry `last`; `checkpoint` where that is the end of what is published.
    pub fn finish(mut self, checkpoint: Option<&Checkpoint>, last: EntryId) -> Report {
        match checkpoint {
            None => self.open = None,
            Some(checkpoint) => {
                if checkpoint.part.is_some() {
                    // Its other events are still to come.
                    self.open = None;
                }
                self.close();
                self.end(checkpoint, last);
            }
        }
        self.expect.say(&mut self.report);
        self.report
    }

    fn end(&mut self, checkpoint: &Checkpoint, last: EntryId) {
        if self.expect.block_ids
            && let Some(id) = checkpoint.stream_id
            && id != last
        {
            let message = format!("the stream ends with entry {last}, the checkpoint says {id}");
            self.find(Kind::WrongEnd, Some(last), self.newest(), message);
        }
        if let Some(fork) = self.fork.take().filter(|_| self.expect.every_block) {
            let message = format!("nothing comes behind a fork at block {}", fork.common);
            self.find(Kind::MissingBlock, Some(last), fork.common.saturating_add(1), message);
        }
        self.missing_end(checkpoint);
        let first = self.standing.keys().next().copied().unwrap_or(u32::MAX);
        for position in &checkpoint.positions {
            match self.standing(position.num) {
                Some(id) if id != position.id => {
                    let message =
                        format!("{id} stands in the stream, {} among the published blocks", position.id);
                    self.find(Kind::WrongBranch, None, position.num, message);
                }
                None if self.expect.every_block && position.num > first && position.num < self.newest() => {
                    let message = format!("block {position} is published, but the stream has nothing of it");
                    self.find(Kind::MissingBlock, None, position.num, message);
                }
                _ => {}
            }
        }
    }

    /// Whether the stream has less than what was asked for, or than what the checkpoint says.
    fn missing_end(&mut self, checkpoint: &Checkpoint) {
        let published = checkpoint.block.map_or(0, |block| block.num);
        let newest = self.newest();
        let asked = self.to.max(self.from);
        if let Some(last) = asked.filter(|last| *last > published) {
            let message = match published.saturating_add(1).max(self.from.unwrap_or(1)) {
                first if first == last => format!("block {last} is not published"),
                first => format!("blocks {first} to {last} are not published"),
            };
            self.find(Kind::MissingBlock, None, last, message);
        }
        if newest > 0 && self.expect.every_block && newest < published && checkpoint.part.is_none() {
            let message =
                format!("the checkpoint is at block {published}, but the stream ends with block {newest}");
            self.find(Kind::WrongEnd, None, published, message);
        }
    }
}
