//! Which ABIs are taken, and what is said of the others.

mod decoder_support;

use base64::Engine;
use decoder_support::ask::{TRANSFER, compiled, decode, error_of, refusal, text_of, token};
use decoder_support::draft::{Draft, counted};
use decoder_support::{captures, json, unpacked};
use parser::abi::{Abi, Deserializer, Reason};
use parser::hex;
use parser::name::Name;
use serde_json::Value;

#[test]
fn containers_in_containers_by_way_of_a_typedef() {
    let abi = compiled(
        &Draft::default()
            .typedef("row", "uint8[]")
            .typedef("grid", "row[]")
            .typedef("maybe", "uint8?")
            .typedef("maybes", "maybe[]")
            .typedef("perhaps", "maybe?")
            .typedef("cube", "pair[2]")
            .typedef("pair", "row[2]")
            .structure("all", "", &[("grid", "grid?"), ("maybes", "maybes[]"), ("perhaps", "perhaps$")]),
    );
    assert_eq!(text_of(&abi, "grid", &[3, 0, 1, 7, 2, 8, 9]), "[[],[7],[8,9]]");
    assert_eq!(text_of(&abi, "maybes", &[3, 0, 1, 7, 0]), "[null,7,null]");
    assert_eq!(text_of(&abi, "perhaps", &[1, 1, 7]), "7");
    assert_eq!(text_of(&abi, "perhaps", &[1, 0]), "null");
    assert_eq!(text_of(&abi, "cube", &[1, 1, 0, 1, 3, 0]), "[[[1],[]],[[3],[]]]");
    assert_eq!(text_of(&abi, "all", &[0, 1, 1, 1, 5]), r#"{"grid":null,"maybes":[[5]]}"#);
}

#[test]
fn nested_containers_of_the_recordings_as_nodeos_reads_them() {
    let Some(captures) = captures() else { return };
    let accounts = json(&std::fs::read(captures.join("mixed.rawabi.json")).expect("ABIs"));
    // nodeos pads with more `=` than it should.
    let base64 = accounts["nested111111"].as_str().expect("base64").trim_end_matches('=');
    let packed = base64::engine::general_purpose::STANDARD_NO_PAD.decode(base64).expect("base64");
    let abi = Abi::from_binary(&packed, Deserializer::Compiled).expect("an ABI");
    assert!(rs_abieos::AbiHandle::from_bin(&packed).is_err());
    let mut compared = 0;
    // One entry a line, some of them with text that is no Unicode.
    for line in unpacked(captures.join("mixed.nodeos.json.zst")).split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b",").unwrap_or(line);
        let Ok(entry) = serde_json::from_slice::<Value>(line) else { continue };
        let text = |key: &str| entry[key].as_str().unwrap_or_default();
        if text("account") != "nested111111" || text("type").is_empty() {
            continue;
        }
        let data = hex::parse(text("hex")).expect("hex");
        let (own, _) = decode(&abi, text("type"), &data).expect("decoded");
        // Integers come with or without quotes there.
        let plain = |json: &Value| json.to_string().replace('"', "");
        assert_eq!(plain(&json(own.as_bytes())), plain(&entry["json"]));
        compared += 1;
    }
    assert_eq!(compared, 39);
}

#[test]
fn any_version_1_and_bytes_after_the_end() {
    for version in ["eosio::abi/1.0", "eosio::abi/1.1", "eosio::abi/1.9", "eosio::abi/1.23"] {
        compiled(&token().version(version));
    }
    for version in ["eosio::abi/2.0", "eosio::abi/1", "sysio::abi/1.1", ""] {
        let refusal = refusal(&token().version(version));
        assert_eq!(refusal, format!("version `{version}` is unknown: only eosio::abi/1.x is read"));
    }
    let mut packed = token().packed();
    packed.extend_from_slice(b"\xff\xff\xff and more");
    let abi = Abi::from_binary(&packed, Deserializer::Compiled).expect("an ABI");
    assert!(abi.action_type(Name::literal("transfer")).is_some());
}

