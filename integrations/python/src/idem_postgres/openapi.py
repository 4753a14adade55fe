"""What an OpenAPI document says of the header and of the answers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

DESCRIPTION = (
    "A key that the client chooses for this request, such as a UUID. The same request with the same key is done once; "
    "a repetition gets the same response."
)
_PROBLEM = {
    "application/problem+json": {
        "schema": {
            "type": "object",
            "properties": {
                "type": {"type": "string"},
                "title": {"type": "string"},
                "status": {"type": "integer"},
                "detail": {"type": "string"},
                "code": {"type": "string"},
            },
        }
    }
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    400: {"description": "The Idempotency-Key is missing or malformed.", "content": _PROBLEM},
    409: {"description": "Another request with this key is being processed; see Retry-After.", "content": _PROBLEM},
    422: {"description": "The key was used before, with another method, route or body.", "content": _PROBLEM},
}
"""For `responses=RESPONSES` of a route of FastAPI."""


def require_key(document: dict[str, Any], methods: Collection[str] | None) -> None:
    """Marks the header as required for POST and PATCH, for which a scope needs a key unless its policy says otherwise."""
    for path in document.get("paths", {}).values():
        for method in ("POST", "PATCH"):
            if methods is not None and method not in methods:
                continue
            for parameter in path.get(method.lower(), {}).get("parameters", []):
                if parameter.get("in") == "header" and parameter.get("name", "").lower() == "idempotency-key":
                    parameter["required"] = True
