import type { Duration, LeasedWork, Options, Transaction } from './index';

type Handler<Work, Rest extends unknown[]> = (request: Request & { idem: Work }, ...rest: Rest) => Response | Promise<Response>;

/** Wraps a handler of the web's Request, such as a route handler of Next.js: `export const POST = idempotent(async (request) => Response)`. */
export type Idempotent<Work> = <Rest extends unknown[]>(handler: Handler<Work, Rest>) => (request: Request, ...rest: Rest) => Promise<Response>;

export function idempotency<Client = any>(options: Options<Request, Client> & { lease: Duration }): Idempotent<LeasedWork<Client>>;
export function idempotency<Client = any>(options: Options<Request, Client> & { lease?: undefined }): Idempotent<Transaction<Client>>;
