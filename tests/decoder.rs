//! What the decoder does with bytes beyond what abieos does, and how it refuses them.

mod decoder_support;

use decoder_support::ask::{TRANSFER, compiled, decode, error_of, text_of, token};
use decoder_support::draft::{Draft, counted};
use parser::abi::{Decoded, Reason};
use parser::hex;
use parser::name::Name;
use parser::out::Out;

#[test]
fn a_transfer_whole_repaired_trailing_and_cut() {
    let abi = compiled(&token());
    let id = abi.action_type(Name::literal("transfer")).expect("an action");
    assert_eq!(abi.type_name(id), "transfer");
    assert_eq!(abi.action_type(Name::literal("issue")), None);
    assert_eq!(abi.table_type(Name::literal("transfer")), None);

    let mut data = hex::parse(TRANSFER).expect("hex");
    let json = r#"{"from":"alice","to":"bob","quantity":"0.0002 SYS","memo":"?"}"#;
    assert_eq!(
        decode(&abi, "transfer", &data),
        Ok((json.to_owned(), Decoded { consumed: 34, repaired: true }))
    );

    data[33] = b'!';
    data.extend_from_slice(b"more");
    let json = r#"{"from":"alice","to":"bob","quantity":"0.0002 SYS","memo":"!"}"#;
    assert_eq!(
        decode(&abi, "transfer", &data),
        Ok((json.to_owned(), Decoded { consumed: 34, repaired: false }))
    );

    for (length, path, offset, message) in [
        (0, "from", 0, "8 bytes needed, 0 left"),
        (15, "to", 8, "8 bytes needed, 7 left"),
        (31, "quantity", 16, "16 bytes needed, 15 left"),
        (32, "memo", 32, "1 bytes needed, 0 left"),
        (33, "memo", 32, "2 bytes needed, 1 left"),
    ] {
        let error = error_of(&abi, "transfer", &data[..length]);
        assert_eq!(
            (error.reason, &*error.path, error.offset, &*error.message),
            (Reason::Truncated, path, offset, message)
        );
    }
    assert_eq!(error_of(&abi, "transfer", &data[..15]).to_string(), "to: 8 bytes needed, 7 left at byte 8");
}

#[test]
fn an_error_leaves_the_output_as_it_was() {
    let abi = compiled(&token());
    let mut out = Out::default();
    out.append(b"before");
    let id = abi.type_named("transfer").expect("a type");
    assert!(abi.decode(id, &[1; 20], &mut out).is_err());
    assert_eq!(&out[..], b"before");
}

#[test]
fn paths_lead_through_structs_arrays_and_variants() {
    let abi = compiled(
        &Draft::default()
            .structure("outer", "", &[("a", "uint8"), ("list", "item[]"), ("z", "uint8")])
            .structure("item", "base", &[("choice", "choice"), ("sizes", "uint16[]")])
            .structure("base", "", &[("key", "uint8?")])
            .variant("choice", &["uint8", "inner"])
            .structure("inner", "", &[("deep", "uint32[2]")]),
    );
    // Two items; the second's variant is an inner whose second number is cut.
    let data = [7, 2, 0, 0, 9, 0, 1, 5, 1, 1, 0, 0, 0, 2, 0];
    let error = error_of(&abi, "outer", &data);
    assert_eq!((error.reason, &*error.path, error.offset), (Reason::Truncated, "list[1].choice.deep[1]", 13));
    let error = error_of(&abi, "outer", &[7, 2, 0, 0, 9, 0, 0, 2]);
    assert_eq!((error.reason, &*error.path, error.offset), (Reason::Invalid, "list[1].choice", 7));
    assert_eq!(error.message, "a variant index without a type");
    let error = error_of(&abi, "outer", &[7, 1, 0, 0, 9, 2, 1, 0, 1]);
    assert_eq!((error.reason, &*error.path, error.offset), (Reason::Truncated, "list[0].sizes[1]", 8));
    let error = error_of(&abi, "outer", &[7, 0x80, 0x80, 0x80, 0x80, 0x80, 1]);
    assert_eq!((error.reason, &*error.path, error.offset), (Reason::Invalid, "list", 1));
}

/// An ABI that abieos refuses, against what nodeos itself made of them.

