import type { Options } from './index';

/**
 * An interceptor for applications that are created with `{ rawBody: true }`. The handler finds the transaction in `request.idem`.
 * `Request` is Express's or Fastify's.
 */
export class IdempotencyInterceptor<Request = any> {
    constructor(options: Options<Request>);
    intercept(context: any, next: any): any;
}
