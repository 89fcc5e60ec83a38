#!/usr/bin/env python3
"""Figures of speed and of tests as data in docs/figures/*.json, and the page and the plot made of them.

    tools/dev bench bars --record           # runs the benchmark, and adds docs/figures/bars-DATE-PROCESSOR.json
    scripts/figures.py page                 # writes docs/figures.md and docs/figures/bars.svg
    scripts/figures.py page --check         # fails if they are not those of the data
    scripts/figures.py record FILE <TEXT    # what `bench bars --record` calls with the output of the benchmark

A file is a table, {"title", "intro", "columns", "rows"}, whose cells are texts for the page; or a run that was recorded,
{"date", "commit", "processor", "processors", "command", "rows"}, whose rows have the fields of ROW.
"""

import argparse
import datetime
import html
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
FOLDER = os.path.join(ROOT, "docs", "figures")
PAGE = os.path.join(ROOT, "docs", "figures.md")
PLOT = os.path.join(FOLDER, "bars.svg")
TABLES = ("processors", "gpu", "tests")  # in the order of the page

# A row of the benchmark: its name in 70 columns, the figure, its unit, and what it is beside. Rows with a bar have the
# bar and the verdict between them.
ROW = re.compile(
    r"^(?P<name>.{70}) +(?P<value>-?[\d.]+) (?P<unit>.{9}) "
    r"(?:(?P<relation><=|>=) +(?P<bar>-?[\d.]+)  (?P<verdict>met|missed) +)?(?P<beside>.*)$"
)
NOISE = re.compile(r"  \(noisy: rounds differ by (\d+) %\)$")


def parse_rows(text):
    """The rows of the output of `bars`; other lines are passed over."""
    rows = []
    for line in text.splitlines():
        noise = NOISE.search(line)
        match = ROW.match(line[: noise.start()] if noise else line)
        if not match:
            continue
        row = {"name": match["name"].strip(), "value": float(match["value"]), "unit": match["unit"].strip()}
        if match["relation"]:
            row.update(relation=match["relation"], bar=float(match["bar"]), met=match["verdict"] == "met")
        row["beside"] = match["beside"].strip()
        if noise:
            row["spread"] = int(noise[1]) / 100
        rows.append(row)
    return rows


