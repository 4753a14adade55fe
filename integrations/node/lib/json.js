'use strict';

const member = '$base64';

// jsonb has no U+0000 and no lone surrogate.
const refused = /\u0000|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;

const isMarked = (value) => value !== null && typeof value === 'object' && !Array.isArray(value) && Object.keys(value).length === 1 && member in value;

const refuses = (value) => {
    if (typeof value === 'string') return refused.test(value);
    if (value === null || typeof value !== 'object') return false;
    return Object.entries(value).some(([name, item]) => refused.test(name) || refuses(item));
};

/** What jsonb stores for a value of JSON. A value that it refuses is one marked member: its JSON text in UTF-8, in base64. */
function pack(value) {
    const text = JSON.stringify(value);
    if (text === undefined) throw new TypeError('the output is no value that JSON has');
    const json = JSON.parse(text);
    // JSON.stringify writes a lone surrogate as an escape, so the text is UTF-8.
    return isMarked(json) || refuses(json) ? { [member]: Buffer.from(text).toString('base64') } : json;
}

function unpack(stored) {
    return isMarked(stored) && typeof stored[member] === 'string' ? JSON.parse(Buffer.from(stored[member], 'base64').toString()) : stored;
}

module.exports = { pack, unpack };
