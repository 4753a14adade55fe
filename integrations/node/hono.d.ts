import type { Context } from 'hono';
import type { Options } from './index';

/** A middleware. The handler finds the transaction with `c.get('idem')`. */
export function idempotency(options: Options<Context<any>>): (c: any, next: () => Promise<void>) => Promise<void>;