#[test]
fn extensions_end_with_the_bytes() {
    let abi = compiled(
        &Draft::default()
            .structure("ext", "", &[("a", "uint8"), ("b", "uint8$"), ("c", "inner$")])
            .structure("inner", "", &[("x", "uint8"), ("y", "uint8$")])
            .structure("only", "", &[("b", "uint8$"), ("e", "empty")])
            .structure("empty", "", &[])
            .structure("middle", "", &[("inner", "inner"), ("last", "uint8")]),
    );
    assert_eq!(text_of(&abi, "ext", &[1]), r#"{"a":1}"#);
    assert_eq!(text_of(&abi, "ext", &[1, 2]), r#"{"a":1,"b":2}"#);
    assert_eq!(text_of(&abi, "ext", &[1, 2, 3]), r#"{"a":1,"b":2,"c":{"x":3}}"#);
    assert_eq!(text_of(&abi, "ext", &[1, 2, 3, 4]), r#"{"a":1,"b":2,"c":{"x":3,"y":4}}"#);
    // The first field left out, one without bytes behind it.
    assert_eq!(text_of(&abi, "only", &[]), r#"{"e":{}}"#);
    assert_eq!(text_of(&abi, "empty", &[]), "{}");
    // Nothing may be left out in front of another field.
    let error = error_of(&abi, "middle", &[1]);
    assert_eq!((error.reason, &*error.path), (Reason::Truncated, "inner.y"));
}

/// Runs with little stack: a decode thread's is 2 MiB, and much of that may be in use.
fn with_small_stack(run: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread =
            std::thread::Builder::new().stack_size(128 * 1024).spawn_scoped(scope, run).expect("a thread");
        thread.join().expect("no overflow");
    });
}

#[test]
fn nesting_is_read_to_512_levels_and_deeper_is_invalid() {
    let mut draft = Draft::default()
        .structure("tree", "", &[("value", "uint8"), ("children", "tree[]")])
        .structure("chain", "", &[("next", "chain?")])
        .structure("self", "", &[("self", "self")])
        .variant("either", &["uint8", "either"])
        .variant("node", &["uint8", "branch"])
        .structure("branch", "", &[("nodes", "node[]")])
        .typedef("a0", "uint8[]");
    for i in 1..600 {
        draft = draft.typedef(&format!("a{i}"), &format!("a{}[]", i - 1));
    }
    let abi = compiled(&draft);
    with_small_stack(|| {
        let deep = |levels: usize, each: &[u8], end: &[u8]| [each.repeat(levels - 1), end.to_vec()].concat();
        for (kind, each, end) in [
            ("tree", &[1, 1][..], &[1, 0][..]),
            ("chain", &[1], &[0]),
            ("either", &[1], &[0, 7]),
            ("node", &[1, 1], &[1, 0]),
        ] {
            text_of(&abi, kind, &deep(512, each, end));
            for levels in [513, 1_000, 100_000] {
                let error = error_of(&abi, kind, &deep(levels, each, end));
                assert_eq!(
                    (error.reason, &*error.message),
                    (Reason::Invalid, "nested deeper than 512 levels"),
                    "{kind}"
                );
            }
        }
        assert_eq!(text_of(&abi, "a511", &deep(512, &[1], &[0])), "[".repeat(512) + &"]".repeat(512));
        assert_eq!(error_of(&abi, "a512", &deep(513, &[1], &[0])).reason, Reason::Invalid);
        let error = error_of(&abi, "self", &[]);
        assert_eq!((error.reason, error.offset), (Reason::Invalid, 0));
        assert_eq!(error.path, vec!["self"; 512].join("."));
    });
}

#[test]
fn little_data_makes_no_endless_work() {
    let mut draft = Draft::default()
        .structure("empty", "", &[])
        .structure("many", "", &[("list", "empty[]")])
        .structure("fixed", "", &[("list", "empty[9000000000000000000]")])
        .structure("d0", "", &[])
        .structure("numbers", "", &[("list", "uint64[]"), ("names", "item[]")])
        .structure("item", "", &[("name", "name")]);
    // Each twice the one before: 2 to the power of 60 structs, of no bytes.
    for i in 1..=60 {
        let before = format!("d{}", i - 1);
        draft = draft.structure(&format!("d{i}"), "", &[("a", &before), ("b", &before)]);
    }
    let abi = compiled(&draft);
    assert_eq!(text_of(&abi, "many", &[2]), r#"{"list":[{},{}]}"#);
    assert_eq!(text_of(&abi, "d2", &[]), r#"{"a":{"a":{},"b":{}},"b":{"a":{},"b":{}}}"#);
    let most = [0xff, 0xff, 0xff, 0xff, 0x0f];
    for (kind, data) in [("many", &most[..]), ("fixed", &[]), ("d60", &[])] {
        let error = error_of(&abi, kind, data);
        assert_eq!(
            (error.reason, &*error.message),
            (Reason::Invalid, "too much text for so few bytes"),
            "{kind}"
        );
    }
    let error = error_of(&abi, "numbers", &most);
    assert_eq!((error.reason, &*error.path, error.offset), (Reason::Truncated, "list[0]", 5));
    let error = error_of(&abi, "numbers", &[&[0][..], &most].concat());
    assert_eq!((error.reason, &*error.path, error.offset), (Reason::Truncated, "names[0].name", 6));
}

#[test]
fn endless_keys_are_refused() {
    let abi = compiled(&Draft::default().structure("s", "", &[("key", "public_key")]));
    let key = |length: usize| {
        let mut data = [&[2][..], &[1; 34]].concat();
        counted(&mut data, &vec![b'x'; length]);
        data
    };
    text_of(&abi, "s", &key(16_000));
    let error = error_of(&abi, "s", &key(500_000));
    assert_eq!((error.reason, &*error.path, error.offset), (Reason::Invalid, "key", 0));
    assert_eq!(error_of(&abi, "s", &[3]).reason, Reason::Invalid);
}
