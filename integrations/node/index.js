'use strict';

const { IdemError, StaleFence, InvalidTransition, StaleVersion, InFlight, AlreadyDone, sqlstate } = require('./lib/errors.js');
const { Idem } = require('./lib/functions.js');

module.exports = { Idem, IdemError, StaleFence, InvalidTransition, StaleVersion, InFlight, AlreadyDone, sqlstate };
