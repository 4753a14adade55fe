// The private server that scripts/cluster.sh has started (libpq's environment says where), which the nemesis may kill.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace chaos {

class Server {
  public:
    // Of PGHOST. Throws std::runtime_error where there is no server's directory.
    Server();

    const std::string &directory() const { return directory_; }
    std::string dsn(const std::string &application) const;

    // SIGKILL to the postmaster, then to whatever of it is left; returns when all are gone.
    void kill();
    // Starts it again, crash recovery included. Throws std::runtime_error when it does not come up within a minute.
    void start();
    // Waits until it takes connections, as after a backend's death. Throws as above.
    void await();

    // What its log says since the last call that no server should say: crashes that nobody asked for, panics, internal errors.
    std::vector<std::string> complaints();

  private:
    pid_t postmaster() const;
    std::vector<pid_t> processes() const;

    std::string directory_, data_;
    std::streamoff read_ = 0;
};

} // namespace chaos
