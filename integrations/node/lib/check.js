'use strict';

// A wrong argument is a mistake of the program. It raises a TypeError that names the argument, before anything is sent to PostgreSQL.

const isType = (type) => (value) => typeof value === type;
const isText = isType('string');
const isBigint = (value) => typeof value === 'bigint' || (isText(value) && /^-?\d+$/.test(value));
const isArrayOf = (isItem) => (value) => Array.isArray(value) && value.every(isItem);
// PostgreSQL takes '30' for seconds, and a number is milliseconds here. Hence the unit.
const isInterval = (value) => (typeof value === 'number' ? Number.isFinite(value) && value >= 0 : isText(value) && /\d\s*[a-z]|\d:\d/i.test(value));
// A longer timer of Node fires at once.
const longestTimer = 2 ** 31 - 1;

/** By kind: a test of the value, and the end of the message. The kinds of SQL arguments have the names of their types. */
const kinds = {
    text: [isText, 'text'],
    regclass: [isText, 'the name of a table'],
    int: [Number.isInteger, 'an integer'],
    bigint: [isBigint, 'a bigint, or the text of one'],
    interval: [isInterval, `a number of milliseconds, or an interval with its unit such as '30 s'`],
    jsonb: [(value) => !['undefined', 'function', 'symbol', 'bigint'].includes(typeof value), 'a value that JSON has'],
    bytea: [(value) => value instanceof Uint8Array, 'a Buffer or Uint8Array'],
    'text[]': [isArrayOf(isText), 'an array of texts'],
    'bigint[]': [isArrayOf(isBigint), 'an array of bigints'],
    any: [() => true],
    object: [(value) => value !== null && typeof value === 'object', 'an object'],
    array: [Array.isArray, 'an array'],
    function: [isType('function'), 'a function'],
    scope: [isType('function'), 'a function of the request that returns the authenticated client and the API'],
    name: [(value) => isText(value) && value !== '', 'a name'],
    methods: [isArrayOf((value) => isText(value) && /^[A-Z-]+$/.test(value)), `an array of methods in capital letters, such as ['POST']`],
    false: [(value) => value === false, 'false or not given'],
    timer: [(value) => typeof value === 'number' && value >= 1 && value <= longestTimer, `a number of milliseconds from 1 to ${longestTimer}`],
    size: [(value) => Number.isInteger(value) && value >= 0, 'a number of bytes'],
    logger: [(value) => ['info', 'error'].every((level) => typeof value?.[level] === 'function'), 'an object with the functions info and error'],
};

function check(name, value, kind) {
    const [isRight, what] = kinds[kind];
    if (!isRight(value)) throw new TypeError(`"${name}" must be ${what}`);
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
