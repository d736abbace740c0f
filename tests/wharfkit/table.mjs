// Writes tests/data/wharfkit.ndjson: values at the edges of every type, and what @wharfkit/antelope makes of them.
//
//     npm install && node table.mjs > ../data/wharfkit.ndjson
//
// The first line is the ABI; each other one a type, packed bytes, and the JSON, or what the library says against them.

import {createRequire} from 'node:module'

const {ABI, Bytes, Serializer} = createRequire(import.meta.url)('@wharfkit/antelope')

const definition = {
    version: 'eosio::abi/1.2',
    types: [
        {new_type_name: 'numbers', type: 'uint64[]'},
        {new_type_name: 'table', type: 'numbers[]'},
        {new_type_name: 'perhaps', type: 'uint64?'},
        {new_type_name: 'perhaps_perhaps', type: 'perhaps?'},
        {new_type_name: 'octets', type: 'uint8[]'},
    ],
    structs: [
        {name: 'base', base: '', fields: [{name: 'id', type: 'uint64'}]},
        {
            name: 'extended', base: 'base',
            fields: [{name: 'a', type: 'bool$'}, {name: 'b', type: 'string$'}, {name: 'c', type: 'perhaps$'}],
        },
        {name: 'holder', base: '', fields: [{name: 'inner', type: 'extended'}, {name: 'last', type: 'extended$'}]},
        {name: 'empty', base: '', fields: []},
        {name: 'odd', base: '', fields: [{name: 'say "hi"\\\u0001\b\u007f', type: 'uint8'}]},
        {
            name: 'transfer', base: '',
            fields: [
                {name: 'from', type: 'name'}, {name: 'to', type: 'name'},
                {name: 'quantity', type: 'asset'}, {name: 'memo', type: 'string'},
            ],
        },
    ],
    variants: [{name: 'either', types: ['uint64', 'string', 'numbers', 'extended', 'either', 'uint8?', 'int8[]']}],
    actions: [], tables: [], ricardian_clauses: [], error_messages: [], abi_extensions: [],
}
const abi = ABI.from(definition)

const integer = (bits, value) => {
    let rest = BigInt.asUintN(bits, BigInt(value))
    let out = ''
    for (let i = 0; i < bits; i += 8, rest >>= 8n) out += (rest & 0xffn).toString(16).padStart(2, '0')
    return out
}
const float = (bits, value) => {
    const bytes = Buffer.alloc(bits / 8)
    bits === 32 ? bytes.writeFloatLE(value) : bytes.writeDoubleLE(value)
    return bytes.toString('hex')
}
const varuint = (value) => {
    const bytes = []
    for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) | 128)
    return Buffer.from([...bytes, value]).toString('hex')
}
const counted = (hex) => varuint(hex.length / 2) + hex
const string = (text) => counted(Buffer.from(text).toString('hex'))
const symbol = (precision, code) => Buffer.from([precision, ...Buffer.from(code.padEnd(7, '\0'))]).toString('hex')

