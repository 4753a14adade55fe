"""JDBC knows no Unix sockets: prints a port on loopback, and forwards one connection to it to the socket of the environment."""

import os
import socket
import threading


def copy(source, target):
    while data := source.recv(65536):
        target.sendall(data)
    target.shutdown(socket.SHUT_WR)


with socket.create_server(('127.0.0.1', 0)) as door:
    door.settimeout(60)
    print(door.getsockname()[1], flush=True)
    client, _ = door.accept()
    client.settimeout(None)
    server = socket.socket(socket.AF_UNIX)
    server.connect(f"{os.environ['PGHOST']}/.s.PGSQL.{os.environ['PGPORT']}")
    back = threading.Thread(target=copy, args=(server, client))
    back.start()
    copy(client, server)
    back.join()
