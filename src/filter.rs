//! Which events are published: decided from names alone, before anything is decoded.
//!
//! An event passes if any `include` rule matches it (or there are no include rules at all) and no `exclude` rule
//! does. A kind that no include rule names does not pass. `fork` events always pass.

use serde::{Serialize, Serializer};

use crate::name::Name;

/// One rule. A field that is `None` matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Rule {
    /// Actions.
    Action(ActionRule),
    /// Table rows (`contract_row`).
    Delta(DeltaRule),
    /// Rows of the chain's own tables.
    NativeDelta(NativeDeltaRule),
    /// The event that closes a block, where it is published at all.
    Block,
    /// Passes anyway; accepted so that a consumer's filters can be taken over whole.
    Fork,
}

/// Which actions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ActionRule {
    /// The contract whose action it is.
    #[serde(serialize_with = "shown")]
    pub account: Option<Name>,
    /// The action's name.
    #[serde(serialize_with = "shown")]
    pub name: Option<Name>,
    /// The account it ran for, or one that was notified of it.
    #[serde(serialize_with = "shown")]
    pub receiver: Option<Name>,
}

/// Which table rows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct DeltaRule {
    /// The contract that owns the table.
    #[serde(serialize_with = "shown")]
    pub code: Option<Name>,
    /// The table's name.
    #[serde(serialize_with = "shown")]
    pub table: Option<Name>,
    /// The row's scope; the empty name is a scope like any other.
    #[serde(serialize_with = "shown")]
    pub scope: Option<Name>,
}

/// Which rows of the chain's own tables.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct NativeDeltaRule {
    /// The table's name in the node's protocol, such as `permission`.
    #[serde(serialize_with = "shown")]
    pub table: Option<String>,
}

/// The rules, sorted by kind for matching.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    include: Vec<Rule>,
    exclude: Vec<Rule>,
    actions: Kind<ActionRule>,
    deltas: Kind<DeltaRule>,
    native_deltas: Kind<NativeDeltaRule>,
    blocks: bool,
}

/// The rules for one kind of events.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kind<R> {
    /// `None`: there are no include rules, for whatever kind.
    include: Option<Vec<R>>,
    exclude: Vec<R>,
}

// === impl Filter ===

impl Filter {
    /// A filter of these rules.
    pub fn new(include: Vec<Rule>, exclude: Vec<Rule>) -> Filter {
        let included = |rule: &Rule| include.is_empty() || include.contains(rule);
        Filter {
            actions: Kind::of(&include, &exclude, |rule| match rule {
                Rule::Action(rule) => Some(rule),
                _ => None,
            }),
            deltas: Kind::of(&include, &exclude, |rule| match rule {
                Rule::Delta(rule) => Some(rule),
                _ => None,
            }),
            native_deltas: Kind::of(&include, &exclude, |rule| match rule {
                Rule::NativeDelta(rule) => Some(rule),
                _ => None,
            }),
            blocks: included(&Rule::Block) && !exclude.contains(&Rule::Block),
            include,
            exclude,
        }
    }

    /// Whether an action passes. `notified` are the accounts whose notifications are folded into its event.
    #[inline]
    pub fn action(&self, account: Name, name: Name, receiver: Name, notified: &[Name]) -> bool {
        self.actions.passes(|rule| {
            fits(rule.account, account)
                && fits(rule.name, name)
                && rule.receiver.is_none_or(|wanted| wanted == receiver || notified.contains(&wanted))
        })
    }

    /// Whether a table row passes.
    #[inline]
    pub fn delta(&self, code: Name, scope: Name, table: Name) -> bool {
        self.deltas.passes(|rule| fits(rule.code, code) && fits(rule.table, table) && fits(rule.scope, scope))
    }

    /// Whether a row of one of the chain's own tables passes.
    #[inline]
    pub fn native_delta(&self, table: &str) -> bool {
        self.native_deltas.passes(|rule| rule.table.as_deref().is_none_or(|wanted| wanted == table))
    }

    /// Whether `block` events pass.
    pub fn blocks(&self) -> bool {
        self.blocks
    }

    /// Whether there are no rules, so that everything passes.
    pub fn passes_all(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    /// Whether no action can pass.
    pub fn no_actions(&self) -> bool {
        self.actions.never(&ActionRule::default())
    }

    /// Whether no table row can pass.
    pub fn no_deltas(&self) -> bool {
        self.deltas.never(&DeltaRule::default())
    }

    /// Whether no row of the chain's own tables can pass.
    pub fn no_native_deltas(&self) -> bool {
        self.native_deltas.never(&NativeDeltaRule::default())
    }

    /// All rules, include first.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.include.iter().chain(&self.exclude)
    }
}

impl Serialize for Filter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Lists<'a> {
            include: &'a [Rule],
            exclude: &'a [Rule],
        }
        Lists { include: &self.include, exclude: &self.exclude }.serialize(serializer)
    }
}

// === impl Kind ===

impl<R: Clone + PartialEq> Kind<R> {
    fn of(include: &[Rule], exclude: &[Rule], of_kind: impl Fn(&Rule) -> Option<&R>) -> Kind<R> {
        let pick = |rules: &[Rule]| rules.iter().filter_map(&of_kind).cloned().collect();
        Kind { include: (!include.is_empty()).then(|| pick(include)), exclude: pick(exclude) }
    }

