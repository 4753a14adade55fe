#!/usr/bin/env python3
"""A proxy in front of a PostgreSQL server's socket: cut.py SOCKET SERVER_SOCKET.

After SIGUSR1 it passes on the next COMMIT and cuts that connection when the server answers: the answer is lost.
"""

import asyncio
import signal
import sys

is_armed = False


def arm():
    global is_armed
    is_armed = True


async def serve(client, to_client, server):
    global is_armed
    from_server, to_server = await asyncio.open_unix_connection(server)
    is_cut = False

    async def requests():
        nonlocal is_cut
        global is_armed
        while data := await client.read(65536):
            if is_armed and b"COMMIT\0" in data:
                is_armed, is_cut = False, True
            to_server.write(data)
            await to_server.drain()

    async def answers():
        while (data := await from_server.read(65536)) and not is_cut:
            to_client.write(data)
            await to_client.drain()

    try:
        await asyncio.wait([asyncio.create_task(requests()), asyncio.create_task(answers())], return_when=asyncio.FIRST_COMPLETED)
    finally:
        to_client.close()
        to_server.close()


async def main(socket, server):
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, arm)
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # a connection that was reset
    await (await asyncio.start_unix_server(lambda reader, writer: serve(reader, writer, server), socket)).serve_forever()


asyncio.run(main(*sys.argv[1:]))
