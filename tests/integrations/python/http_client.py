"""HTTP/1.1 with nothing in between: a request is bytes, and a connection can be cut."""

import asyncio
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict
    body: bytes


class Cut(Exception):
    """The connection ended before the response did."""


async def send(port, method, path, headers=(), body=b"", cut_after=None, missing=0):
    """`cut_after`: seconds after which this client is gone. `missing`: bytes of the body that are announced and not sent."""
    try:
        return await asyncio.wait_for(_exchange(port, method, path, headers, body, missing), cut_after or 120)
    except (OSError, EOFError, asyncio.TimeoutError, ValueError) as error:
        raise Cut(repr(error)) from error


async def _exchange(port, method, path, headers, body, missing):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        lines = [f"{method} {path} HTTP/1.1", "Host: shop", f"Content-Length: {len(body) + missing}"]
        lines += [f"{name}: {value}" for name, value in headers]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await writer.drain()
        if missing:
            writer.write_eof()
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(head[0].split()[1])
        fields = {}
        for line in head[1:-2]:
            name, _, value = line.partition(":")
            fields[name.strip().lower()] = value.strip()
        if fields.get("transfer-encoding") == "chunked":
            rest = await _chunks(reader)
        elif "content-length" in fields:
            rest = await reader.readexactly(int(fields["content-length"]))
        else:
            rest = b"" if status == 204 else await reader.read()
        return Answer(status, fields, rest)
    finally:
        writer.close()


async def _chunks(reader):
    body = b""
    while length := int(await reader.readline(), 16):
        body += await reader.readexactly(length)
        await reader.readline()
    return body
