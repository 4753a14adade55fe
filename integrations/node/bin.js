#!/usr/bin/env node
'use strict';

const { builtin } = require('./lib/builtin.js');
const { parseArgs } = builtin('node:util');
const { install, uninstall, status, script } = require('./lib/install.js');

const usage = `usage: idem-postgres COMMAND [--schema NAME] [URL]

  install     install the portable edition of idem, or bring it up to this version; several at once queue
  upgrade     the same, where it is installed
  uninstall   drop it, and all of its keys
  status      what is installed; exit status 1 if it is missing or older than this package
  sql         print the script that install runs, for a migration tool

  URL         postgresql://user:password@host/database; default: DATABASE_URL, then PGHOST and the like
  --schema    default: idem
`;

class Usage extends Error {}

function readArguments() {
    try {
        const { values, positionals: [command, url, ...more] } = parseArgs({ allowPositionals: true, options: { schema: { type: 'string' }, help: { type: 'boolean' } } });
        if (more.length) throw new Usage('one URL at most');
        return { command: values.help ? 'help' : command, url: url ?? process.env.DATABASE_URL, options: values.schema === undefined ? {} : { schema: values.schema } };
    } catch (error) {
        throw new Usage(error.message);
    }
}

function connect(url) {
    let pg;
    try {
        pg = require(require.resolve('pg', { paths: [process.cwd(), __dirname] }));
    } catch (error) {
        throw new Error('the package pg is missing; run: npm install pg', { cause: error });
    }
    return new pg.Client({ connectionString: url, application_name: 'idem-postgres' });
}

const commands = {
    install: async (database, options) => `${(await install(database, options)).version} is installed`,
    async upgrade(database, options) {
        const { needs, schema } = await status(database, options);
        if (needs === 'install') throw new Error(`idem is not installed in schema "${schema}"; run: idem-postgres install`);
        return commands.install(database, options);
    },
    uninstall: async (database, options) => { await uninstall(database, options); return 'idem is gone'; },
    async status(database, options) {
        const { schema, edition, version, packaged, needs } = await status(database, options);
        if (needs) process.exitCode = 1;
        return `schema "${schema}": ${version === null ? 'idem is not installed' : `idem ${version}, edition ${edition}`}; this package: ${packaged}${needs ? `; run: idem-postgres ${needs}` : ''}`;
    },
};

async function main() {
    const { command, url, options } = readArguments();
    if (command === 'help') return process.stdout.write(usage);
    if (command === 'sql') return process.stdout.write(await script());
    if (!Object.hasOwn(commands, command)) throw new Usage(command === undefined ? 'which command?' : `no command "${command}"`);
    const database = connect(url);
    database.on('error', () => {});
    await database.connect();
    try {
        console.log(await commands[command](database, options));
    } finally {
        await database.end().catch(() => {});
    }
}

main().catch((error) => {
    console.error(`idem-postgres: ${error.message}${error.detail ? `\n${error.detail}` : ''}${error.hint ? `\n${error.hint}` : ''}`);
    if (error instanceof Usage) console.error(usage);
    process.exitCode = error instanceof Usage ? 2 : 1;
});
