#!/usr/bin/env python3
"""Writes tables and charts of measured figures into BENCHMARKS.md and docs/benchmarks, from docs/benchmarks/data.

    deploy/docs/benchmarks.py            writes what has changed
    deploy/docs/benchmarks.py --check    writes nothing, names what is out of date, ends with 1 if anything is

A table stands in a page between `<!-- table: SUBJECT/NAME -->` and `<!-- end -->`, and in data/SUBJECT.json under NAME:

    "columns"   a title, or an object: "title"; "format", as "{} ({})", for cells that are lists, or several, for
                lists of several lengths; "bold_below", a number below which this column's figures are bold
    "rows"      the cells: a string, a number, or a list of numbers that "format" places
    "mean"      optional: the cells of a last row, geometric means of the columns where it has numbers

data/claims.json makes the table of claims in BENCHMARKS.md, between `<!-- claims -->` and `<!-- end -->`, and how many
are met, between `<!-- summary -->` and `<!-- end -->`; data/charts.json makes the SVG files of docs/benchmarks. A
figure keeps the digits that its file has.
"""
import decimal
import json
import pathlib
import re
import sys
from xml.sax.saxutils import escape

Decimal = decimal.Decimal
END = "<!-- end -->"
TABLE = re.compile(r"<!-- table: ([\w-]+)/([\w-]+) -->\n.*?" + END, re.S)
CLAIMS = re.compile(r"<!-- claims -->\n.*?" + END, re.S)
SUMMARY = re.compile(r"<!-- summary -->\n.*?" + END, re.S)
STATES = {"met": "met", "missed": "**missed**", "partly": "**missed** in part", "none": "no target",
          "unshown": "**not shown**"}


def load(path):
    """JSON whose figures print as they are written: 1.000 stays 1.000."""
    return json.loads(path.read_text(), parse_float=Decimal)


class Data:
    """docs/benchmarks/data, read once."""

    def __init__(self, root):
        self.folder = root / "docs/benchmarks/data"
        self.claims = load(self.folder / "claims.json")
        self.charts = load(self.folder / "charts.json")
        self.subjects = {path.stem: load(path) for path in sorted(self.folder.glob("*.json"))
                         if path.stem not in ("claims", "charts")}

    def table(self, name):
        subject, _, table = name.partition("/")
        return self.subjects[subject][table]

    def figure(self, reference):
        """The number at [SUBJECT/NAME, row's first cell, column's title, place in a list]."""
        table = self.table(reference[0])
        rows = [row for row in [*table["rows"], table.get("mean", [None])] if row[0] == reference[1]]
        if len(rows) != 1:
            raise ValueError(f"{len(rows)} rows of {reference[0]} begin with {reference[1]}")
        cell = rows[0][[title(column) for column in table["columns"]].index(reference[2])]
        return cell[reference[3]] if isinstance(cell, list) else cell


def title(column):
    return column if isinstance(column, str) else column["title"]


def is_number(cell):
    return isinstance(cell, (int, Decimal))


def markdown_cell(cell, column):
    settings = {} if isinstance(column, str) else column
    if isinstance(cell, list):
        formats = settings["format"] if isinstance(settings["format"], list) else [settings["format"]]
        return next(each for each in formats if each.count("{}") == len(cell)).format(*cell)
    if is_number(cell) and "bold_below" in settings and cell < settings["bold_below"]:
        return f"**{cell}**"
    return str(cell)


def markdown_table(table):
    columns = table["columns"]
    lines = [[title(column) for column in columns], ["---"] * len(columns)]
    for row in table["rows"]:
        if len(row) != len(columns):
            raise ValueError(f"a row has {len(row)} cells, the table {len(columns)} columns: {row}")
        lines.append([markdown_cell(cell, column) for cell, column in zip(row, columns)])
    if "mean" in table:
        lines.append([f"**{cell}**" if cell != "" else "" for cell in table["mean"]])
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def claims_table(claims):
    """One table a subject, each claim with its page."""
    parts = []
    for subject in claims:
        parts.append(f"\n### {subject['subject']}\n\n| claim | target | latest | result | date | page |\n"
                     "|---|---|---|---|---|---|\n")
        for claim in subject["claims"]:
            page, _, anchor = claim["page"].partition("#")
            link = f"[{page}](docs/benchmarks/{page}.md{'#' + anchor if anchor else ''})"
            parts.append(f"| {claim['claim']} | {claim['target']} | {claim['latest']} | "
                         f"{STATES[claim['state']]} | {claim['date']} | {link} |\n")
    return "".join(parts) + "\n"


def summary(claims):
    """How many claims are met and missed, in a sentence."""
    states = [claim["state"] for subject in claims for claim in subject["claims"]]
    counts = {state: states.count(state) for state in STATES}
    with_target = len(states) - counts["none"]
    unshown = f", {counts['unshown']} not shown" if counts["unshown"] else ""
    return (f"\nOf {with_target} claims with a target, {counts['met']} are met, {counts['partly']} missed in part and "
            f"{counts['missed']} missed{unshown}; {counts['none']} more have no target.\n\n")


