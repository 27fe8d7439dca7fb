#!/usr/bin/env python3
"""What docs/results/exploration-*.md say in their first lines, against the tables below them."""

import re
import unittest
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[2] / "docs/results"


def table_of(page, head):
    """The rows of the table under the line that begins with `head`: lists of cells, the first row the columns."""
    lines = (RESULTS / f"exploration-{page}.md").read_text(encoding="utf-8").splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(head)) + 2
    rows = []
    while lines[at].startswith("|"):
        rows.append([cell.strip() for cell in lines[at].strip("|").split("|")])
        at += 1
    return [rows[0], *rows[2:]]


def words_of(page):
    """The text before the tables, in one line."""
    text = (RESULTS / f"exploration-{page}.md").read_text(encoding="utf-8").split("<!--")[0]
    return re.sub(r"\s+", " ", text)


def number(page, pattern):
    found = re.search(pattern, words_of(page))
    if not found:
        raise AssertionError(f"exploration-{page}.md does not say {pattern}")
    return [float(group) for group in found.groups()]


class HeadlineTest(unittest.TestCase):
    def test_sizes_of_gpcs_without_a_remainder_are_near_each_other(self):
        [most] = number("gpc", r"without a remainder are within ([\d.]+) % of each other")
        rows = table_of("gpc", "Time of the matrix multiply, us, where a GPC's link grows")
        spreads = []
        for column, size in ((1, 1), (2, 2), (3, 4)):
            times = [float(row[column]) for row in rows[1:] if row[column] != "-" and int(row[0]) % size == 0]
            self.assertGreater(len(times), 1)
            spreads.append(100 * (max(times) / min(times) - 1))
        self.assertLessEqual(max(spreads), most)
        self.assertGreater(max(spreads), most - 0.1)

    def test_time_follows_the_bandwidth_as_far_as_is_said(self):
        least, most, until = number("l2", r"takes ([\d.]+) to ([\d.]+) of the time up to ([\d.]+) B/cycle")
        plain, clusters = number("l2", r"from 640 to 1,280 B/cycle ([\d.]+) of the time without clusters, and ([\d.]+) with them")
        rows = table_of("l2", "Time, us, without clusters")
        slices = [int(re.search(r"(\d+) slices", name)[1]) for name in rows[0][1:]]
        shares = {}
        for before, after in zip(rows[1:], rows[2:]):
            for column, count in enumerate(slices):
                total = int(after[0]) * count
                shares[column, total] = float(after[column + 1]) / float(before[column + 1])
        low = [share for (_, total), share in shares.items() if total <= until]
        self.assertGreaterEqual(min(low), least)
        self.assertLessEqual(max(low), most)
        self.assertLess(max(low) - min(low), most - least + 0.001)
        self.assertAlmostEqual(shares[2, 1280], plain, delta=0.005)
        self.assertAlmostEqual(shares[5, 1280], clusters, delta=0.005)

    def test_placement_moves_times_by_no_more_than_is_said(self):
        [most] = number("placement", r"changes a matrix multiply by clusters by more than ([\d.]+) %")
        rows = table_of("placement", "Time of the matrix multiply with `fastest`, us, and how far")
        moves = [abs(float(move)) for row in rows[1:] for cell in row[1:] for move in re.findall(r"[+-]\d+\.\d", cell)]
        self.assertEqual(max(moves), most)

    def test_policies_that_are_said_to_be_alike_are(self):
        for head, first, others in (("Time for which the clusters waited", "lake", ["capped", "yielding"]),
                                    ("Share of all SMs' time without a CTA because no GPC", "lake", ["capped", "yielding"]),
                                    ("From the first CTA of the clusters", "fastest", ["lookahead"]),
                                    ("Choices that `fastest` makes otherwise", "fastest", ["lookahead"])):
            rows = {(row[0], row[1]): row[2:] for row in table_of("placement", head)[1:]}
            for ctas in ("200", "390"):
                for other in others:
                    self.assertEqual(rows[ctas, other], rows[ctas, first], head)


if __name__ == "__main__":
    unittest.main()
