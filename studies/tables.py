#!/usr/bin/env python3
"""Replaces the tables of docs/layouts.md and docs/networks.md that follow a line <!-- study: NAME TITLE -->.

    studies/tables.py OUTPUT.md...

An OUTPUT.md is the output of `graphrun study --markdown`. NAME is the name of the study, and TITLE is the beginning of
the title of a table in its output.
"""
import pathlib
import re
import sys

DOCUMENTS = pathlib.Path(__file__).resolve().parent.parent / "docs"


def table(output, title):
    found = re.search(r"^\*\*" + re.escape(title) + r".*\*\*\n\n((?:\|.*\n)+)", output, re.MULTILINE)
    return found[1] if found else sys.exit(f"there is no table {title!r}")


outputs = {}
for path in sys.argv[1:] or sys.exit(__doc__):
    text = pathlib.Path(path).read_text()
    outputs[re.search(r"^(\w+): \d+ network", text, re.MULTILINE)[1]] = text
for document in [DOCUMENTS / "layouts.md", DOCUMENTS / "networks.md"]:
    document.write_text(re.sub(r"(<!-- study: (\w+) (.*) -->\n)(?:\|.*\n)*", lambda m: m[1] + (
        table(outputs[m[2]], m[3]) if m[2] in outputs else m[0][len(m[1]):]), document.read_text()))
