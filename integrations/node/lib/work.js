'use strict';

const { builtin } = require('./builtin.js');
const { randomUUID } = builtin('node:crypto');
const { setTimeout: sleep } = builtin('node:timers/promises');
const { check, checkOptions } = require('./check.js');
const { toDatabase } = require('./drivers.js');
const { milliseconds } = require('./duration.js');
const { CommitUnknown, InDoubt, LeaseLost, OutputNotStored, StaleFence, isDefinite, isUnavailable, sqlstate } = require('./errors.js');
const { flightsOf } = require('./flights.js');
const { Idem } = require('./functions.js');
const { pack, unpack } = require('./json.js');
const { Holder, watched } = require('./lease.js');
const { isStored, refuse, replay } = require('./once.js');

/** What a `reconcile` finds out about a step that was intended by an attempt that ended. */
const fate = {
    done: (output) => ({ fate: 'done', output }),
    notDone: () => ({ fate: 'notDone' }),
    unknown: () => ({ fate: 'unknown' }),
};

/** Repeats a call whose answer was lost. A claim of the same owner, a step and a completion change nothing the second time. */
async function persist(call) {
    let wasLost;
    for (const pause of [0, 200, 800, null]) {
        try {
            return await call(wasLost);
        } catch (error) {
            if (pause === null || isDefinite(error) || !isUnavailable(error)) throw error;
            wasLost = error;
        }
        await sleep(pause);
    }
    return undefined;
}

/** The work's view of its lease: `w` of leased(). index.d.ts describes it. */
class Work {
    #database;
    #idem;
    #holder;
    #schema;
    /** The key is not to be released: an act has run whose output is not stored, or a step is in doubt. */
    isKept = false;

    constructor({ database, idem, holder, schema, scope, key, ticket, signal }) {
        this.#database = database;
        this.#idem = idem;
        this.#holder = holder;
        this.#schema = schema;
        const steps = Object.entries(ticket.steps ?? {}).map(([name, output]) => [name, output === null ? null : unpack(output)]);
        Object.assign(this, { key, scope, fence: ticket.fence, attempt: ticket.attempt, steps: Object.fromEntries(steps) });
        this.signal = signal ? watched(AbortSignal.any([holder.signal, signal]), () => holder.signal.aborted) : holder.signal;
    }

