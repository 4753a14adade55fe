"""The fingerprint of a form of files, whose boundary is another one at each attempt."""

from __future__ import annotations

import email
import hashlib
from email.policy import HTTP
from typing import Any


def multipart_fingerprint(request: Any) -> bytes | None:
    """`fingerprint=multipart_fingerprint`: of the path and of each part's name, file name, type and bytes, in their order.
    None for other bodies."""
    content_type, path, body = _seen(request)
    if not content_type.lower().startswith("multipart/form-data"):
        return None
    head = f"Content-Type: {content_type}\r\n\r\n".encode("latin-1")
    message = email.message_from_bytes(head + body, policy=HTTP)
    digest = hashlib.sha256(path.encode())
    for part in message.walk():
        if part.is_multipart():
            continue
        bytes_of = part.get_payload(decode=True)
        for value in (str(part.get("content-disposition", "")), part.get_content_type(), bytes_of):
            data = value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else b""
            digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()


def _seen(request: Any) -> tuple[str, str, bytes]:
    """Of the request of each framework: Django's, Starlette's with the body that the middleware has read, the package's own."""
    content_type = request.headers.get("content-type", "")
    if hasattr(request, "get_full_path"):
        return content_type, request.get_full_path(), request.body
    if hasattr(request, "url"):
        return content_type, f"{request.url.path}?{request.url.query}", request.scope["idem_postgres.body"]
    return content_type, f"{request.path}?{request.query}", request.body
