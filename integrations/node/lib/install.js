'use strict';

const { builtin } = require('./builtin.js');
const { readFile } = builtin('node:fs/promises');
const { join } = builtin('node:path');
const { checkOptions } = require('./check.js');
const { toScripts } = require('./drivers.js');
const { IdemError } = require('./errors.js');

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
        await query(`SELECT pg_catalog.set_config('idem_portable.schema', $1::text, true)`, [schema]);
        await execute(text);
    });
}

// From the catalog alone: a role that made the schema first may have put a function idem_version there, and a call would run its code. `trusted`: the
// extension's, or its schema and the function are the current role's.
const lookup = `SELECT CASE WHEN own.version IS NULL THEN 'c' ELSE 'portable' END AS edition, coalesce(own.version, e.extversion) AS version,
        e.oid IS NOT NULL OR p.proowner OPERATOR(pg_catalog.=) n.nspowner
            AND pg_catalog.pg_get_userbyid(n.nspowner) OPERATOR(pg_catalog.=) CURRENT_USER AS trusted
    FROM pg_catalog.pg_proc p
    JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
    CROSS JOIN LATERAL pg_catalog.substring(p.prosrc, '^ SELECT ''portable'', ''([0-9]+([.][0-9]+)*)'',') AS own (version)
    LEFT JOIN (pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON d.refobjid OPERATOR(pg_catalog.=) e.oid
                   AND d.refclassid OPERATOR(pg_catalog.=) e.tableoid AND d.deptype OPERATOR(pg_catalog.=) 'e'
                   AND e.extname OPERATOR(pg_catalog.=) 'idem'::pg_catalog.name)
        ON d.classid OPERATOR(pg_catalog.=) p.tableoid AND d.objid OPERATOR(pg_catalog.=) p.oid
    WHERE n.nspname OPERATOR(pg_catalog.=) $1::pg_catalog.name AND p.proname OPERATOR(pg_catalog.=) 'idem_version'::pg_catalog.name
        AND p.pronargs OPERATOR(pg_catalog.=) 0::pg_catalog.int2 AND (own.version IS NOT NULL OR e.oid IS NOT NULL)`;

const compare = (left, right) => left.localeCompare(right, 'en', { numeric: true });

/** → the installation, and whether it is `trusted`; null: there is none. */
async function installedIn(database, schema) {
    const [row] = await toScripts(database).query(lookup, [schema]);
    return row ?? null;
}

const described = (schema, found) => ({
    schema,
    edition: found?.edition ?? null,
    version: found?.version ?? null,
    packaged,
    needs: found === null ? 'install' : compare(found.version, packaged) < 0 ? 'upgrade' : null,
});

async function status(database, options = {}) {
    const schema = schemaOf(options);
    return described(schema, await installedIn(database, schema));
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
    const before = await installedIn(database, schema);
    // In another role's schema, the script raises the error.
    if (before?.trusted) {
        if (before.edition === 'c') return described(schema, before);
        if (compare(before.version, packaged) > 0) {
            throw new IdemError(`schema "${schema}" has idem ${before.version}, which is newer than this package (${packaged})`);
        }
    }
    await run(database, 'install', schema);
    return status(database, { schema });
}

const uninstall = (database, options = {}) => run(database, 'uninstall', schemaOf(options));

module.exports = { install, uninstall, status, verify, script };
