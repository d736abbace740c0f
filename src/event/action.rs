//! Events of kind `action`.

use super::decoded::{Subject, SubjectKind};
use super::sink::Sink;
use super::{Block, Style};
use crate::hex;
use crate::history::{Says, Version};
use crate::name::Name;
use crate::plan::Action;
use crate::resp::decimal;
use crate::walk::{auth_sequence, authorization};

impl Block {
    pub(super) fn write_action(&self, action: &Action, sink: &mut Sink) {
        let trace = &self.plan.action_traces[action.trace as usize];
        let receipt = &trace.receipt;
        let traces = &self.plan.traces[..];
        let version = self.abis.get(&trace.account).and_then(|in_force| in_force.at(receipt.global_sequence));

        sink.begin(&self.envelope.action);
        decimal(&mut sink.out, receipt.global_sequence);
        sink.end_id();
        let out = &mut sink.out;
        out.extend_from_slice(&self.envelope.fields);
        out.extend_from_slice(b",\"transaction_id\":\"");
        hex::write_lower(out, &self.plan.transactions[action.transaction as usize].0);
        write_name(out, b"\",\"account\":\"", trace.account);
        write_name(out, b"\",\"name\":\"", trace.name);
        write_name(out, b"\",\"receiver\":\"", trace.receiver);
        out.extend_from_slice(b"\",\"authorization\":[");
        let mut comma: &[u8] = b"{\"actor\":\"";
        for (actor, permission) in authorization(trace.authorization.of(traces)) {
            write_name(out, comma, actor);
            write_name(out, b"\",\"permission\":\"", permission);
            out.extend_from_slice(b"\"}");
            comma = b",{\"actor\":\"";
        }
        out.push(b']');

        let subject = Subject {
            contract: trace.account,
            kind: SubjectKind::Action(trace.name),
            bytes: trace.data.of(traces),
        };
        let failure = self.style.write_action_data(subject, version, out);

        out.extend_from_slice(b",\"action_ordinal\":");
        decimal(out, trace.ordinal.into());
        out.extend_from_slice(b",\"creator_action_ordinal\":");
        decimal(out, trace.creator.into());
        out.extend_from_slice(b",\"context_free\":");
        out.extend_from_slice(if trace.context_free { b"true" } else { b"false" });
        out.extend_from_slice(b",\"global_sequence\":\"");
        decimal(out, receipt.global_sequence);
        write_name(out, b"\",\"receipt\":{\"receiver\":\"", receipt.receiver);
        out.extend_from_slice(b"\",\"actDigest\":\"");
        hex::write_lower(out, receipt.act_digest.of(traces));
        out.extend_from_slice(b"\",\"globalSequence\":\"");
        decimal(out, receipt.global_sequence);
        out.extend_from_slice(b"\",\"recvSequence\":\"");
        decimal(out, receipt.recv_sequence);
        out.extend_from_slice(b"\",\"authSequence\":[");
        let mut comma: &[u8] = b"{\"account\":\"";
        for (account, sequence) in auth_sequence(receipt.auth_sequence.of(traces)) {
            write_name(out, comma, account);
            out.extend_from_slice(b"\",\"sequence\":\"");
            decimal(out, sequence);
            out.extend_from_slice(b"\"}");
            comma = b",{\"account\":\"";
        }
        out.extend_from_slice(b"],\"codeSequence\":");
        decimal(out, receipt.code_sequence.into());
        out.extend_from_slice(b",\"abiSequence\":");
        decimal(out, receipt.abi_sequence.into());
        out.extend_from_slice(b"},\"notified\":[");
        let (first, count) = action.notified;
        let mut comma: &[u8] = b"\"";
        for &receiver in &self.plan.notified[first as usize..(first + count) as usize] {
            write_name(out, comma, receiver);
            out.push(b'"');
            comma = b",\"";
        }
        out.push(b']');
        // A notification's return value goes nowhere.
        if !trace.return_value.is_empty() && trace.receiver == trace.account {
            self.style.write_return_value(trace.name, trace.return_value.of(traces), version, out);
        }
        out.push(b'}');
        sink.end(failure.as_ref());
    }
}

impl Style {
    /// Writes what an action returned, with the name of the field.
    pub(super) fn write_return_value(
        &self,
        action: Name,
        bytes: &[u8],
        version: Option<&Version>,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        if let Some(Says::Abi(abi)) = version.map(|version| version.says(self.deserializer))
            && let Some(id) = abi.action_result_type(action)
        {
            out.extend_from_slice(b",\"return_value\":");
            if let Ok(decoded) = abi.decode(id, bytes, out)
                && decoded.consumed == bytes.len()
                && !decoded.repaired
            {
                return;
            }
            out.truncate(start);
        }
        out.extend_from_slice(b",\"return_value_raw\":\"");
        hex::write_lower(out, bytes);
        out.push(b'"');
    }
}

#[inline]
pub(super) fn write_name(out: &mut Vec<u8>, before: &[u8], name: Name) {
    out.extend_from_slice(before);
    name.write_to(out);
}