#[test]
fn a_cut_abi_is_refused_but_at_its_optional_parts() {
    let mut draft = token();
    draft.results.push((Name::literal("transfer"), "transfer".to_owned()));
    let packed = draft.packed();
    // Without action results (one: a count, a name, nine letters), and without variants (none: a count).
    let whole = [packed.len(), packed.len() - 18, packed.len() - 19];
    for length in 0..=packed.len() {
        let abi = Abi::from_binary(&packed[..length], Deserializer::Compiled);
        assert_eq!(abi.is_ok(), whole.contains(&length), "{length} of {}", packed.len());
        if let Err(error) = abi {
            assert!(error.to_string().contains("left at byte"), "{error}");
        }
    }
    let cut = Abi::from_binary(&packed[..30], Deserializer::Compiled).expect_err("cut").to_string();
    assert_eq!(cut, "structs: 5 bytes needed, 2 left at byte 28");
}

#[test]
fn faults_of_an_abi_are_named_with_their_place() {
    let draft = Draft::default;
    for (draft, message) in [
        (draft().typedef("a", "a"), "typedef `a`: circular type `a`"),
        (draft().typedef("a", "b").typedef("b", "a"), "typedef `a`: circular type `a`"),
        (draft().typedef("a", "b[]").typedef("b", "a"), "typedef `a`: circular type `a`"),
        (draft().typedef("a", "b"), "typedef `a`: unknown type `b`"),
        (
            draft().typedef("a", "name$"),
            "typedef `a`: `a` stands for the extension `name$`: `$` belongs to a field",
        ),
        (draft().typedef("", "name"), "a type without a name"),
        (draft().typedef("name", "uint64"), "duplicate type `name`"),
        (draft().structure("extended_asset", "", &[]), "duplicate type `extended_asset`"),
        (draft().structure("s", "", &[]).structure("s", "", &[]), "duplicate type `s`"),
        (draft().structure("s", "", &[]).typedef("s", "name"), "duplicate type `s`"),
        (draft().variant("v", &[]).structure("v", "", &[]), "duplicate type `v`"),
        (draft().variant("v", &["name", "nome"]), "variant `v`: unknown type `nome`"),
        (draft().structure("s", "", &[("f", "t")]), "struct `s`: field `f`: unknown type `t`"),
        (draft().structure("s", "", &[("f", "")]), "struct `s`: field `f`: unknown type ``"),
        (
            draft().structure("s", "", &[("f", "uint8[][]")]),
            "struct `s`: field `f`: `uint8[][]` nests containers directly",
        ),
        (
            draft().structure("s", "", &[("f", "uint8[]?")]),
            "struct `s`: field `f`: `uint8[]?` nests containers directly",
        ),
        (
            draft().structure("s", "", &[("f", "uint8?[]")]),
            "struct `s`: field `f`: `uint8?[]` nests containers directly",
        ),
        (
            draft().structure("s", "", &[("f", "uint8??")]),
            "struct `s`: field `f`: `uint8??` nests containers directly",
        ),
        (
            draft().structure("s", "", &[("f", "uint8$$")]),
            "struct `s`: field `f`: `uint8$$` nests containers directly",
        ),
        (
            draft().structure("s", "", &[("f", "uint8$?")]),
            "struct `s`: field `f`: `uint8$?` nests containers directly",
        ),
        (
            draft().structure("s", "", &[("f", "uint8[2][3]")]),
            "struct `s`: field `f`: `uint8[2][3]` nests containers directly",
        ),
        (draft().structure("s", "", &[("f", "uint8[0]")]), "struct `s`: field `f`: unknown type `uint8[0]`"),
        (
            draft().structure("s", "", &[("f", "uint8[02]")]),
            "struct `s`: field `f`: unknown type `uint8[02]`",
        ),
        (
            draft().structure("s", "", &[("f", "uint8[-1]")]),
            "struct `s`: field `f`: unknown type `uint8[-1]`",
        ),
        (draft().structure("s", "", &[("f", "uint8]")]), "struct `s`: field `f`: unknown type `uint8]`"),
        (draft().structure("s", "s", &[]), "struct `s`: circular base `s`"),
        (draft().structure("s", "t", &[]).structure("t", "s", &[]), "struct `s`: circular base `s`"),
        (draft().structure("s", "name", &[]), "struct `s`: base `name` is no struct"),
        (draft().structure("s", "t", &[]), "struct `s`: base `t`: unknown type `t`"),
        (draft().structure("s", "t$", &[]).structure("t", "", &[]), "struct `s`: base `t$` is no struct"),
    ] {
        assert_eq!(refusal(&draft), message);
    }
}

