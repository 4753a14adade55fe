'use strict';

/** An error of idem. `sqlstate`: the server's, if it raised the error; `cause` is then the driver's error. */
class IdemError extends Error {
    constructor(message, sqlstate, cause) {
        super(message, { cause });
        this.name = new.target.name;
        this.sqlstate = sqlstate;
    }
}
/** ID001: the key or lock is no longer held with this fence. Roll back. */
class StaleFence extends IdemError {}
/** ID003: a transition that the state machine does not have. */
class InvalidTransition extends IdemError {}
/** ID004: the row has another version than the one that was read. */
class StaleVersion extends IdemError {}
/** ID005: the key is in flight or in doubt. `retryAfterMs`: when a retry is worthwhile, if that is known. */
class InFlight extends IdemError {
    constructor(message, sqlstate = 'ID005', cause, retryAfterMs = null) {
        super(message, sqlstate, cause);
        this.retryAfterMs = retryAfterMs;
    }
}
/** ID006: the key was claimed before. */
class AlreadyDone extends IdemError {}
/** The key was used with another fingerprint. */
class Mismatch extends IdemError {}
/** An earlier attempt may have done the work, and an operator decides. `step`: the step that is in doubt, if one is. */
class InDoubt extends IdemError {
    constructor(message, step = null) {
        super(message);
        this.step = step;
    }
}
/** The lease has passed to another attempt, or ran out. */
class LeaseLost extends IdemError {}
/** The connection was lost in COMMIT, and it is not known whether it succeeded. */
class CommitUnknown extends IdemError {}
/** The work has run, and its output cannot be stored. The key is kept, so that no retry repeats the work while the lease lasts. */
class OutputNotStored extends IdemError {}

/** The handler sends events. */
class StreamedResponse extends Error {
    constructor(how) {
        super(`a keyed request cannot be answered by this stream (${how}): leave its route out of the middleware`);
        this.name = 'StreamedResponse';
    }
}
/** The connection of a transaction was lost while the work was running. */
class ConnectionLost extends Error {
    constructor(cause) {
        super('the connection of the transaction was lost', { cause });
        this.name = 'ConnectionLost';
    }
}
/** COMMIT was answered by ROLLBACK. */
class RolledBack extends Error {
    constructor() {
        super('the transaction had failed, and COMMIT rolled it back');
        this.name = 'RolledBack';
    }
}

const classes = { ID001: StaleFence, ID003: InvalidTransition, ID004: StaleVersion, ID005: InFlight, ID006: AlreadyDone };

// The class tells a SQLSTATE from EPIPE of Node and P2010 of Prisma.
const isSqlstate = (code) => typeof code === 'string' && /^([0-9FHI][0-9A-Z]|P0|XX)[0-9A-Z]{3}$/.test(code);

/** The SQLSTATE in a driver's error, or in an ORM's error around it; undefined if the server sent none. */
function sqlstate(error) {
    const codes = [error?.code, error?.sqlstate, error?.original?.code, error?.driverError?.code, error?.meta?.driverAdapterError?.cause?.originalCode,
        error?.cause?.originalCode];
    const code = codes.find(isSqlstate);
    return code ?? (error?.cause instanceof Error ? sqlstate(error.cause) : undefined);
}

// The work's own SQL, in idem_execute, may miss another schema or function.
const saysMissing = (error, schema) => {
    const code = sqlstate(error);
    return (code === '3F000' && error.message.includes(schema.replaceAll('"', ''))) || (code === '42883' && /\bidem_/.test(error.message));
};

/** The error of a call of idem, whose schema is named, as one of the classes above if it is idem's own or says that idem is not there, else unchanged. */
function typed(error, schema) {
    if (error instanceof IdemError) return error;
    const code = sqlstate(error);
    if (classes[code]) return new classes[code](error.message, code, error);
    if (!saysMissing(error, schema)) return error;
    const how = 'run: npx idem-postgres install, or: await install(database)';
    return new IdemError(`${error.message}: idem is not installed here, or older than this package; ${how}`, code, error);
}

/** A serialization failure or a deadlock: the same transaction may succeed when it is run again. */
const isSerialization = (error) => ['40001', '40P01'].includes(sqlstate(error));

/** The server said that the transaction failed. Otherwise the connection was lost, and a COMMIT may have succeeded. */
function isDefinite(error) {
    if (error instanceof RolledBack) return true;
    if (error instanceof ConnectionLost) return false;
    const code = sqlstate(error);
    return code !== undefined && !code.startsWith('08') && !code.startsWith('57P');
}

const isMistake = (error) => [TypeError, RangeError, ReferenceError, SyntaxError].some((type) => error instanceof type);

/** The server is gone, full, starting, or read only: the same request may succeed later. For an error of this package's own statements. */
function isUnavailable(error) {
    if (error instanceof ConnectionLost) return true;
    const code = sqlstate(error);
    if (code === undefined) return !(error instanceof RolledBack) && !isMistake(error);
    return code === '25006' || ['08', '53', '57P'].some((prefix) => code.startsWith(prefix));
}

/** The same for an error of a handler, which has errors of its own. */
const isLost = (error) => error instanceof ConnectionLost || error?.code === 'CONNECTION_CLOSED' || ['08', '57P'].some((prefix) => sqlstate(error)?.startsWith(prefix));

module.exports = {
    IdemError, StaleFence, InvalidTransition, StaleVersion, InFlight, AlreadyDone, Mismatch, InDoubt, LeaseLost, CommitUnknown, OutputNotStored,
    StreamedResponse, ConnectionLost, RolledBack, sqlstate, typed, isSerialization, isDefinite, isUnavailable, isLost,
};
