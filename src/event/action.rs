//! Events of kind `action`.

use super::decoded::{Subject, SubjectKind};
use super::sink::Sink;
use super::{Block, Style};
use crate::hex;
use crate::history::{Says, Version};
use crate::name::Name;
use crate::out::Out;
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
        out.append(&self.envelope.fields);
        out.append(b",\"transaction_id\":\"");
        hex::write_lower(out, &self.plan.transactions[action.transaction as usize].0);
        write_name(out, b"\",\"account\":\"", trace.account);
        write_name(out, b"\",\"name\":\"", trace.name);
        write_name(out, b"\",\"receiver\":\"", trace.receiver);
        out.append(b"\",\"authorization\":[");
        let mut comma: &[u8] = b"{\"actor\":\"";
        for (actor, permission) in authorization(trace.authorization.of(traces)) {
            write_name(out, comma, actor);
            write_name(out, b"\",\"permission\":\"", permission);
            out.append(b"\"}");
            comma = b",{\"actor\":\"";
        }
        out.push(b']');

        let subject = Subject {
            contract: trace.account,
            kind: SubjectKind::Action(trace.name),
            bytes: trace.data.of(traces),
        };
        let failure = self.style.write_action_data(subject, version, out);

        out.append(b",\"action_ordinal\":");
        decimal(out, trace.ordinal.into());
        out.append(b",\"creator_action_ordinal\":");
        decimal(out, trace.creator.into());
        out.append(b",\"context_free\":");
        out.append(if trace.context_free { b"true" } else { b"false" });
        out.append(b",\"global_sequence\":\"");
        decimal(out, receipt.global_sequence);
        write_name(out, b"\",\"receipt\":{\"receiver\":\"", receipt.receiver);
        out.append(b"\",\"actDigest\":\"");
        hex::write_lower(out, receipt.act_digest.of(traces));
        out.append(b"\",\"globalSequence\":\"");
        decimal(out, receipt.global_sequence);
        out.append(b"\",\"recvSequence\":\"");
        decimal(out, receipt.recv_sequence);
        out.append(b"\",\"authSequence\":[");
        let mut comma: &[u8] = b"{\"account\":\"";
        for (account, sequence) in auth_sequence(receipt.auth_sequence.of(traces)) {
            write_name(out, comma, account);
            out.append(b"\",\"sequence\":\"");
            decimal(out, sequence);
            out.append(b"\"}");
            comma = b",{\"account\":\"";
        }
        out.append(b"],\"codeSequence\":");
        decimal(out, receipt.code_sequence.into());
        out.append(b",\"abiSequence\":");
        decimal(out, receipt.abi_sequence.into());
        out.append(b"},\"notified\":[");
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
        out: &mut Out,
    ) {
        let start = out.len();
        if let Some(Says::Abi(abi)) = version.map(|version| version.says(self.deserializer))
            && let Some(id) = abi.action_result_type(action)
        {
            out.append(b",\"return_value\":");
            if let Ok(decoded) = abi.decode(id, bytes, out)
                && decoded.consumed == bytes.len()
                && !decoded.repaired
            {
                return;
            }
            out.truncate(start);
        }
        out.append(b",\"return_value_raw\":\"");
        hex::write_lower(out, bytes);
        out.push(b'"');
    }
}

#[inline]
pub(super) fn write_name(out: &mut Out, before: &[u8], name: Name) {
    out.append(before);
    name.write_to(out);
}