const values = {
    bool: ['00', '01', '02', 'ff'],
    name: [0, 1, 15, 16, 0x5530ea033482a600n, 0x3000000000000000n, -1].map((v) => integer(64, v)),
    bytes: ['', '00', '1fab', 'ff'.repeat(200)].map(counted),
    checksum160: ['01ab'.repeat(10)],
    checksum256: ['cd'.repeat(32)],
    checksum512: ['0e'.repeat(64)],
    float128: ['000102030405060708090a0b0c0d0e0f'],
    varuint32: [0, 1, 127, 128, 2 ** 31, 2 ** 32 - 1].map(varuint),
    varint32: [0, 1, 2, 3, 2 ** 32 - 2, 2 ** 32 - 1].map(varuint),
    float32: [
        0, -0, 1, -1.5, 0.1, 1 / 256, 3 / 256, -1 / 256, 5e-8, 1e-10, -1e-10, 1e-45, 16777216, 123456.789, 9999999.5, 1e20, 999999984306749440,
        1e21, 3.4028234663852886e38, NaN, Infinity, -Infinity,
    ].map((v) => float(32, v)),
    float64: [
        0, -0, 1, -1.5, 0.1, 1 / 3, 123456.789, 2 ** 53, 2 ** 53 + 2, 1e15, 1e16, 1.5e16, 2 ** 63, 2 ** 69, 1e20, 123456789012345680000,
        524.56597900390625, -0.1903171241283417, 1e21, 2 ** 70, 1e22, 9007199254740993e3, -1.5e17, 1e-5, 1e-6, 1.25e-6, 9.99e-7, 1e-7, -1.5e-9, 5e-324, 1.7976931348623157e308, NaN, Infinity, -Infinity,
    ].map((v) => float(64, v)),
    time_point: [
        0, 1, 499, 500, 1499, 1500, -1, -499, -500, -999, -1499, -1500, 946684800000000n, 1709251199999499n, 1709251199999500n,
        253402300799999499n, 253402300799999500n, 253402300800000000n, -62167219200000000n, -62167219200000501n, -62167219200001000n,
        8640000000000000499n, -8640000000000000499n,
    ].map((v) => integer(64, v)),
    time_point_sec: [0, 1, 951782400, 2 ** 31, 2 ** 32 - 1].map((v) => integer(32, v)),
    block_timestamp_type: [0, 1, 1577836800, 2 ** 32 - 1].map((v) => integer(32, v)),
    string: [
        '', 'plain', 'a "quoted" \\ /slash/', '\b\t\n\u000b\f\r\u0000\u001f\u007f', 'ßé€🙂\u2028\u2029', '\ufeff', '\ufefftext', 'a\ufeff',
        '\ufeff\ufeff', 'x'.repeat(300),
    ].map(string),
    symbol: [
        symbol(0, ''), symbol(4, ''), symbol(4, 'EOS'), symbol(0, 'A'), symbol(18, 'ABCDEFG'), symbol(255 & 18, 'Z'),
    ],
    symbol_code: ['', 'A', 'EOS', 'ABCDEFG', 'ABCDEFGH', 'aBC', '\0BC', '\u0001', '"A', '\u007f'].map((code) =>
        Buffer.from(code.padEnd(8, '\0')).toString('hex')
    ).concat(['ff41000000000000', '8000000000000000']),
    asset: [
        [0, symbol(0, '')], [0, symbol(4, 'EOS')], [1, symbol(4, 'EOS')], [-1, symbol(4, 'EOS')], [10000, symbol(4, 'EOS')],
        [-123456789, symbol(4, 'EOS')], [42, symbol(0, 'WHOLE')], [-42, symbol(0, 'WHOLE')], [7, symbol(18, 'ABCDEFG')],
        [2n ** 63n - 1n, symbol(18, 'ABCDEFG')], [-(2n ** 63n), symbol(4, 'EOS')], [-(2n ** 63n), symbol(0, 'EOS')], [5, symbol(1, '')],
    ].map(([amount, rest]) => integer(64, amount) + rest),
    extended_asset: [integer(64, 12345) + symbol(4, 'EOS') + integer(64, 0x5530ea033482a600n)],
    public_key: [
        '00' + '00'.repeat(33), '00' + '02' + 'ab'.repeat(32), '01' + '03' + '01'.repeat(32),
        '02' + '02' + 'cd'.repeat(32) + '01' + string('example.org'), '02' + '02' + 'cd'.repeat(32) + '00' + '8b00' + 'ef'.repeat(11),
        '02' + '02' + 'cd'.repeat(32) + '00' + string(''),
    ],
    signature: [
        '00' + '00'.repeat(65), '00' + '20' + 'ab'.repeat(64), '01' + '1f' + '01'.repeat(64),
        '02' + '1f' + 'cd'.repeat(64) + string('auth') + string('{"type":"webauthn.get"}'),
        '02' + '1f' + 'cd'.repeat(64) + '8400' + 'ef'.repeat(4) + '00',
    ],
    table: ['00', '0100', '0201' + integer(64, 1) + '02' + integer(64, 2n ** 32n) + integer(64, 2n ** 32n - 1n)],
    perhaps: ['00', '01' + integer(64, 7), '02' + integer(64, -1)],
    perhaps_perhaps: ['00', '0100', '0101' + integer(64, 7)],
    octets: ['00', '0301ff0a', counted('00'.repeat(30))],
    either: [
        '00' + integer(64, 7), '01' + string('text'), '0201' + integer(64, -1), '03' + integer(64, 1), '04' + '04' + '01' + string('deep'),
        '0500', '050107', '0602ff01',
    ],
    extended: [
        integer(64, 1), integer(64, 1) + '01', integer(64, 1) + '01' + string('b'), integer(64, 1) + '01' + string('b') + '00',
        integer(64, 1) + '01' + string('b') + '01' + integer(64, 2n ** 40n),
    ],
    // Extensions may be missing in the middle, as long as nothing follows.
    holder: [integer(64, 1), integer(64, 1) + '01' + string('b') + '00' + integer(64, 2), integer(64, 1) + '01' + string('b') + '00'],
    'extended[]': ['00', '01' + integer(64, 1)],
    empty: [''],
    odd: ['07'],
    transfer: [
        integer(64, 0x5530ea033482a600n) + integer(64, 0x3000000000000000n) + integer(64, 15000) + symbol(4, 'EOS') + string('Grüße\n'),
    ],
    // What the library makes nothing of: here bytes are read as abieos reads them.
    'uint8[2]': ['0102'],
    block_timestamp: [integer(32, 1)],
    double: [float(64, 0.5)],
    private_key: ['00' + '01'.repeat(32)],
}
for (const bits of [8, 16, 32, 64, 128]) {
    const edges = [0n, 1n, 2n ** 7n, 2n ** 15n, 2n ** 31n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 53n, 2n ** 63n, 2n ** 64n - 1n, 2n ** 64n, 2n ** 127n]
    values[`uint${bits}`] = [...edges, -1n].map((v) => integer(bits, v))
    values[`int${bits}`] = edges.flatMap((v) => [v, v - 1n, -v, -v - 1n]).map((v) => integer(bits, v))
}
values.string.push(counted('ff'), counted('61c328'), counted('efbbbfff'))
values.symbol.push(symbol(19, 'EOS'), symbol(4, 'eos'), symbol(4, 'A\0B'), symbol(4, 'A\u001f'))
values.symbol_code.push('4541ff0000000000', '4541620000000000')
values.asset.push(integer(64, 1) + symbol(19, 'EOS'), integer(64, -1) + symbol(255, 'EOS'), integer(64, 1) + symbol(2, 'e"s'))
values.time_point.push(integer(64, 8640000000000000500n), integer(64, 2n ** 63n - 1n), integer(64, -(2n ** 63n)))

console.log(JSON.stringify({abi: definition}))
for (const [type, list] of Object.entries(values)) {
    for (const data of new Set(list)) {
        const line = {type, data}
        try {
            line.json = JSON.stringify(Serializer.decode({data: Bytes.from(data), type, abi}))
        } catch (error) {
            line.throws = error.message
        }
        console.log(JSON.stringify(line))
    }
}