#[test]
fn long_lines_of_typedefs_and_bases() {
    // nodeos follows typedefs without end; abieos stops at 32.
    let mut draft = Draft::default().typedef("t0", "uint8");
    for i in 1..10_000 {
        draft = draft.typedef(&format!("t{i}"), &format!("t{}", i - 1));
    }
    // The other way round, so that the first to be looked at has the longest way.
    draft.types.reverse();
    assert_eq!(text_of(&compiled(&draft), "t9999", &[7]), "7");

    let bases = |count: usize| {
        let mut draft = Draft::default().structure("s0", "", &[("f", "uint8")]);
        for i in 1..count {
            draft = draft.structure(&format!("s{i}"), &format!("s{}", i - 1), &[]);
        }
        draft
    };
    assert_eq!(text_of(&compiled(&bases(32)), "s31", &[7]), r#"{"f":7}"#);
    assert!(refusal(&bases(33)).ends_with("more than 32 structs are each other's base"));

    // Fields of bases add up: 40,000 structs of 100 fields each.
    let fields: Vec<String> = (0..100).map(|i| format!("f{i}")).collect();
    let fields: Vec<(&str, &str)> = fields.iter().map(|name| (&**name, "uint8")).collect();
    let mut draft = Draft::default().structure("b", "", &fields);
    for i in 0..40_000 {
        draft = draft.structure(&format!("s{i}"), "b", &[]);
    }
    assert!(refusal(&draft).ends_with("more than 1048576 fields in all structs with their bases"));
}

#[test]
fn bases_by_way_of_a_typedef_and_the_built_in_struct() {
    let abi = compiled(
        &Draft::default()
            .structure("a", "alias", &[("own", "uint8")])
            .typedef("alias", "z")
            .structure("z", "", &[("first", "uint8")])
            .structure("priced", "extended_asset", &[("own", "uint8")]),
    );
    assert_eq!(text_of(&abi, "a", &[1, 2]), r#"{"first":1,"own":2}"#);
    let mut data = [0; 25];
    data[24] = 5;
    let json = r#"{"quantity":"0 ","contract":"","own":5}"#;
    assert_eq!(text_of(&abi, "priced", &data), json);
}

#[test]
fn names_that_only_abieos_knows_may_be_defined() {
    let abi = compiled(
        &Draft::default().typedef("float", "uint8").structure("bitset", "", &[("bits", "uint8")]).structure(
            "s",
            "",
            &[("f", "float"), ("b", "bitset"), ("d", "double")],
        ),
    );
    assert_eq!(
        text_of(&abi, "s", &[1, 2, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f]),
        r#"{"f":1,"b":{"bits":2},"d":1.5}"#
    );
}

#[test]
fn actions_without_a_type_are_that_action_s_fault_alone() {
    let transfer = Name::literal("transfer");
    let abi =
        compiled(&token().action(Name::literal("lost"), "nothing").action(Name::literal("list"), "name[]"));
    assert_eq!(abi.action_type(Name::literal("lost")), None);
    assert!(abi.action_type(transfer).is_some());
    let list = abi.action_type(Name::literal("list")).expect("a type");
    assert_eq!(abi.type_name(list), "name[]");
    // The last of two counts.
    let abi = compiled(&token().action(transfer, "name"));
    assert_eq!(abi.action_type(transfer).map(|id| abi.type_name(id)), Some("name"));
    assert_eq!(compiled(&token().action(transfer, "nothing")).action_type(transfer), None);
}

#[test]
fn text_in_an_abi_need_not_be_utf8() {
    let mut packed = token().packed();
    let memo = packed.windows(4).position(|word| word == b"memo").expect("a field");
    packed[memo + 3] = 0xff;
    let contract = packed.windows(9).position(|word| word == b"Ricardian").expect("a contract");
    packed[contract] = 0xff;
    let abi = Abi::from_binary(&packed, Deserializer::Compiled).expect("an ABI");
    let json = r#"{"from":"","to":"","quantity":"0 ","mem?":""}"#;
    assert_eq!(text_of(&abi, "transfer", &[0; 33]), json);
}

#[test]
fn the_node_s_own_abi_in_json() {
    let abi = Abi::from_json(
        r#"{"version":"eosio::abi/1.1","structs":[{"name":"row_v0","base":"","fields":[{"name":"a","type":"name"}]}],
            "types":[],"variants":[{"name":"row","types":["row_v0"]}],
            "tables":[{"name":"row","type":"row","key_names":["a"]}]}"#,
        Deserializer::Compiled,
    )
    .expect("an ABI");
    assert_eq!(text_of(&abi, "row", &[&[0][..], &[0; 8]].concat()), r#"["row_v0",{"a":""}]"#);
    assert_eq!(abi.type_named("row_v1"), None);
    assert_eq!(abi.type_named("row_v0").map(|id| abi.type_name(id)), Some("row_v0"));
    let error = Abi::from_json("{", Deserializer::Compiled).expect_err("no JSON").to_string();
    assert!(error.starts_with("not an ABI in JSON: "), "{error}");
    let error = Abi::from_json(r#"{"version":"eosio::abi/2.0"}"#, Deserializer::Compiled)
        .expect_err("a version")
        .to_string();
    assert!(error.contains("eosio::abi/2.0"), "{error}");
}

#[test]
fn all_threads_share_one_abi() {
    fn shared<T: Send + Sync>(value: T) -> T {
        value
    }
    let draft = token().structure("tree", "", &[("children", "tree[]")]);
    for with in [Deserializer::Compiled, Deserializer::Abieos] {
        let abi = shared(Abi::from_binary(&draft.packed(), with).expect("an ABI"));
        let mut data = vec![0; 32];
        counted(&mut data, b"memo");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let json = r#"{"from":"","to":"","quantity":"0 ","memo":"memo"}"#;
                        assert_eq!(text_of(&abi, "transfer", &data), json);
                    }
                });
            }
        });
    }
}

