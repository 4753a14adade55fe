import type { Options } from './index';

/** An interceptor for applications that are created with `{ rawBody: true }`. The handler finds the transaction in `request.idem`. */
export class IdempotencyInterceptor {
    constructor(options: Options);
    intercept(context: any, next: any): any;
}
