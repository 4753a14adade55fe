'use strict';

const { interval } = require('./duration.js');

// Arguments travel as text, which every driver and ORM passes unchanged, and the statement casts them. Bytes are the exception.

const arrayLiteral = (values) => `{${values.map((value) => `"${String(value).replace(/["\\]/g, '\\$&')}"`).join(',')}}`;

const encoders = {
    text: (value) => value,
    interval,
    regclass: (value) => value,
    int: String,
    boolean: String,
    numeric: String,
    float8: String,
    name: (value) => value,
    timestamptz: (value) => (value instanceof Date ? value.toISOString() : value),
    'jsonb[]': (values) => arrayLiteral(values.map((value) => JSON.stringify(value))),
    'name[]': arrayLiteral,
    bigint: String,
    jsonb: JSON.stringify,
    bytea: (value) => Buffer.from(value),
    'text[]': arrayLiteral,
    'bigint[]': arrayLiteral,
};

/** The placeholder for an argument of this type. */
const placeholder = (number, type) => (type === 'bytea' || type === 'text' ? `$${number}::${type}` : `$${number}::text::${type}`);

/** What to pass for it. null and undefined are NULL; a JSON null is given as `null` to a jsonb argument. */
function encode(value, type) {
    if (value === undefined || (value === null && type !== 'jsonb')) return null;
    return encoders[type](value);
}

const quoteIdentifier = (name) => `"${name.replaceAll('"', '""')}"`;

module.exports = { encode, placeholder, quoteIdentifier };
