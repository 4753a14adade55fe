import type { Database } from './index';

/** Keys in memory. */
export interface FakeDatabase<Client = any> extends Database<Client> {
    /** Forgets all keys. */
    clear(): void;
}

/**
 * Takes the place of a database in unit tests: of `once`, `leased`, `Idem` and each middleware. Replays, mismatches, rollbacks, steps, leases and takeovers are
 * those of idem. It does not show waits (a key in use is in flight at once), `ttl`, the policies of scopes, limits of size, nor what PostgreSQL does with your rows.
 *
 * `client` is what the work gets as its client. What it writes is not rolled back.
 */
export function fakeDatabase<Client = any>(options?: { client?: Client }): FakeDatabase<Client>;
