'use strict';

/** An error of idem, by its SQLSTATE. `cause` is the driver's error. */
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
/** ID005: the key is in flight or in doubt. */
class InFlight extends IdemError {}
/** ID006: the key was claimed before. */
class AlreadyDone extends IdemError {}

/** The handler began to send before it had the whole response. */
class StreamedResponse extends Error {
    constructor(how) {
        super(`a keyed request cannot be answered by a stream (${how}): leave its route out of the middleware`);
        this.name = 'StreamedResponse';
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

/** The error as one of the classes above if it is idem's own, else unchanged. */
function typed(error) {
    const code = sqlstate(error);
    return classes[code] ? new classes[code](error.message, code, error) : error;
}

/** A serialization failure or a deadlock: the same transaction may succeed when it is run again. */
const isSerialization = (error) => ['40001', '40P01'].includes(sqlstate(error));

/** The server said that the transaction failed. Otherwise the connection was lost, and a COMMIT may have succeeded. */
function isDefinite(error) {
    const code = sqlstate(error);
    return code !== undefined && !code.startsWith('08') && !code.startsWith('57P');
}

module.exports = { IdemError, StaleFence, InvalidTransition, StaleVersion, InFlight, AlreadyDone, StreamedResponse, sqlstate, typed, isSerialization, isDefinite };
