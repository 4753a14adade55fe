"""Prints TAP."""

import sys
import traceback

_count = _failed = 0


def check(name, is_ok, detail=""):
    global _count, _failed
    _count += 1
    _failed += not is_ok
    print(f"{'ok' if is_ok else 'not ok'} {_count} - {name}")
    if not is_ok:
        for line in str(detail).splitlines():
            print(f"#   {line}")
    sys.stdout.flush()


def same(name, got, expected):
    check(name, got == expected, f"got      {repr(got)[:1000]}\nexpected {repr(expected)[:1000]}")


def run(name, function, *args):
    """One test: fails if the function raises."""
    try:
        function(*args)
    except Exception:
        check(name, False, traceback.format_exc())
    else:
        check(name, True)


def end():
    print(f"1..{_count}")
    sys.exit(_failed > 0)