    #[inline]
    fn passes(&self, matches: impl Fn(&R) -> bool) -> bool {
        self.include.as_ref().is_none_or(|rules| rules.iter().any(&matches))
            && !self.exclude.iter().any(&matches)
    }

    fn never(&self, everything: &R) -> bool {
        self.include.as_ref().is_some_and(Vec::is_empty) || self.exclude.contains(everything)
    }
}

impl<R> Default for Kind<R> {
    fn default() -> Kind<R> {
        Kind { include: None, exclude: Vec::new() }
    }
}

#[inline]
fn fits(wanted: Option<Name>, name: Name) -> bool {
    wanted.is_none_or(|wanted| wanted == name)
}

fn shown<T: std::fmt::Display, S: Serializer>(field: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    match field {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_str("*"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Name = Name::literal("eosio.token");
    const TRANSFER: Name = Name::literal("transfer");
    const ALICE: Name = Name::literal("alice");
    const BOB: Name = Name::literal("bob");
    const ACCOUNTS: Name = Name::literal("accounts");

    fn actions_of(account: Name) -> Rule {
        Rule::Action(ActionRule { account: Some(account), ..ActionRule::default() })
    }

    #[test]
    fn without_rules_everything_passes() {
        let filter = Filter::new(vec![], vec![]);
        assert_eq!(filter, Filter { blocks: true, ..Filter::default() });
        assert!(filter.passes_all() && filter.blocks());
        assert!(filter.action(TOKEN, TRANSFER, TOKEN, &[]));
        assert!(filter.delta(TOKEN, ALICE, ACCOUNTS) && filter.native_delta("permission"));
        assert!(!filter.no_actions() && !filter.no_deltas() && !filter.no_native_deltas());
    }

    #[test]
    fn a_kind_that_no_include_names_does_not_pass() {
        let filter = Filter::new(vec![actions_of(TOKEN)], vec![]);
        assert!(filter.action(TOKEN, TRANSFER, TOKEN, &[]));
        assert!(!filter.action(ALICE, TRANSFER, TOKEN, &[]));
        assert!(!filter.delta(TOKEN, ALICE, ACCOUNTS) && !filter.native_delta("permission"));
        assert!(!filter.blocks() && !filter.passes_all());
        assert!(!filter.no_actions() && filter.no_deltas() && filter.no_native_deltas());
    }

    #[test]
    fn all_fields_of_a_rule_must_match_and_any_rule_will_do() {
        let one = Rule::Delta(DeltaRule { code: Some(TOKEN), table: Some(ACCOUNTS), scope: Some(ALICE) });
        let other = Rule::Delta(DeltaRule { scope: Some(Name(0)), ..DeltaRule::default() });
        let filter = Filter::new(vec![one, other], vec![]);
        assert!(filter.delta(TOKEN, ALICE, ACCOUNTS));
        assert!(!filter.delta(TOKEN, BOB, ACCOUNTS));
        assert!(!filter.delta(TOKEN, ALICE, TRANSFER));
        assert!(filter.delta(BOB, Name(0), TRANSFER));
    }

    #[test]
    fn a_receiver_is_also_one_that_was_notified() {
        let to_bob = Rule::Action(ActionRule { receiver: Some(BOB), ..ActionRule::default() });
        let filter = Filter::new(vec![to_bob.clone()], vec![]);
        assert!(filter.action(TOKEN, TRANSFER, BOB, &[]));
        assert!(filter.action(TOKEN, TRANSFER, TOKEN, &[ALICE, BOB]));
        assert!(!filter.action(TOKEN, TRANSFER, TOKEN, &[ALICE]));
        let filter = Filter::new(vec![], vec![to_bob]);
        assert!(!filter.action(TOKEN, TRANSFER, TOKEN, &[ALICE, BOB]));
        assert!(filter.action(TOKEN, TRANSFER, TOKEN, &[ALICE]));
    }

    #[test]
    fn exclude_wins_and_leaves_other_kinds_alone() {
        let filter = Filter::new(vec![], vec![actions_of(TOKEN), Rule::Block]);
        assert!(!filter.action(TOKEN, TRANSFER, ALICE, &[]));
        assert!(filter.action(ALICE, TRANSFER, ALICE, &[]));
        assert!(filter.delta(TOKEN, ALICE, ACCOUNTS) && !filter.blocks());
        let filter = Filter::new(vec![actions_of(TOKEN), Rule::Fork], vec![actions_of(TOKEN)]);
        assert!(!filter.action(TOKEN, TRANSFER, TOKEN, &[]));
        let everything = Rule::Action(ActionRule::default());
        assert!(Filter::new(vec![actions_of(TOKEN)], vec![everything]).no_actions());
    }

    #[test]
    fn native_tables_go_by_name() {
        let permission = NativeDeltaRule { table: Some("permission".into()) };
        let filter = Filter::new(vec![Rule::NativeDelta(permission), Rule::Block], vec![]);
        assert!(filter.native_delta("permission") && !filter.native_delta("account") && filter.blocks());
    }
}
