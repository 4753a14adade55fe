'use strict';

const { builtin } = require('./builtin.js');
const { readFile } = builtin('node:fs/promises');
const { join } = builtin('node:path');
const { checkOptions } = require('./check.js');
const { toScripts } = require('./drivers.js');
const { IdemError, sqlstate } = require('./errors.js');
const { quoteIdentifier } = require('./values.js');

const { version: packaged } = require('../package.json');

const files = { install: 'idem--portable.sql', uninstall: 'idem--portable-uninstall.sql' };

/** The text of the portable edition. 'install' brings an older installation up to this version, too. */
async function script(kind = 'install') {
    try {
        return await readFile(join(__dirname, '../sql', files[kind]), 'utf8');
    } catch (error) {
        throw new IdemError('the SQL of idem is not beside the code of idem-postgres: leave the package out of the bundle, or run: npx idem-postgres install', undefined, error);
    }
}

function schemaOf(options) {
    checkOptions(options, { schema: 'name' });
    return options.schema ?? 'idem';
}

async function run(database, kind, schema) {
    const text = await script(kind);
    await toScripts(database).transaction(async ({ query, execute }) => {
        await query(`SELECT set_config('idem_portable.schema', $1::text, true)`, [schema]);
        await execute(text);
    });
}

const compare = (left, right) => left.localeCompare(right, 'en', { numeric: true });

async function installedIn(database, schema) {
    try {
        const [row] = await toScripts(database).query(`SELECT edition, version, server FROM ${quoteIdentifier(schema)}.idem_version()`, []);
        return row;
    } catch (error) {
        // No schema, or no function.
        if (['3F000', '42883'].includes(sqlstate(error))) return null;
        throw error;
    }
}

async function status(database, options = {}) {
    const schema = schemaOf(options);
    const found = await installedIn(database, schema);
    const needs = found === null ? 'install' : compare(found.version, packaged) < 0 ? 'upgrade' : null;
    return { schema, edition: found?.edition ?? null, version: found?.version ?? null, packaged, needs };
}

async function verify(database, options = {}) {
    const { schema, edition, version, needs } = await status(database, options);
    if (needs === 'install') throw new IdemError(`idem is not installed in schema "${schema}"; run: npx idem-postgres install`);
    if (needs !== 'upgrade') return;
    const how = edition === 'portable' ? 'run: npx idem-postgres upgrade' : 'install the newer extension, and run: ALTER EXTENSION idem UPDATE';
    throw new IdemError(`schema "${schema}" has idem ${version}, which is older than this package (${packaged}); ${how}`);
}

async function install(database, options = {}) {
    const schema = schemaOf(options);
    const before = await status(database, { schema });
    if (before.edition === 'c') return before;
    if (before.version !== null && compare(before.version, packaged) > 0) {
        throw new IdemError(`schema "${schema}" has idem ${before.version}, which is newer than this package (${packaged})`);
    }
    await run(database, 'install', schema);
    return status(database, { schema });
}

const uninstall = (database, options = {}) => run(database, 'uninstall', schemaOf(options));

module.exports = { install, uninstall, status, verify, script };
