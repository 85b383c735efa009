#!/usr/bin/env python3
"""Wraps the prose of Markdown files evenly: every line of a paragraph or list item as full as it can be.

    tests/wrap_docs.py FILE...

Code, tables and headings stay as they are. tests/structure_test.py names the files that it would change.
"""

import pathlib
import re
import sys

WIDTH = 120
ITEM = re.compile(r"( *)([-*+]|\d+\.) +")
# What would be something else at the beginning of a line.
MARKER = re.compile(r"([-+*>|]|#+|\d+[.)])$|[>|#]|```")


def fold(words, first, rest):
    """Lines of the words, the first behind `first`, the others behind `rest`."""
    lines, line = [], first + words[0]
    for word in words[1:]:
        if len(line) + 1 + len(word) <= WIDTH or MARKER.match(word):
            line += " " + word
        else:
            lines.append(line)
            line = rest + word
    return lines + [line]


def wrap(text):
    lines, words, indents, fenced = [], [], ("", ""), False

    def end_paragraph():
        if words:
            lines.extend(fold(words, *indents))
            words.clear()

    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        code = fenced or fence or line.startswith("    ") and not words
        fenced ^= fence
        if code or not line.strip() or line.lstrip()[0] in "|#<":
            end_paragraph()
            lines.append(line)
            continue
        item = ITEM.match(line)
        if item or not words:
            end_paragraph()
            first = item.group() if item else line[:len(line) - len(line.lstrip())]
            indents = (first, " " * len(first))
            line = line[len(first):]
        words.extend(line.split())
    end_paragraph()
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = pathlib.Path(name)
        path.write_text(wrap(path.read_text(encoding="utf-8")), encoding="utf-8")
