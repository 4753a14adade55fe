import type { Context } from 'koa';
import type { Options } from './index';

/** A middleware, to be used before the body parser. The handler finds the transaction in `ctx.state.idem`. */
export function idempotency(options: Options<Context>): (ctx: any, next: () => Promise<any>) => Promise<void>;
