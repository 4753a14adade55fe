// Runs a flow through the proxy, and breaks the connection at each of the flow's messages in turn, several times each.
#pragma once

#include <functional>
#include <string>

#include <idem/client.hpp>

#include "proxy.hpp"

namespace test {

/// Runs a whole flow under this key on a client that is connected through the proxy, and checks everything that must hold
/// wherever the connection broke. `calm`: no cut is armed.
using flow = std::function<void(idem::client &through, const std::string &key, bool calm)>;

struct cut_options {
    /// True: the client has run the flow before, so it is connected and has prepared its statements. False: each run has a new
    /// client, and connecting is part of the flow.
    bool warm = true;
    /// As in `cut`.
    std::chrono::milliseconds unnoticed{0};
    /// True: every run sends at least the messages of the calm run. False: a run may end before its cut.
    bool sends_all = true;
    /// The application_name of the client's connections, by which a test finds them in the server. Empty: the library's.
    std::string application_name;
    /// The options of the client, except its connection string.
    idem::client_options client;
};

/// How often each point is cut: IDEM_CUT_REPETITIONS, else once.
int cut_repetitions();

/// A retry policy whose pauses do not slow a test.
idem::retry_policy swift();

/// Counts the messages of a calm run, then runs the flow with a cut before and after each of them. With `sends_all`, a run that
/// ends before its cut is a failure. Prints the number of points.
void at_every_cut_point(const flow &run, const cut_options &options = {});

} // namespace test
