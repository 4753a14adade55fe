// Sends each file as one call of node-postgres, or of PGlite in this process; then claims a key twice.
//
//     node install.mjs node-postgres|pglite FILE ...
import { readFileSync } from 'node:fs';

const [driver, ...files] = process.argv.slice(2);
let execute, rows, close;
if (driver === 'pglite') {
    const { PGlite } = await import('@electric-sql/pglite');
    const db = await PGlite.create();
    // As an ordinary owner.
    await db.exec('CREATE ROLE shop; CREATE SCHEMA other; DO $$ BEGIN EXECUTE format(\'GRANT CREATE ON DATABASE %I TO shop\', current_database()); END $$; SET ROLE shop');
    [execute, rows, close] = [text => db.exec(text), async text => (await db.query(text)).rows, () => db.close()];
} else {
    const client = new (await import('pg')).default.Client();
    await client.connect();
    [execute, rows, close] = [text => client.query(text), async text => (await client.query(text)).rows, () => client.end()];
}
for (const file of files) {
    try {
        await execute(readFileSync(file, 'utf8'));
    } catch (error) { // which holds the file
        throw new Error([error.message, error.detail, error.where].join('\n').slice(0, 2000));
    }
}
const claims = [];
for (let i = 0; i < 2; i++) claims.push((await rows("SELECT idem.idem_claim('order 7') AS claimed"))[0].claimed);
console.log(claims.join(' '));
await close();
