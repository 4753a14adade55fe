"""The Python half of the protocol of check.py: a line in, a line out."""

import datetime
import json
import sys


class Rollback(Exception):
    pass


def plain(value):
    if isinstance(value, (bytes, memoryview)):
        return bytes(value).hex()
    if value is None or isinstance(value, (bool, int, float, str, list, dict)):
        return value
    return str(value)


def answer(message):
    print(json.dumps(message, default=str), flush=True)


def answer_rows(columns, rows):
    answer({"columns": columns, "rows": [[(type(value).__name__, plain(value)) for value in row] for row in rows]})


def failure(error, sqlstate):
    answer({"error": {"sqlstate": sqlstate(error), "type": type(error).__name__, "message": str(error)}})


def requests():
    for line in sys.stdin:
        yield json.loads(line)


def seconds(text):
    """The timedelta of "30 s"."""
    number, unit = text.split()
    return datetime.timedelta(seconds=int(number) * {"ms": 0.001, "s": 1, "min": 60, "h": 3600}[unit])


def arguments(args, convert):
    convert = {"duration": seconds, **convert}
    return [convert[kind](value) if kind in convert else value for kind, value in args]


def serve(run, transaction, sqlstate, pipeline=None):
    """run(sql, args) returns columns and rows; transaction() is a context manager that rolls back at an exception, pipeline() one that sends what is
    run in it at once."""

    source = requests()

    def loop():
        for request in source:
            if request["do"] == "commit":
                return
            if request["do"] == "rollback":
                raise Rollback
            try:
                if request["do"] == "begin":
                    with transaction():
                        answer({})
                        loop()
                    answer({})
                elif request["do"] == "batch":
                    with pipeline():
                        for statement in request["statements"]:
                            run(statement["sql"], statement["args"], fetch=False)
                    answer({})
                else:
                    answer_rows(*run(request["sql"], request["args"]))
            except Rollback:
                answer({})
            except Exception as error:
                failure(error, sqlstate)

    loop()
