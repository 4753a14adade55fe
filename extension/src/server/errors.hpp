// idem's own SQLSTATEs (class ID).
#pragma once

#include "server/pg.hpp"

#define ERRCODE_IDEM_STALE_FENCE MAKE_SQLSTATE('I', 'D', '0', '0', '1')
#define ERRCODE_IDEM_TRANSITION_NOT_ALLOWED MAKE_SQLSTATE('I', 'D', '0', '0', '3')
#define ERRCODE_IDEM_STALE_VERSION MAKE_SQLSTATE('I', 'D', '0', '0', '4')
#define ERRCODE_IDEM_UNDECIDED MAKE_SQLSTATE('I', 'D', '0', '0', '5')
#define ERRCODE_IDEM_DONE_BEFORE MAKE_SQLSTATE('I', 'D', '0', '0', '6')
