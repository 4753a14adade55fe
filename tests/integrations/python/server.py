"""A server process of an application, which can be killed and started again."""

import os
import signal
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def free_port():
    """Not one that clients are given: a client of a server that is down could meet itself."""
    while True:
        import random

        port = random.randrange(15000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Server:
    def __init__(self, command, environment, log):
        self.port = free_port()
        self._command = [part.format(port=self.port) for part in command]
        self._environment = {**os.environ, "PYTHONUNBUFFERED": "1", **environment}
        self._log = log
        self._process = None

    def start(self):
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=os.path.join(HERE, "apps"), env=self._environment, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            time.sleep(0.05)
        self.stop()
        raise RuntimeError("the server did not start:\n" + open(self._log).read()[-3000:])

    def kill(self, number=signal.SIGKILL):
        """All of its processes."""
        if self._process is not None:
            try:
                os.killpg(self._process.pid, number)
            except ProcessLookupError:
                pass
            self._process.wait()
            self._process = None

    def stop(self):
        self.kill()

    def restart(self):
        self.kill()
        self.start()


def python(*arguments):
    return [sys.executable, *arguments]
