"""Prints a program with the recipe of docs/drivers.md in the place of its line RECIPE.

    insert.py DRIVER PROGRAM
"""

import pathlib
import re
import sys

driver, program = sys.argv[1:]
document = (pathlib.Path(__file__).parent / "../../../docs/drivers.md").read_text()
recipe = re.search(rf"^### {re.escape(driver)}\n\n```\w+\n(.*?)^```$", document, re.MULTILINE | re.DOTALL)[1]
for line in pathlib.Path(program).read_text().splitlines():
    if line.endswith(" RECIPE"):
        indent = line[: len(line) - len(line.lstrip())]
        print("\n".join(indent + recipe_line if recipe_line else "" for recipe_line in recipe.splitlines()))
    else:
        print(line)
