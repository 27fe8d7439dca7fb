"""Tables of results: lists of rows that are dictionaries."""

import csv


class Table(list):
    """Rows, each a dictionary with the same keys. `columns` are these keys, in order. A slice is a table."""

    def __init__(self, rows=(), columns=None):
        super().__init__(dict(row) for row in rows)
        self.columns = list(columns) if columns is not None else list(self[0]) if self else []

    def __getitem__(self, key):
        found = super().__getitem__(key)
        return Table(found, self.columns) if isinstance(key, slice) else found

    @classmethod
    def read(cls, path, text=()):
        """From a CSV file. A column whose cells are all written as whole numbers, or as numbers, has these; others, and those
        that `text` names, have text. An empty cell is None."""
        with open(path, encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            rows = list(reader)
        names = list(reader.fieldnames or [])
        for name in names:
            kind = str if name in text else kind_of_all(row[name] for row in rows)
            for row in rows:
                row[name] = kind(row[name]) if row[name] else None
        return cls(rows, names)

    def column(self, name):
        """The values of one column, as a list."""
        if name not in self.columns:
            raise KeyError(f"no column {name!r}; there are {', '.join(self.columns)}")
        return [row[name] for row in self]

    def where(self, **values):
        """The rows that have these values in these columns."""
        for name in values:
            self.column(name)
        return Table([row for row in self if all(row[name] == value for name, value in values.items())], self.columns)

    def sorted(self, name, reverse=False):
        """The rows in the order of a column; those without a value last."""
        self.column(name)
        some = [row for row in self if row[name] is not None]
        some.sort(key=lambda row: row[name], reverse=reverse)
        return Table(some + [row for row in self if row[name] is None], self.columns)

    def frame(self):
        """As a DataFrame of pandas, which must be installed (Debian: python3-pandas)."""
        import pandas  # pylint: disable=import-outside-toplevel
        return pandas.DataFrame(list(self), columns=self.columns)

    def __str__(self):
        cells = [self.columns] + [["" if row[name] is None else short(row[name]) for name in self.columns] for row in self]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells)

    def _repr_html_(self):
        def escaped(value):
            return str(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

        head = "".join(f"<th>{escaped(name)}</th>" for name in self.columns)
        rows = ("".join(f"<td>{'' if row[name] is None else escaped(short(row[name]))}</td>" for name in self.columns)
                for row in self)
        return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def short(value):
    """Text of a value as people read it: six digits of a number with a fraction."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def kind_of_all(cells):
    """int, float or str: the narrowest that all cells are written as; empty ones are any."""
    kind = int
    for cell in filter(None, cells):
        # Names may look like numbers to Python: "1_0", " 7", "nan", "infinity".
        if cell.strip("+-0123456789.eE") != "":
            return str
        for kind in (int, float) if kind is int else (float,):
            try:
                kind(cell)
                break
            except ValueError:
                continue
        else:
            return str
    return kind
