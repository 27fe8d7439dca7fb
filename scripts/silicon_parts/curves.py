"""Curves: sweeps of a parameter beside the measured points, as a picture and as a table."""


class Curve:
    def __init__(self, entry, runs):
        self.entry = entry
        self.name = entry["name"]
        self.lines = [(line, self.points(line, runs)) for line in entry["lines"]]

    def points(self, line, runs):
        """(x, figure, wanted run) of every point."""
        points = []
        for place, x in enumerate(line["at"]):
            let = {self.entry["parameter"]: x} if "parameter" in self.entry else {}
            for name, value in line.get("with", {}).items():
                let[name] = value[place] if isinstance(value, list) else value
            figure = line["at"][x] if isinstance(line["at"], dict) else line["figure"]
            points.append((x, figure, runs.figures({**line, "scenario": line.get("scenario", self.entry["scenario"]), "let": let})))
        return points

    def drawn(self):
        """(line, [(x, value)]) of every line."""
        return [(line, [(x, wanted.result()[figure]) for x, figure, wanted in points]) for line, points in self.lines]

    def table(self):
        drawn = self.drawn()
        head, places = [self.entry["x"]], []
        for line, points in drawn:
            head.append(f"{line['name']}, model")
            measured = {float(x): " to ".join(f"{value:g}" for value in values) for x, *values in line.get("measured", [])}
            if measured:
                head.append(f"{line['name']}, measured")
            places.append(({float(x): value for x, value in points}, measured))
        rows = []
        for x in sorted({x for model, measured in places for x in [*model, *measured]}):
            row = [f"{x:g}"]
            for model, measured in places:
                row.append(f"{model[x]:.4g}" if x in model else "")
                if measured:
                    row.append(measured.get(x, ""))
            rows.append(row)
        lines = [head, ["---:"] * len(head), *rows]
        return ["| " + " | ".join(line) + " |" for line in lines]

    def text(self, folder):
        entry = self.entry
        levels = [f"{line['name']} {line['level']:g} {entry['y']}" for line in entry["lines"] if "level" in line]
        lines = [f"### {entry['title']}", "", f"![{entry['title']}]({folder}/{self.name}.svg)", ""]
        if "text" in entry:
            lines += [entry["text"].strip(), ""]
        if levels:
            lines += [f"Dashed, as measured with the machine full: {'; '.join(levels)}.", ""]
        return lines + [f"{entry['y']}:", ""] + self.table() + [""]

    def draw(self, folder):
        import matplotlib  # only who draws needs it
        matplotlib.use("svg")
        from matplotlib import pyplot
        matplotlib.rcParams.update({"svg.hashsalt": "heddle", "svg.fonttype": "none", "font.size": 9})
        entry = self.entry
        figure, axes = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")
        for number, (line, points) in enumerate(self.drawn()):
            color = f"C{number}"
            axes.plot(*zip(*points), "-o", color=color, markersize=3, linewidth=1.2, label=f"{line['name']}, model")
            if line.get("measured"):
                axes.plot(*zip(*((x, value) for x, *values in line["measured"] for value in values)), "x", color=color, markersize=8, markeredgewidth=2,
                          label=f"{line['name']}, measured")
            if "level" in line:
                axes.axhline(line["level"], color=color, linestyle="--", linewidth=1,
                             label=f"{line['name']}, measured, full machine")
        axes.set(title=entry["title"], xlabel=entry["x"], ylabel=entry["y"])
        if entry.get("scale") == "log":
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
        if "ticks" in entry:
            axes.set_xticks(entry["ticks"])
        axes.set_ylim(0, 1.02 * axes.get_ylim()[1])
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7, loc=entry.get("legend", "best"))
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / f"{self.name}.svg", metadata={"Date": None})
        pyplot.close(figure)
