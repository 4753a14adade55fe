'use strict';

const errors = require('./lib/errors.js');
const { current } = require('./lib/core.js');
const { Idem } = require('./lib/functions.js');
const { install, uninstall, status, verify, script } = require('./lib/install.js');
const { once } = require('./lib/once.js');
const { fate, leased } = require('./lib/work.js');

const { IdemError, StaleFence, InvalidTransition, StaleVersion, InFlight, AlreadyDone, Mismatch, InDoubt, LeaseLost, CommitUnknown, OutputNotStored, sqlstate } = errors;

module.exports = {
    install, uninstall, status, verify, script, Idem, once, leased, fate, current, IdemError, StaleFence, InvalidTransition, StaleVersion, InFlight, AlreadyDone, Mismatch, InDoubt, LeaseLost, CommitUnknown, OutputNotStored, sqlstate,
};
