#!/usr/bin/env python3
"""Draws a picture of boxes and arrows from a text file, as SVG that suits light and dark pages.

  deploy/docs/diagram.py docs/request-way.txt            writes docs/request-way.svg
  deploy/docs/diagram.py --check docs/request-way.txt    exits with 1 where that file would change

A row is a line with |: its boxes stand side by side, and an empty one leaves its place empty. A box
is a name, then its lines, all parted by ;. `a -> b` is an arrow between neighbours of a row, `a - b`
a line between a box and the one below it, `a => b: text` an arrow that returns above the row.
"""
import argparse
import html
import pathlib
import re
import sys

BOX = (134, 66)  # width and height, in pixels
GAP = (14, 40)
MARGIN = 14
ABOVE = 34  # for the arrow that returns
STYLE = """\
  <style>
    text { font: 12.5px system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2328; text-anchor: middle }
    .name { font-weight: bold; font-size: 12.5px }
    rect { fill: #f6f8fa; stroke: #57606a; stroke-width: 1.2 }
    .side rect { stroke-dasharray: 4 3 }
    path { fill: none; stroke: #57606a; stroke-width: 1.4 }
    .head { fill: #57606a; stroke: none }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 }
      rect { fill: #161b22; stroke: #8d96a0 }
      path { stroke: #8d96a0 }
      .head { fill: #8d96a0; stroke: none }
    }
  </style>"""


def read(text):
    """The boxes by name, as (column, row, lines), and the arrows as (from, kind, to, label)."""
    boxes, arrows, row = {}, [], 0
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if "|" in line:
            for column, cell in enumerate(line.split("|")):
                name, *lines = [part.strip() for part in cell.split(";")]
                if name:
                    boxes[name] = (column, row, lines)
            row += 1
            continue
        arrow = re.fullmatch(r"(.+?) (->|=>|-) (.+?)(?:: (.+))?", line.strip())
        if not arrow:
            raise SystemExit(f"neither a row nor an arrow: {line}")
        missing = [name for name in (arrow[1], arrow[3]) if name not in boxes]
        if missing:
            raise SystemExit(f"no box is named {missing[0]!r}: {line}")
        arrows.append(arrow.groups())
    return boxes, arrows


def corner(box):
    column, row, _ = box
    return (MARGIN + column * (BOX[0] + GAP[0]), MARGIN + ABOVE + row * (BOX[1] + GAP[1]))


def head(x, y, dx, dy):
    """The tip of an arrow that comes to (x, y) in the direction (dx, dy)."""
    back = (x - 8 * dx, y - 8 * dy)
    side = (4 * dy, 4 * dx)
    return (f'  <path class="head" d="M{x} {y} L{back[0] + side[0]} {back[1] + side[1]} '
            f'L{back[0] - side[0]} {back[1] - side[1]} Z"/>')


def draw_box(name, box):
    x, y = corner(box)
    middle = x + BOX[0] / 2
    lines = [f'    <text class="name" x="{middle}" y="{y + 20}">{html.escape(name)}</text>']
    # Text that is too long for one line goes on in the next.
    text = re.findall(r".{1,18}(?:\s+|$)", " ".join(box[2]))
    lines += [f'    <text x="{middle}" y="{y + 38 + 15 * i}">{html.escape(part.strip())}</text>'
              for i, part in enumerate(text)]
    side = ' class="side"' if box[1] else ""
    return [f"  <g{side}>", f'    <rect x="{x}" y="{y}" width="{BOX[0]}" height="{BOX[1]}" rx="6"/>',
            *lines, "  </g>"]


def draw_arrow(boxes, arrow):
    start, kind, end, label = arrow
    (x1, y1), (x2, y2) = corner(boxes[start]), corner(boxes[end])
    if kind == "->":
        y = y1 + BOX[1] / 2
        return [f'  <path d="M{x1 + BOX[0]} {y} H{x2 - 8}"/>', head(x2, y, 1, 0)]
    if kind == "-":
        return [f'  <path d="M{x1 + BOX[0] / 2} {y1 + BOX[1]} V{y2}"/>']
    top = MARGIN + ABOVE / 2 - 4
    x1, x2 = x1 + BOX[0] / 2, x2 + BOX[0] / 2
    drawn = [f'  <path d="M{x1} {y1} V{top} H{x2} V{y2 - 8}"/>', head(x2, y2, 0, 1)]
    if label:
        drawn.append(f'  <text x="{(x1 + x2) / 2}" y="{top - 5}">{html.escape(label)}</text>')
    return drawn


def svg(text, title):
    boxes, arrows = read(text)
    width = 2 * MARGIN + max(corner(box)[0] + BOX[0] for box in boxes.values()) - MARGIN
    height = 2 * MARGIN + max(corner(box)[1] + BOX[1] for box in boxes.values()) - MARGIN
    drawn = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
             f'width="{width}" height="{height}" role="img">', f"  <title>{html.escape(title)}</title>", STYLE]
    for name, box in boxes.items():
        drawn += draw_box(name, box)
    for arrow in arrows:
        drawn += draw_arrow(boxes, arrow)
    return "\n".join([*drawn, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("file", type=pathlib.Path, nargs="+")
    options = parser.parse_args()
    for path in options.file:
        drawn = svg(path.read_text(), path.stem.replace("-", " "))
        target = path.with_suffix(".svg")
        if not options.check:
            target.write_text(drawn)
        elif not target.exists() or target.read_text() != drawn:
            sys.exit(f"{target} is not what deploy/docs/diagram.py draws of {path}")


if __name__ == "__main__":
    main()
