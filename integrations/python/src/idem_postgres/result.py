"""A result as the database can store it.

jsonb refuses U+0000 and lone surrogates. A value with one of them is stored as one marked member, its JSON text in base64,
and so is a value that itself has only that member.
"""

from __future__ import annotations

import base64
import json
import re

from .call import Json, dumps

_MARK = "$base64"
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def encoded(value: Json) -> Json:
    """TypeError or ValueError: the value has no JSON form."""
    text = dumps(value)
    whole = json.loads(text)
    if not _is_refused(text, whole):
        return whole
    plain = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
    return {_MARK: base64.b64encode(plain.encode("utf-8", "surrogatepass")).decode()}


def decoded(value: Json) -> Json:
    if isinstance(value, dict) and value.keys() == {_MARK} and isinstance(value[_MARK], str):
        return json.loads(base64.b64decode(value[_MARK]).decode("utf-8", "surrogatepass"))
    return value


def _is_refused(text: str, whole: Json) -> bool:
    if isinstance(whole, dict) and whole.keys() == {_MARK} or _NUL.search(text):
        return True
    try:
        json.dumps(whole, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False