# GitHub shows a picture as it is in light and in dark mode, and the browser's preference picks the colours.
STYLE = """\
<style>
text { font-family: system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2328 }
.note { fill: #59636e }
.ours { fill: #0969da }
.others { fill: #afb8c1 }
line { stroke: #1f2328; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc }
  .note { fill: #9198a1 }
  .ours { fill: #4493f8 }
  .others { fill: #656c76 }
  line { stroke: #f0f6fc }
}
</style>"""
WIDTH = 880


class Svg:
    def __init__(self):
        self.parts = []

    def text(self, x, y, words, size=13, anchor="start", weight="normal", kind=""):
        kind = f' class="{kind}"' if kind else ""
        self.parts.append(f'<text{kind} x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
                          f'font-weight="{weight}">{escape(words)}</text>')

    def bar(self, x, y, width, height, kind):
        self.parts.append(f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" '
                          f'height="{height}" rx="2"/>')

    def rule(self, x, top, bottom):
        self.parts.append(f'<line x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}"/>')

    def document(self, height, description):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
                f'height="{height}" role="img">\n<title>{escape(description)}</title>\n{STYLE}\n' +
                "\n".join(self.parts) + "\n</svg>\n")


def bars(svg, chart, data, left, top, right):
    """Bars of one scale under each other; where the last ends. A value's number stands behind its bar."""
    values = [(bar, bar["value"] if "value" in bar else data.figure(bar["figure"])) for bar in chart["bars"]]
    names = 178 if chart.get("narrow") else 236
    scale = (right - left - names - 62) / float(max(value for _, value in values))
    y = top
    for bar, value in values:
        svg.text(left + names - 8, y + 12.5, bar["name"], 12, "end")
        svg.bar(left + names, y, float(value) * scale, 16, "ours" if bar.get("is_ours") else "others")
        svg.text(left + names + float(value) * scale + 6, y + 12.5, f"{value:,}" + bar.get("unit", ""), 12)
        y += 22
    if "rule" in chart:
        svg.rule(left + names + float(chart["rule"]) * scale, top - 4, y)
    return y


def panels_chart(chart, data):
    """Panels side by side in two columns, each with bars of its own scale."""
    svg = Svg()
    svg.text(8, 22, chart["title"], 16, weight="bold")
    y = 52
    panels = chart["panels"]
    for left_panel, right_panel in zip(panels[::2], panels[1::2] + [None] * (len(panels) % 2)):
        bottoms = []
        for panel, left in ((left_panel, 8), (right_panel, WIDTH / 2 + 8)):
            if panel:
                svg.text(left, y, panel["title"], 13, weight="bold")
                svg.text(left, y + 17, panel["note"], 11.5, kind="note")
                bottoms.append(bars(svg, {**panel, "narrow": True}, data, left, y + 28, left + WIDTH / 2 - 24))
        y = max(bottoms) + 26
    return svg.document(round(y - 8), chart["title"])


def bar_chart(chart, data):
    """One bar for each row of a table, or for the figures that the chart names."""
    svg = Svg()
    svg.text(8, 22, chart["title"], 16, weight="bold")
    svg.text(8, 42, chart["note"], 12, kind="note")
    if "rows_of" in chart:
        chart = {**chart, "bars": [
            {"name": row[0], "figure": [chart["rows_of"], row[0], *chart["column"]],
             "is_ours": row[0] not in chart.get("rivals", [])}
            for row in data.table(chart["rows_of"])["rows"]]}
    return svg.document(round(bars(svg, chart, data, 8, 58, WIDTH - 16) + 8), chart["title"])


def outputs(root):
    """Every file that the data decide, with the text it should have."""
    data = Data(root)
    index = root / "BENCHMARKS.md"
    text = SUMMARY.sub(lambda _: f"<!-- summary -->\n{summary(data.claims)}{END}", index.read_text())
    yield index, CLAIMS.sub(lambda _: f"<!-- claims -->\n{claims_table(data.claims)}{END}", text)
    for page in sorted((root / "docs/benchmarks").glob("*.md")):
        yield page, TABLE.sub(
            lambda match: f"<!-- table: {match[1]}/{match[2]} -->\n\n"
            f"{markdown_table(data.table(f'{match[1]}/{match[2]}'))}\n{END}", page.read_text())
    for name, chart in data.charts.items():
        draw = panels_chart if "panels" in chart else bar_chart
        yield root / "docs/benchmarks" / name, draw(chart, data)


def main(arguments):
    root = pathlib.Path(__file__).resolve().parents[2]
    stale = [(path, text) for path, text in outputs(root) if not path.exists() or path.read_text() != text]
    for path, text in stale:
        print(path.relative_to(root))
        if "--check" not in arguments:
            path.write_text(text)
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
