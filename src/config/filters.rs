//! The filter rules as they stand in the file.

use super::place::{self, Place};
use crate::filter::{ActionRule, DeltaRule, Filter, NativeDeltaRule, Rule};
use crate::name::Name;

/// The tables of nodeos' state history besides `contract_row`.
const NATIVE_TABLES: &[&str] = &[
    "account",
    "account_metadata",
    "code",
    "contract_table",
    "contract_index64",
    "contract_index128",
    "contract_index256",
    "contract_index_double",
    "contract_index_long_double",
    "key_value",
    "global_property",
    "generated_transaction",
    "protocol_state",
    "permission",
    "permission_link",
    "resource_limits",
    "resource_usage",
    "resource_limits_state",
    "resource_limits_config",
];

pub(super) fn read(top: &Place<'_>) -> Filter {
    Filter::new(rules(&top.at("filters.include")), rules(&top.at("filters.exclude")))
}

/// What the rules say about tables that this program has not heard of: perhaps a slip of the pen.
pub(super) fn unknown_tables(filter: &Filter) -> Vec<String> {
    let mut warnings = Vec::new();
    for rule in filter.rules() {
        if let Rule::NativeDelta(NativeDeltaRule { table: Some(table) }) = rule
            && !NATIVE_TABLES.contains(&table.as_str())
        {
            let near = place::nearest(table, NATIVE_TABLES.iter().copied())
                .map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
            warnings.push(format!("filters: `{table}` is no table of the protocol known here{near}"));
        }
    }
    warnings
}

fn rules(list: &Place<'_>) -> Vec<Rule> {
    list.items(false).iter().filter_map(rule).collect()
}

fn rule(place: &Place<'_>) -> Option<Rule> {
    if place.keys().is_empty() {
        place.problem("a filter is expected here, like `{kind: action, account: eosio.token}`");
        return None;
    }
    let kind = place.at("kind");
    kind.require();
    let name = |key: &str| rule_name(&place.at(key));
    let (rule, fields): (Rule, &[&str]) = match kind.given()?.text.as_str() {
        "action" => {
            let rule =
                ActionRule { account: name("account"), name: name("name"), receiver: name("receiver") };
            (Rule::Action(rule), &["kind", "account", "name", "receiver"])
        }
        "delta" => {
            let rule = DeltaRule { code: name("code"), table: name("table"), scope: name("scope") };
            (Rule::Delta(rule), &["kind", "code", "table", "scope"])
        }
        "native-delta" => {
            let rule = NativeDeltaRule { table: native_table(&place.at("table")) };
            (Rule::NativeDelta(rule), &["kind", "table"])
        }
        "block" => (Rule::Block, &["kind"]),
        "fork" => (Rule::Fork, &["kind"]),
        _ => {
            kind.choice(&[("action", ()), ("delta", ()), ("native-delta", ()), ("block", ()), ("fork", ())]);
            return None;
        }
    };
    place.check_keys(fields);
    Some(rule)
}

/// An absent field and `*` match everything; `''` is the empty name.
fn rule_name(place: &Place<'_>) -> Option<Name> {
    if place.is_null() {
        place.problem("has no value (leave the key out to match everything, or write '' for the empty name)");
    }
    match place.text()?.text.as_str() {
        "*" => None,
        "" => Some(Name(0)),
        _ => place.parsed(),
    }
}

fn native_table(place: &Place<'_>) -> Option<String> {
    let text = place.given()?;
    match text.text.as_str() {
        "*" => return None,
        "contract_row" => place.problem("rows of contracts' tables are of the kind `delta`"),
        table if !table.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => {
            place.problem(format!("{} is not the name of a table of the chain", place::shown(text)));
        }
        _ => {}
    }
    Some(text.text.clone())
}
