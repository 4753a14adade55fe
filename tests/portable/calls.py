"""Prints the calls of tests/drivers/calls.json as SQL with literals."""

import json
import re
import sys


def literal(value):
    if value is None:
        return 'NULL'
    if isinstance(value, dict):
        value = next(iter(value.values()))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (list, dict)):
        value = json.dumps(value)
    return "'" + str(value).replace("'", "''") + "'"


with open(sys.argv[1], encoding='utf-8') as file:
    calls = json.load(file)
for call in calls:
    for step in call['steps']:
        if isinstance(step, dict) and 'sql' in step:
            arguments = [literal(value) for value in step.get('args', [])]
            statement = re.sub(r'\$(\d+)', lambda found, given=arguments: given[int(found[1]) - 1] if int(found[1]) <= len(given) else found[0], step['sql'])
            print(' '.join(statement.split()) + ';')
