#!/usr/bin/env python3
"""Writes serialize/report/internal/page_text.inc, the page of reports, from the files of serialize/report/page.

    scripts/report_page.py            # writes the file
    scripts/report_page.py --check    # exits with 1 if the file is not current
    scripts/report_page.py --vendor   # first bundles the drawing library anew: needs npm and its registry

The page has one style and one script, and a policy that allows exactly these two by their hashes. The script is the
bundle of d3's modules (vendor.js, committed; NOTICE has their licence) and the files of SCRIPTS, in this order. Only
--vendor needs npm: it installs the versions of PACKAGES in .cache/report, and bundles vendor.entry.js with esbuild.
"""

import base64
import hashlib
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
PAGE = os.path.join(ROOT, "serialize", "report", "page")
OUTPUT = os.path.join(ROOT, "serialize", "report", "internal", "page_text.inc")
WORK = os.path.join(ROOT, ".cache", "report")
SCRIPTS = ("text.js", "model.js", "health.js", "charts.js", "overview.js", "table.js", "tensor.js", "changes.js", "steps.js", "live.js", "main.js")
PACKAGES = {"d3-hierarchy": "3.1.3", "d3-scale": "4.0.2", "esbuild": "0.28.2"}
PIECE = 16000  # characters of a literal


def read(name):
    with open(os.path.join(PAGE, name), encoding="utf-8") as f:
        return f.read()


def bundle():
    """Writes vendor.js."""
    os.makedirs(WORK, exist_ok=True)
    with open(os.path.join(WORK, "package.json"), "w", encoding="utf-8") as f:
        json.dump({"private": True, "dependencies": PACKAGES}, f)
    with open(os.path.join(WORK, "entry.js"), "w", encoding="utf-8") as f:
        f.write(read("vendor.entry.js"))
    subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--silent"], cwd=WORK, check=True)
    # Only what is used is in the bundle. It has no license comments: NOTICE has the licence.
    subprocess.run(
        ["node_modules/.bin/esbuild", "entry.js", "--bundle", "--minify", "--format=iife", "--global-name=d3", "--target=es2020",
         "--legal-comments=none", f"--outfile={os.path.join(PAGE, 'vendor.js')}"],
        cwd=WORK, check=True,
    )  # fmt: skip


def hash_of(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def whole_page():
    """The page with @DATA@ where the data goes."""
    style = read("page.css")
    script = read("vendor.js") + '"use strict";\n(() => {\n' + "\n".join(read(name) for name in SCRIPTS) + "})();\n"
    # In a script these would begin a comment or end the element.
    for text, name in ((style, "page.css"), (script, "the script")):
        for mark in ("</", "<!--", "@DATA@"):
            if mark in text:
                raise ValueError(f"{name} has {mark}")
    page = read("page.html")
    for mark, text in (("@STYLE_HASH@", hash_of(style)), ("@SCRIPT_HASH@", hash_of(script)), ("@STYLE@", style), ("@SCRIPT@", script)):
        page = page.replace(mark, text, 1)
    return page


def literal(text):
    pieces = [text[i : i + PIECE] for i in range(0, len(text), PIECE)]
    return "\n".join(f'R"PAGE({piece})PAGE"' for piece in pieces)


def generate():
    before, behind = whole_page().split("@DATA@")
    return f"""// Written by scripts/report_page.py from the files of serialize/report/page. Do not edit.
constexpr char kPageBefore[] =
{literal(before)};

constexpr char kPageBehind[] =
{literal(behind)};
"""


def main(arguments):
    if arguments not in ([], ["--check"], ["--vendor"]):
        print(__doc__, file=sys.stderr)
        return 2
    if arguments == ["--vendor"]:
        bundle()
    wanted = generate()
    if arguments == ["--check"]:
        with open(OUTPUT, encoding="utf-8") as f:
            current = f.read() == wanted
        if not current:
            print("serialize/report/internal/page_text.inc is not current: run scripts/report_page.py")
        return 0 if current else 1
    with open(OUTPUT, "w", encoding="utf-8") as f:
        f.write(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
