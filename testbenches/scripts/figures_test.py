#!/usr/bin/env python3
"""A page states today's figures: every row of a table that the program prints stands in the page.

    figures_test.py PAGE PROGRAM [ARGUMENT ...]

Exit status: 0 if so and the program itself is content, 1 otherwise.
"""
import subprocess
import sys


def rows_of(text):
    return [" ".join(line.split()) for line in text.splitlines() if line.startswith("|")]


def main():
    page, command = sys.argv[1], sys.argv[2:]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    sys.stderr.write(run.stderr)
    if run.returncode != 0:
        sys.exit(f"{command[0]} ended with status {run.returncode}:\n{run.stdout}")
    with open(page, encoding="utf-8") as file:
        known = set(rows_of(file.read()))
    if run.stdout.startswith("SKIPPED:"):
        sys.exit(print(run.stdout, end=""))
    printed = rows_of(run.stdout)
    if not printed:
        sys.exit(f"{command[0]} printed no table")
    missing = [row for row in printed if row not in known]
    for row in missing:
        print(row)
    if missing:
        sys.exit(f"{page} does not have these {len(missing)} of {len(printed)} rows: print its tables anew")


if __name__ == "__main__":
    main()
