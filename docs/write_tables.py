#!/usr/bin/env python3
"""Writes the tables of measurements into the documents, from docs/measurements.json.

    docs/write_tables.py            writes them
    docs/write_tables.py --check    exit code 1 if a document is not current, or a measurement is incomplete
    docs/write_tables.py --show ID  prints one table; sets of interest to few are in no document ("shown": false)

A table stands between `<!-- measured: ID -->` and the next `</sub>`; ID names a set of measurements, or is `machines`
or `others` (the sets in no document). A set has the machine, the date, the conditions, the command, the commit (if known)
and the columns ([key, heading]) of its rows. Each row is a measurement with an `id` of its own. Python's standard
library only.
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MARKED = re.compile(r"(<!-- measured: ([\w-]+) -->\n)(?:(?:(?!<!-- measured).)*?</sub>\n)?", re.S)


def faults(data):
    """What is wrong with the data, as sentences."""
    seen = set()
    for entry in data["sets"]:
        name = entry["id"]
        for key in ("machine", "date", "conditions", "columns", "rows"):
            if key not in entry:
                yield f"{name} has no {key}"
        if not entry.get("shown", True) and "title" not in entry:
            yield f"{name} is not shown and has no title"
        if entry.get("machine") not in data["machines"]:
            yield f"{name}: unknown machine {entry.get('machine')}"
        if not re.fullmatch(r"\d{4}-\d\d(-\d\d)?", entry.get("date", "")):
            yield f"{name}: the date is not YYYY-MM or YYYY-MM-DD"
        known = {"id"} | {key for key, _ in entry["columns"]}
        for cells in entry["rows"]:
            if extra := set(cells) - known:
                yield f"{name}: {cells.get('id')} has {', '.join(sorted(extra))}, which is in no column"
            if cells.get("id", "") in seen | {""}:
                yield f"{name}: the id {cells.get('id')!r} is missing or used twice"
            seen.add(cells.get("id"))


def row(cells):
    return "| " + " | ".join(cells) + " |\n"


def table(entry):
    columns, command = entry["columns"], entry.get("command", "")
    text = f"```\n{command}\n```\n" if "\n" in command else ""
    text += row(heading for _, heading in columns) + row("---" for _ in columns)
    text += "".join(row(cells.get(key, "") for key, _ in columns) for cells in entry["rows"])
    commit = f", commit {entry['commit']}" if "commit" in entry else ""
    command = f" `{command}`" if command and "\n" not in command else ""
    return text + f"\n<sub>Machine {entry['machine']}, {entry['date']}{commit}: {entry['conditions']}.{command}</sub>\n"


def main():
    check = sys.argv[1:] == ["--check"]
    data = json.loads((ROOT / "docs/measurements.json").read_text(encoding="utf-8"))
    found = list(faults(data))
    if found:
        print("\n".join(found))
        return 1
    sets = {entry["id"]: entry for entry in data["sets"]}
    used = set()
    machines = row(["machine", ""]) + row(["---", "---"]) + "".join(row(item) for item in data["machines"].items())
    machines += "\n<sub>The letters name a table's machine.</sub>\n"
    others = row(["ID", "content"]) + row(["---", "---"])
    hidden = {name: entry for name, entry in sets.items() if not entry.get("shown", True)}
    others += "".join(row([f"`{name}`", entry["title"]]) for name, entry in hidden.items())
    others += "\n<sub>`docs/write_tables.py --show ID` prints the table.</sub>\n"
    if sys.argv[1:2] == ["--show"]:
        print(table(sets[sys.argv[2]]) if sys.argv[2:3] and sys.argv[2] in sets else "\n".join(sets))
        return 0

    def written(match):
        used.add(match[2])
        if match[2] in ("machines", "others"):
            return match[1] + (machines if match[2] == "machines" else others)
        if match[2] not in sets:
            found.append(f"no measurements have the ID {match[2]}")
            return match[0]
        return match[1] + table(sets[match[2]])

    for name in ("README.md", "docs/BENCHMARKS.md"):
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        current = MARKED.sub(written, text)
        if check and current != text:
            found.append(f"{name} is not current: run docs/write_tables.py")
        elif not check:
            path.write_text(current, encoding="utf-8")
    found += [f"{name} is in no document" for name in sets if name not in used and name not in hidden]
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
