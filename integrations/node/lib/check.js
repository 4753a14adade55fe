'use strict';

const { instead, isDuration, milliseconds } = require('./duration.js');
const { longestTimer } = require('./lease.js');

// A wrong argument is a mistake of the program. It raises a TypeError that names the argument, before anything is sent to PostgreSQL.

const isType = (type) => (value) => typeof value === type;
const isText = isType('string');
const isBigint = (value) => typeof value === 'bigint' || (isText(value) && /^-?\d+$/.test(value));
const isNumber = (value) => Number.isFinite(value) || typeof value === 'bigint' || (isText(value) && value.trim() !== '' && !Number.isNaN(Number(value)));
const isArrayOf = (isItem) => (value) => Array.isArray(value) && value.every(isItem);

/** By kind: a test of the value, and the end of the message. The kinds of SQL arguments have the names of their types. */
const kinds = {
    text: [isText, 'text'],
    regclass: [isText, 'the name of a table'],
    int: [Number.isInteger, 'an integer'],
    bigint: [isBigint, 'a bigint, or the text of one'],
    interval: [isDuration, `an interval with its unit, such as '30 s' or { minutes: 5 }`],
    jsonb: [(value) => !['undefined', 'function', 'symbol', 'bigint'].includes(typeof value), 'a value that JSON has'],
    bytea: [(value) => value instanceof Uint8Array, 'a Buffer or Uint8Array'],
    'text[]': [isArrayOf(isText), 'an array of texts'],
    float8: [isNumber, 'a number'],
    numeric: [isNumber, 'a number, or the text of one'],
    name: [(value) => isText(value) && value !== '', 'a name'],
    timestamptz: [(value) => isText(value) || value instanceof Date, 'a Date, or the text of a time'],
    'jsonb[]': [isArrayOf((value) => value !== null && typeof value === 'object'), 'an array of objects'],
    'name[]': [isArrayOf(isText), 'an array of names'],
    'bigint[]': [isArrayOf(isBigint), 'an array of bigints'],
    any: [() => true],
    object: [(value) => value !== null && typeof value === 'object', 'an object'],
    array: [Array.isArray, 'an array'],
    function: [isType('function'), 'a function'],
    scope: [isType('function'), 'a function of the request that returns the authenticated client and the API'],
    methods: [isArrayOf((value) => isText(value) && /^[A-Z-]+$/.test(value)), `an array of methods in capital letters, such as ['POST']`],
    false: [(value) => value === false, 'false or not given'],
    timer: [(value) => milliseconds(value) >= 1 && milliseconds(value) <= longestTimer, `an interval from '1 ms' to '24 days' with its unit, such as '30 s' or { minutes: 5 }`],
    pause: [(value) => milliseconds(value) <= longestTimer, `an interval up to '24 days' with its unit, such as '5 s' or { seconds: 5 }`],
    statuses: [isArrayOf((value) => Number.isInteger(value) && value >= 200 && value <= 599), 'an array of HTTP statuses, such as [402, 404]'],
    oversize: [(value) => value === 'omit' || value === 'rollback', `'omit' or 'rollback'`],
    toolScope: [(value) => typeof value === 'function' || (isText(value) && value !== ''), `a function of the call's context that returns the authenticated user, or a text`],
    toolKey: [(value) => value === 'argument' || value === 'call' || typeof value === 'function', `'argument', 'call' or a function of the arguments`],
    onCancel: [(value) => value === 'rollback' || value === 'finish', `'rollback' or 'finish'`],
    onError: [(value) => value === 'release' || value === 'keep', `'release' or 'keep'`],
    signal: [(value) => typeof value?.aborted === 'boolean', 'an AbortSignal'],
    number: [isNumber, 'a number, or the text of one'],
    boolean: [isType('boolean'), 'true or false'],
    attempts: [(value) => Number.isInteger(value) && value >= 1, 'a number of attempts, from 1'],
    size: [(value) => Number.isInteger(value) && value >= 0, 'a number of bytes'],
    logger: [(value) => ['info', 'error'].every((level) => typeof value?.[level] === 'function'), 'an object with the functions info and error'],
};

function check(name, value, kind) {
    const [isRight, what] = kinds[kind];
    if (isRight(value)) return;
    const isBare = typeof value === 'number' && ['interval', 'timer', 'pause'].includes(kind);
    throw new TypeError(`"${name}" must be ${what}${isBare ? `; ${instead(value)}` : ''}`);
}

/** Checks an object of options. `kindOf`: the kind of each option. An option that is undefined is not given. */
function checkOptions(options, kindOf) {
    const names = Object.keys(kindOf);
    if (options === null || typeof options !== 'object') throw new TypeError(`options must be an object of ${names.join(', ')}`);
    for (const [name, value] of Object.entries(options)) {
        if (!names.includes(name)) throw new TypeError(`unknown option "${name}"; the options are ${names.join(', ')}`);
        if (value !== undefined) check(name, value, kindOf[name]);
    }
}

module.exports = { check, checkOptions };
