// What @wharfkit/antelope makes of packed data.
//
// Reads lines of JSON: {"abi": TEXT} or {"abi": HEX, "packed": true} is the ABI from there on; {"type", "data": HEX}
// is answered with a line: the value's JSON, or `!` and what the library says against it.
//
// The library is taken from the directory of modules that PARSER_WHARFKIT names, or else from beside this file.

import {createRequire} from 'node:module'
import {createInterface} from 'node:readline'
import {resolve} from 'node:path'

const from = process.env.PARSER_WHARFKIT ? resolve(process.env.PARSER_WHARFKIT, 'any.js') : import.meta.url
const {ABI, Bytes, Serializer} = createRequire(from)('@wharfkit/antelope')

let abi
for await (const line of createInterface({input: process.stdin})) {
    const ask = JSON.parse(line)
    if (ask.abi !== undefined) {
        try {
            abi = ask.packed ? Serializer.decode({data: ask.abi, type: ABI}) : ABI.from(ask.abi)
        } catch (error) {
            abi = undefined
        }
        continue
    }
    let answer
    try {
        answer = JSON.stringify(Serializer.decode({data: Bytes.from(ask.data), type: ask.type, abi}))
    } catch (error) {
        answer = '!' + error.message.replaceAll('\n', ' ')
    }
    process.stdout.write(answer + '\n')
}