def processor():
    """The name of this machine's processor, as /proc/cpuinfo has it."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        found = re.search(r"^(?:model name|Hardware)\s*:\s*(.+)$", file.read(), re.MULTILINE)
    return found[1].strip() if found else "unknown"


def record(path, text, now=None, name=None, commit=None):
    """Writes the run to `path`, or to a new file of FOLDER if it is None. Returns the path."""
    rows = parse_rows(text)
    if not rows:
        raise SystemExit("figures.py: the text on stdin has no row of a benchmark")
    now = now or datetime.date.today().isoformat()
    name = name or processor()
    if path is None:
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
        path = os.path.join(FOLDER, f"bars-{now}-{slug}.json")
    if commit is None:
        told = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
        commit = told.stdout.strip()
    run = {"date": now, "commit": commit, "processor": name, "processors": os.cpu_count(), "command": "bench bars"}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**run, "rows": rows}, file, indent=1, ensure_ascii=False)
        file.write("\n")
    return path


def cell(text):
    return str(text).replace("|", "\\|")


def table(columns, rows):
    lines = [f"| {' | '.join(map(cell, columns))} |", "|" + "---|" * len(columns)]
    lines += [f"| {' | '.join(map(cell, row))} |" for row in rows]
    return "\n".join(lines)


def numbers(text):
    """The least and the greatest number of a cell such as "1.02 to 1.06"; None for cells that are no such range."""
    match = re.fullmatch(r"([\d.]+)(?: to ([\d.]+))?", text.strip())
    return (float(match[1]), float(match[2] or match[1])) if match else None


def plot(processors):
    """A dot for each figure that is a ratio to the limit or the peer of its row: at 1.00 it is as fast as that."""
    left, right, step, top = 460, 900, 22, 44
    low, high = 0.4, 1.6
    colours = ("#1b6ca8", "#d1495b", "#3a7d44", "#8e5ea2", "#e09f3e", "#5c6b73", "#00798c", "#7f4f24")
    columns = processors["columns"][2:]
    rows = []
    for row in processors["rows"]:
        if not row[1].startswith(("1.", "at most 1.")):
            continue  # speeds and milliseconds are not times beside a limit
        dots = [(i, numbers(text)) for i, text in enumerate(row[2:])]
        dots = [(i, span) for i, span in dots if span and span[1] <= high]
        if dots:
            rows.append((row[0], float(re.search(r"[\d.]+", row[1])[0]), dots))

    def x(value):
        return left + (min(max(value, low), high) - low) / (high - low) * (right - left)

    height = top + step * len(rows) + 30 + 18 * ((len(columns) + 1) // 2)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{right + 30}" height="{height}" font-family="sans-serif" '
        'font-size="12">',
        "<title>Time beside the limit of each row, by processor</title>",
        f'<rect width="{right + 30}" height="{height}" fill="#ffffff"/>',
        f'<text x="{left}" y="18">time, as a multiple of the limit: less is faster; the tick is the bar</text>',
    ]
    bottom = top + step * len(rows)
    for value in (0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6):
        dark = "#888888" if value == 1.0 else "#dddddd"
        out.append(f'<line x1="{x(value):.1f}" y1="{top - 8}" x2="{x(value):.1f}" y2="{bottom}" stroke="{dark}"/>')
        out.append(f'<text x="{x(value):.1f}" y="{top - 12}" text-anchor="middle" fill="#555555">{value:.1f}</text>')
    for number, (name, bar, dots) in enumerate(rows):
        y = top + step * number + step / 2
        short = name if len(name) <= 68 else name[:66] + "…"
        out.append(f'<text x="{left - 12}" y="{y + 4:.1f}" text-anchor="end">{html.escape(short)}</text>')
        out.append(f'<line x1="{x(bar):.1f}" y1="{y - 7:.1f}" x2="{x(bar):.1f}" y2="{y + 7:.1f}" stroke="#222222" '
                   'stroke-width="2"/>')
        for i, (least, most) in dots:
            colour = colours[i % len(colours)]
            what = html.escape(f"{columns[i]}: {least:g}" + (f" to {most:g}" if most > least else ""))
            if most > least:
                out.append(f'<line x1="{x(least):.1f}" y1="{y:.1f}" x2="{x(most):.1f}" y2="{y:.1f}" stroke="{colour}" '
                           'stroke-width="3" stroke-opacity="0.5"/>')
            out.append(f'<circle cx="{x((least + most) / 2):.1f}" cy="{y:.1f}" r="4" fill="{colour}">'
                       f"<title>{what}</title></circle>")
    for i, column in enumerate(columns):
        cx, cy = 20 + (i % 2) * 440, bottom + 24 + 18 * (i // 2)
        out.append(f'<circle cx="{cx}" cy="{cy - 4}" r="4" fill="{colours[i % len(colours)]}"/>')
        out.append(f'<text x="{cx + 12}" y="{cy}">{html.escape(column)}</text>')
    return "\n".join(out) + "\n</svg>\n"


def load(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return json.load(file)


def page():
    """The texts of the page and of the plot."""
    parts = [
        "# Figures",
        "What was measured, when and how. The data are [docs/figures](figures), and `scripts/figures.py page` makes this\n"
        "page of them. What is not listed was not measured. [TESTING.md](../TESTING.md) says how to run each kind of\n"
        "test and benchmark.",
    ]
    for name in TABLES:
        data = load(f"{name}.json")
        parts += [f"## {data['title']}", "\n".join(data["intro"])]
        if name == "processors":
            parts.append("![Time beside the limit of each row, by processor](figures/bars.svg)")
        parts.append(table(data["columns"], data["rows"]))
        if data.get("after"):
            parts.append("\n".join(data["after"]))
    runs = sorted(file for file in os.listdir(FOLDER) if file.startswith("bars-") and file.endswith(".json"))
    if runs:
        parts += ["## Recorded runs", "By `tools/dev bench bars --record`: the median of each row, and its bar."]
    for file in runs:
        run = load(file)
        with_bar = [row for row in run["rows"] if "bar" in row]
        met = sum(row["met"] for row in with_bar)
        parts.append(f"### {run['processor']}, {run['date']}")
        parts.append(f"{run['processors']} processors, version {run['commit']}: {met} of {len(with_bar)} bars met.")
        rows = [
            (row["name"], f"{row['value']:g} {row['unit']}".strip(), f"{row['relation']} {row['bar']:g}",
             ("met" if row["met"] else "missed") + (", noisy" if "spread" in row else ""), row["beside"])
            for row in with_bar
        ]
        parts.append(table(("Row", "Figure", "Bar", "", "Beside"), rows))
    return "\n\n".join(parts) + "\n", plot(load("processors.json"))


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("page")
    making.add_argument("--check", action="store_true")
    recording = commands.add_parser("record")
    recording.add_argument("file", nargs="?")
    options = parser.parse_args(arguments)
    if options.command == "record":
        print(record(options.file, sys.stdin.read()))
        return 0
    status = 0
    for path, text in zip((PAGE, PLOT), page()):
        if options.check:
            with open(path, encoding="utf-8") as file:
                if file.read() != text:
                    print(f"{os.path.relpath(path, ROOT)} is not made of the data: scripts/figures.py page")
                    status = 1
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