    async step(name, act, reconcile = fate.notDone) {
        check('name', name, 'text');
        check('act', act, 'function');
        check('reconcile', reconcile, 'function');
        if (this.#isDone(name)) return this.steps[name];
        this.signal.throwIfAborted();
        const gate = { key: `${this.scope}/${this.key}/${name}`, fence: this.fence, signal: this.signal };
        const isNew = !(name in this.steps);
        if (isNew) await this.#fenced(() => this.#idem.step(this.key, this.fence, name, undefined, { scope: this.scope }));
        else {
            const known = await reconcile(gate);
            if (known?.fate === 'done') return this.#record(name, known.output ?? {});
            if (known?.fate !== 'notDone') {
                this.isKept = true;
                throw new InDoubt(`step "${name}" of key "${this.key}" is in doubt`, name);
            }
        }
        this.steps[name] = null;
        const output = await act(gate);
        // From here on a retry would do it again.
        return this.#record(name, output ?? {});
    }

    async write(name, work) {
        check('name', name, 'text');
        check('work', work, 'function');
        if (this.#isDone(name)) return this.steps[name];
        this.signal.throwIfAborted();
        let output;
        await this.#fenced(() => this.#database.transaction(async (connection) => {
            output = (await work({ client: connection.handle, idem: new Idem(connection, { schema: this.#schema }) })) ?? {};
            await new Idem(connection, { schema: this.#schema }).step(this.key, this.fence, name, pack(output), { scope: this.scope });
        }));
        this.steps[name] = output;
        return output;
    }

    #isDone(name) {
        return (this.steps[name] ?? null) !== null;
    }

    async #record(name, output) {
        try {
            const packed = pack(output);
            await this.#fenced(() => persist(() => this.#idem.step(this.key, this.fence, name, packed, { scope: this.scope })));
        } catch (error) {
            this.isKept = true;
            if (error instanceof LeaseLost) throw error;
            throw new OutputNotStored(`step "${name}" of key "${this.key}" has run, and its output could not be stored: the key is kept`, sqlstate(error), error);
        }
        this.steps[name] = output;
        return output;
    }

    async #fenced(call) {
        try {
            return await call();
        } catch (error) {
            if (!(error instanceof StaleFence)) throw error;
            this.#holder.stale();
            throw new LeaseLost(`the lease of key "${this.key}" has passed to another attempt`, error.sqlstate, error);
        }
    }
}

/**
 * Runs work outside of a transaction, under a lease that is renewed while it runs. Its steps are not repeated by a later attempt. index.d.ts describes it.
 */
async function leased(handle, key, options, work) {
    check('key', key, 'text');
    checkOptions(options, {
        scope: 'text', fingerprint: 'bytea', ttl: 'interval', wait: 'pause', lease: 'timer', signal: 'signal', onError: 'onError', schema: 'name',
    });
    check('work', work, 'function');
    const { scope = '', fingerprint, ttl, wait = '10 s', lease = '30 s', signal, onError = 'release', schema = 'idem' } = options;
    const database = toDatabase(handle);
    const idem = new Idem(database, { schema });
    const owner = randomUUID();
    const ask = async () => {
        let holder;
        // The term begins where the claim is first sent, not where it waits for a connection of the pool. The same owner gets its claim back where the first
        // answer was lost.
        const ticket = await persist(() => database.transaction((connection) => {
            holder ??= new Holder(milliseconds(lease), () => idem.renew(key, ticket.fence, { lease, scope }));
            return new Idem(connection, { schema }).begin(key, { scope, fingerprint, ttl, lease, owner });
        }));
        return { ticket, holder, isBusy: ticket.outcome === 'in_flight', retryAfterMs: ticket.retryAfterMs ?? undefined };
    };
    const { answer, land } = await flightsOf(database.pool).claim(JSON.stringify(['leased', schema, scope, key]), { wait: milliseconds(wait), signal }, ask);
    try {
        const { ticket, holder } = answer;
        if (ticket.outcome === 'completed') return { ...replay(ticket), attempt: ticket.attempt };
        if (ticket.outcome !== 'acquired' && ticket.outcome !== 'taken_over') refuse(ticket, key);
        return await run({ database, idem, holder, schema, scope, key, ticket, signal, onError }, work);
    } finally {
        land();
    }
}

async function run(call, work) {
    const { idem, holder, scope, key, ticket, onError } = call;
    const { fence, attempt } = ticket;
    if (!(await holder.begin())) throw new LeaseLost(`the lease of key "${key}" ran out before the work began`, undefined, holder.signal.reason);
    const w = new Work(call);
    let value;
    try {
        value = await work(w);
    } catch (error) {
        const ask = holder.end('threw');
        // What is not released is retried when the lease has run out.
        if (ask === 'release' && !w.isKept && onError === 'release') await idem.release(key, fence, { scope }).catch(() => {});
        throw error;
    }
    if (holder.end('returned') !== 'complete') throw new LeaseLost(`the lease of key "${key}" has passed to another attempt`, undefined, holder.signal.reason);
    return { value, replayed: false, ...isStored(await complete(call, value)), attempt };
}

async function complete({ idem, scope, key, ticket: { fence } }, value) {
    let wasLost = false;
    try {
        const response = value === undefined ? undefined : pack(value);
        return await persist((lost) => {
            wasLost ||= lost !== undefined;
            return idem.complete(key, { scope, fence, response });
        });
    } catch (error) {
        if (error instanceof StaleFence) throw new LeaseLost(`the lease of key "${key}" has passed to another attempt`, error.sqlstate, error);
        if (wasLost && !isDefinite(error)) throw new CommitUnknown(`the completion of key "${key}" is not known to have committed`, undefined, error);
        throw new OutputNotStored(`the work of key "${key}" has run, and its result could not be stored: the key is kept`, sqlstate(error), error);
    }
}

module.exports = { leased, fate };
