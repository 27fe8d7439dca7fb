"""Rows: what was measured on silicon, beside the model."""
from .runs import ROOT, number

NEAR, FAR, ENOUGH = 10, 25, 0.9  # per cent, per cent, share of the rows


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def from_page(entry):
    """The model's value of a row of another page, which its own program is compared with."""
    header = None
    for line in (ROOT / "docs" / "results" / entry["page"]).read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            header = None
            continue
        header = header or cells(line)
        if cells(line)[0].strip("`") == entry["line"]:
            return number(cells(line)[header.index(entry.get("column", "model"))])
    raise RuntimeError(f"docs/results/{entry['page']} has no row '{entry['line']}'")


class Row:
    def __init__(self, entry, runs):
        self.entry = entry
        self.name = entry["row"]
        self.runs = runs
        self.wanted = runs.figures(entry) if "scenario" in entry else None
        measured = entry["measured"]
        self.low, self.high = measured if isinstance(measured, list) else (measured, measured)

    def value(self):
        if "scenario" in self.entry:
            return self.wanted.result()[self.entry["figure"]]
        if "clusters" in self.entry:
            return self.runs.occupancy(self.entry["gpu"], self.entry["clusters"])
        return from_page(self.entry)

    def difference(self):
        """In per cent; 0 within a range that was measured."""
        value = self.value()
        return 100 * (value / min(max(value, self.low), self.high) - 1)

    def text(self):
        unit = self.entry.get("unit", "")
        measured = f"{self.low:g}" if self.low == self.high else f"{self.low:g} to {self.high:g}"
        by = ", ".join(f"`{path}`" for path in self.entry.get("by", [])) or "prediction"
        return (f"| {self.name} | {self.value():.4g} {unit} | {measured} {unit} | {self.difference():+.1f} % | {by} | "
                f"{self.entry['source']} |").replace("  |", " |")

    def where(self):
        if "page" in self.entry:
            how = f"[{self.entry['page']}]({self.entry['page']})"
        elif "clusters" in self.entry:
            how = f"`heddle occupancy --cluster {self.entry['clusters']}`"
        else:
            lets = "".join(f" --let {name}={value}" for name, value in self.entry.get("let", {}).items())
            how = f"`{self.entry['scenario']}.yaml{lets}`"
        clock = self.runs.parameter(self.entry["gpu"], "gpu.clock")
        return f"| {self.name} | `{self.entry['gpu']}` | {clock:g} GHz | {self.entry.get('timing', 'at')} | {how} |"


def where(rows):
    return ["| row | preset | clock | timing | how |", "| --- | --- | --- | --- | --- |"] + [row.where() for row in rows]


def tables(rows):
    lines = []
    for table in dict.fromkeys(row.entry["table"] for row in rows):
        lines += ["", f"### {table}", "", "| row | model | measured | difference | set by | source |",
                  "| --- | ---: | ---: | ---: | --- | --- |"]
        lines += [row.text() for row in rows if row.entry["table"] == table]
    return lines[1:]


def summary(rows):
    """A table that counts the rows, and a sentence that says whether that is what it should be. And whether it is."""
    differences = [abs(row.difference()) for row in rows]
    near = sum(difference <= NEAR for difference in differences)
    far = [row.name for row, difference in zip(rows, differences) if difference > FAR]
    fitted = {path for row in rows for path in row.entry.get("by", [])}
    predicted = [difference for row, difference in zip(rows, differences) if not row.entry.get("by")]
    lines = [f"| rows | within {NEAR} % | within {FAR} % | beyond | predictions | of them within {NEAR} % | fitted parameters |",
             "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
             f"| {len(rows)} | {near} | {len(rows) - len(far)} | {len(far)} | {len(predicted)} | "
             f"{sum(difference <= NEAR for difference in predicted)} | {len(fitted)} |", ""]
    missed = []
    if near < ENOUGH * len(rows):
        missed.append(f"only {100 * near / len(rows):.0f} % are within {NEAR} %")
    if far:
        missed.append(f"beyond {FAR} %: " + "; ".join(far))
    if len(fitted) >= len(rows) / 2:
        missed.append("too much was fitted")
    aim = (f"at least {100 * ENOUGH:.0f} % of the rows within {NEAR} %, none beyond {FAR} %, and fewer fitted parameters than "
           "half the rows")
    lines.append(f"The aim is {aim}. It is **{'not met' if missed else 'met'}**" + "".join(f"; {text}" for text in missed) + ".")
    return lines, not missed


def not_counted(entries):
    lines = ["| what was measured | device | why |", "| --- | --- | --- |"]
    return lines + [f"| {entry['row']} | {entry['device']} | {entry['why']} |" for entry in entries]