#[test]
fn rs_abieos_itself_for_comparison() {
    let draft = token().structure("tree", "", &[("children", "tree[]")]).typedef("row", "uint8[]");
    let abi = Abi::from_binary(&draft.packed(), Deserializer::Abieos).expect("an ABI");
    // It takes no text that is not UTF-8, and tells no left-over bytes.
    let mut data = hex::parse(TRANSFER).expect("hex");
    let error = error_of(&abi, "transfer", &data);
    assert_eq!(error.reason, Reason::Invalid);
    assert!(error.message.contains("Invalid encoding"), "{error}");
    data[33] = b'!';
    data.push(0);
    let json = r#"{"from":"alice","to":"bob","quantity":"0.0002 SYS","memo":"!"}"#;
    assert_eq!(text_of(&abi, "transfer", &data), json);
    assert_eq!(error_of(&abi, "transfer", &data[..20]).reason, Reason::Truncated);
    // What would overflow its stack is found out before.
    assert_eq!(error_of(&abi, "tree", &[1; 100_000]).reason, Reason::Invalid);
    let nested = draft.typedef("maybe", "uint8?").typedef("maybes", "maybe[]");
    let error = Abi::from_binary(&nested.packed(), Deserializer::Abieos).expect_err("refused").to_string();
    assert!(error.starts_with("rs_abieos: "), "{error}");
}
