"""What each view of the page shows. run.py runs these tests."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.parse

import numpy as np
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

import files
from page_testing import TOOL, Page


class Overview(Page):
    def test_totals_and_metadata(self):
        self.open(self.sick())
        tensors = files.sick_model()
        tiles = self.text(".tiles")
        self.assertIn(str(len(tensors)), tiles)
        self.assertIn("float16", self.text())
        self.assertIn("Somebody", self.text())
        self.assertGreater(len(self.all(".treemap a")), 10)
        self.assert_quiet()

    def test_the_map_opens_groups_and_changes_colours(self):
        self.open(self.sick())
        before = self.script("return document.querySelector('.treemap rect[fill]').getAttribute('fill')")
        Select(self.find("#map-colour")).select_by_value("sparsity")
        self.settle()
        self.assertNotEqual(before, self.script("return document.querySelector('.treemap a rect').getAttribute('fill')"))
        self.script("document.querySelector('.treemap .group').focus()")
        self.browser.switch_to.active_element.send_keys(Keys.ENTER)
        self.settle()
        self.assertEqual(len(self.all(".crumbs button")), 1)
        self.find(".crumbs button").click()
        self.settle()
        self.assertEqual(len(self.all(".crumbs button")), 0)
        self.assert_quiet()

    def test_the_map_keeps_its_colours_and_suits_the_theme(self):
        self.open(self.sick())
        Select(self.find("#map-colour")).select_by_value("compression")
        self.settle()
        self.find(".treemap a").click()
        self.settle()
        self.browser.back()
        self.settle()
        self.assertEqual(self.find("#map-colour").get_attribute("value"), "compression")
        Select(self.find("#map-colour")).select_by_value("norm")
        self.settle()
        fill = "return document.querySelector('.treemap a rect').getAttribute('fill')"
        light = self.script(fill)
        self.find("#theme").click()  # light
        self.settle()
        self.assertEqual(self.script(fill), light)
        self.find("#theme").click()  # dark
        self.settle()
        self.assertNotEqual(self.script(fill), light)
        self.assertEqual(self.find("#map-colour").get_attribute("value"), "norm")
        self.assert_quiet()

    def test_an_empty_file_and_one_tensor(self):
        self.open(self.report(self.file("empty.safetensors", {})))
        self.assertIn("no tensors", self.text())
        for view in ("#health", "#tensors"):
            self.go(view)
            self.assertIn("no tensors", self.text())
        self.open(self.report(self.file("one.safetensors", {"w": np.float32([[1, 2], [3, 4]])})), "#tensor=w")
        self.assertEqual(self.script("return [...document.querySelectorAll('.few span')].map((e) => e.textContent)"), ["1", "2", "3", "4"])
        self.assert_quiet()


class Health(Page):
    def test_each_finding_links_to_its_tensor(self):
        self.open(self.sick(), "#health")
        wanted = {"nan": "layers.0.self_attn.k_proj", "inf": "layers.0.self_attn.k_proj", "norm": "layers.1.mlp.up_proj",
                  "saturated": "conv", "zero": "zero", "rows": "layers.2.mlp.down_proj",
                  "columns": "layers.2.mlp.down_proj", "equal": "lm_head"}  # fmt: skip
        for check, name in wanted.items():
            with self.subTest(check):
                links = self.all(f"#health-{check} a")
                self.assertTrue(any(name in link.text for link in links), [link.text for link in links])
        self.assertIn("1 of 64 rows", self.text("#health-rows"))
        self.assertIn("13 of 256 columns", self.text("#health-columns"))
        self.find("#health-norm a").click()
        self.settle()
        self.assertEqual(self.text("h1"), "model.layers.1.mlp.up_proj.weight")

    def test_a_healthy_file(self):
        self.open(self.report(self.file("healthy.safetensors", files.model())), "#health")
        self.assertIn("Nothing stands out", self.text())


class Table(Page):
    def test_search(self):
        self.open(self.sick(), "#tensors")
        search, mode = self.find("#search"), Select(self.find("#mode"))
        every = sorted(files.sick_model())
        self.assertEqual(self.names(), every)
        for word, kind, wanted in (
            ("LAYERS.2 mlp", "text", [n for n in every if "layers.2" in n and "mlp" in n]),
            ("model.layers.?.mlp.*", "glob", [n for n in every if re.match(r"model\.layers\..\.mlp\.", n)]),
            ("*[!a-z]3.*norm*", "glob", ["model.layers.3.input_layernorm.weight"]),
            (r"layers\.(0|3)\..*norm", "regex", [n for n in every if re.search(r"layers\.(0|3)\..*norm", n)]),
        ):
            mode.select_by_value(kind)
            search.clear()
            search.send_keys(word)
            self.assertEqual(self.names(), wanted, word)
        search.clear()
        search.send_keys("(")
        self.assertIn("not a regular expression", self.text("#found"))
        self.assertEqual(search.get_attribute("aria-invalid"), "true")
        self.assert_quiet()

    def test_the_first_click_after_a_search_opens_a_tensor(self):
        self.open(self.sick(), "#tensors")
        self.find("#search").send_keys("layers.2 k_proj")
        self.find("table.tensors tbody a").click()
        self.settle()
        self.assertEqual(self.text("h1"), "model.layers.2.self_attn.k_proj.weight")
        self.find(".toolbar.above a").click()  # back to the table as it was
        self.settle()
        self.assertEqual(self.find("#search").get_attribute("value"), "layers.2 k_proj")
        self.assertEqual(len(self.names()), 1)

    def test_sort_and_filter(self):
        self.open(self.sick(), "#tensors")
        tensors = files.sick_model()
        self.find('th[data-column="elements"] button').click()
        sizes = [tensors[name].size for name in self.names()]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        self.assertEqual(self.find('th[data-column="elements"]').get_attribute("aria-sort"), "descending")
        self.find('th[data-column="elements"] button').click()
        self.assertEqual(self.find('th[data-column="elements"]').get_attribute("aria-sort"), "ascending")
        Select(self.find("#dtype")).select_by_value("float16")
        self.assertEqual(self.names(), ["model.conv.weight"])
        Select(self.find("#dtype")).select_by_value("")
        Select(self.find("#problem")).select_by_value("nan")
        self.assertEqual(self.names(), ["model.layers.0.self_attn.k_proj.weight"])
        self.assertIn("problem=nan", self.browser.current_url)

    def test_columns_and_copies(self):
        self.open(self.sick(), "#tensors?q=norm&sort=mean")
        self.script("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
        self.find(".menu summary").click()
        self.find("#column-offset").click()
        self.find("#column-zeros").click()
        buttons = {button.text: button for button in self.all(".toolbar button")}
        buttons["Copy CSV"].click()
        rows = self.script("return window.copied").splitlines()
        self.assertIn("offset", rows[0])
        self.assertNotIn("zeros", rows[0])
        self.assertEqual(len(rows), 5)
        buttons["Copy command"].click()
        command = self.script("return window.copied")
        self.assertEqual(command.split()[:2], ["tensorcask", "stats"])
        shown = subprocess.run(command.replace("tensorcask", TOOL, 1), shell=True, capture_output=True, text=True, check=True)
        self.assertEqual(len(shown.stdout.splitlines()), 5)

    def copy(self, button):
        """What a button of the table copies."""
        self.script("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
        next(one for one in self.all(".toolbar button") if one.text == button).click()
        return self.script("return window.copied")

    def run_command(self, command):
        """Runs a copied command in a shell, and gives its output as JSON."""
        self.assertTrue(command.startswith("tensorcask "), command)
        words = command.split(" ", 2)
        text = " ".join([TOOL, words[1], "--json", words[2]])
        result = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=False, timeout=60)
        self.assertIn(result.returncode, (0, 1), result.stderr)
        return json.loads(result.stdout)

    def test_a_copied_command_names_these_tensors(self):
        names = [name for name in files.HOSTILE_NAMES if "\0" not in name] + [
            "x[0]", "x0", "a*b", "aab", "what?", "whatX", "back\\slash", "-n", "--help", "two  blanks", "tab\t", "$(id)", "`id`", "a\nb",
            "~", "#x", "!x", "'", '"', "\u00e9", "\ufffd", "model/{a,b}"]  # fmt: skip
        path = self.file("-strange 'names'.safetensors", {name: np.float32([i]) for i, name in enumerate(names)})
        page = self.report(path)
        for name in names:
            with self.subTest(name):
                pattern = "".join(f"\\u{{{ord(c):x}}}" for c in name)
                self.open(page, "#tensors?q=^" + urllib.parse.quote(pattern, safe="") + "$&mode=regex")
                self.assertEqual(len(self.names()), 1)
                shown = self.run_command(self.copy("Copy command"))
                found = [row["name"] for row in shown["tensors"]]
                # U+FFFD may be any byte that is not UTF-8.
                self.assertIn(name, found) if name == "\ufffd" else self.assertEqual(found, [name])

    def test_a_copied_command_keeps_what_the_report_was_asked(self):
        before, after = Changes.pair()
        a = self.file("rule a.safetensors", {"old." + name: array for name, array in before.items()})
        b = self.file("rule b.safetensors", after)
        self.open(self.report(a, b, "--rename", "s/^old[.]//", "--include", "*.layers.[23].*"), "#tensors")
        shown = self.run_command(self.copy("Copy command"))
        self.assertEqual(sorted(one["name"] for one in shown["differences"]), sorted(n for n in before if "layers.2" in n and before[n].ndim == 2) + ["model.layers.3.self_attn.v_proj.weight"])
        self.find("#search").send_keys("k_proj")
        shown = self.run_command(self.copy("Copy command"))
        self.assertEqual([one["name"] for one in shown["differences"]], ["model.layers.2.self_attn.k_proj.weight"])

    def test_patterns_are_those_of_the_tool(self):
        names = ["a1", "a-", "a]", "a^", "a\\", "aZ", "a_", "b1", "[a]", "a[0]", "a.b", "axb", "\u00e9", "ab"]
        path = self.file("patterns.safetensors", {name: np.float32([1]) for name in names})
        self.open(self.report(path), "#tensors?mode=glob&q=x")
        for pattern in ("a?", "a[0-9]", "a[!0-9]", "a[^0-9]", "a[]]", "a[!]]", "a[[:digit:]]", "a[[:upper:]_]", "a[[:punct:]]", "a\\[0\\]", "a[0]",
                        "?", "[a]", "a[-x]", "a[\\]]", "a.b", "*", "a\\\\", "a[", "[[:alpha:]]*", "a[a-c]"):  # fmt: skip
            shown = subprocess.run([TOOL, "stats", "--json", path, pattern], capture_output=True, text=True, check=False)
            wanted = [row["name"] for row in json.loads(shown.stdout)["tensors"]] if shown.returncode == 0 else []
            self.go("#tensors?mode=glob&q=" + urllib.parse.quote(pattern, safe=""))
            found = [name.replace("\\x5c", "\\") for name in self.names()]
            self.assertEqual(sorted(found), sorted(wanted), pattern)

    def test_deep_links(self):
        page = self.sick()
        self.open(page, "#tensors?q=layers.1&sort=norm&order=down")
        self.assertEqual(self.find("#search").get_attribute("value"), "layers.1")
        self.assertEqual(len(self.names()), 7)
        self.assertEqual(self.names()[0], "model.layers.1.mlp.up_proj.weight")
        self.open(page, "#tensor=step")
        self.assertEqual(self.text("h1"), "step")
        self.open(page, "#tensor=nothing")
        self.assertIn("no tensor", self.text().lower())
        self.open(page, "#whatever")
        self.assertIn("Map", self.text())
        self.assert_quiet()

    def test_keyboard(self):
        self.open(self.sick())
        body = self.find("body")
        body.send_keys("/")
        time.sleep(0.1)
        self.settle()
        active = self.browser.switch_to.active_element
        self.assertEqual(active.get_attribute("id"), "search")
        active.send_keys("layers.2", Keys.ENTER)
        frame = self.browser.switch_to.active_element
        frame.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_UP)
        self.assertEqual(self.script("return document.querySelector('tr.active .name').textContent"), self.names()[1])
        wanted = self.names()[1]
        after = self.names()[2]
        frame.send_keys(Keys.ENTER)
        self.settle()
        self.assertEqual(self.text("h1"), wanted)
        self.find("body").send_keys("]")
        self.settle()
        self.assertEqual(self.text("h1"), after)
        self.browser.back()
        self.settle()
        self.assertEqual(self.text("h1"), wanted)

    def test_100000_tensors(self):
        tensors = {f"layers.{i // 100}.experts.{i % 100}.weight": np.float32([i, 1]) for i in range(100000)}
        self.open(self.report(self.file("many.safetensors", tensors)), "#tensors")
        self.assertLess(len(self.names()), 100)
        self.assertEqual(self.text("#found"), "100,000 tensors")
        self.script("document.querySelector('.frame').focus()")
        self.browser.switch_to.active_element.send_keys(Keys.END)
        self.settle()
        self.assertEqual(self.names()[-1], sorted(tensors)[-1])
        self.find("#search").send_keys("layers.999.experts.7")
        self.assertEqual(len(self.names()), 11)
        self.go("#tensor=layers.5.experts.7.weight")
        self.assertIn("keeps no histograms", self.text())
        self.assert_quiet()

    def test_10000_tensors_are_less_than_3_mb(self):
        random = np.random.default_rng(2)
        tensors = {f"model.layers.{i // 40}.block.{i % 40}.weight": random.normal(size=(16, 16)).astype(np.float32) for i in range(10000)}
        page = self.report(self.file("large.safetensors", tensors))
        self.assertLess(os.path.getsize(page), 3_000_000)
        self.open(page)
        print(f"10,000 tensors: {os.path.getsize(page) / 1e6:.2f} MB, shown {self.script('return document.documentElement.dataset.ready')} ms "
              "after the start", file=sys.stderr)  # fmt: skip


class TensorPage(Page):
    def bins(self, figure, series=0):
        counts = self.script(
            "const f = [...document.querySelectorAll('figure')].find((e) => e.querySelector('.title').textContent === arguments[0]);"
            "return [...f.querySelectorAll(`rect[data-series='${arguments[1]}']`)].map((r) => [Number(r.dataset.bin), Number(r.dataset.count)])",
            figure, series)
        dense = np.zeros(64, np.int64)
        for i, n in counts:
            dense[i] = n
        return dense

    def assert_histogram(self, found, wanted):
        # An element at an edge may fall to either side.
        self.assertEqual(found.sum(), wanted.sum())
        self.assertLessEqual(np.abs(found - wanted).sum(), 4)

    def test_numbers_are_those_of_numpy(self):
        random = np.random.default_rng(5)
        small = random.normal(size=(120, 100)).astype(np.float32)
        large = random.normal(size=(700, 300)).astype(np.float32)
        self.open(self.report(self.file("numbers.safetensors", {"small": small, "large": large})), "#tensor=small")
        self.assert_histogram(self.bins("Histogram"), np.histogram(small.astype(float), 64)[0])
        for term, wanted in (("minimum", small.min()), ("maximum", small.max()), ("mean", small.mean(dtype=float)),
                             ("standard deviation", small.std(dtype=float)), ("norm", np.linalg.norm(small.astype(float)))):  # fmt: skip
            self.assertAlmostEqual(self.number(self.fact(term)), float(wanted), delta=abs(wanted) * 2e-6)
        cells = self.script("return [...document.querySelectorAll('figure tbody tr')].map((r) => [...r.children].map((c) => c.textContent))")
        self.assertEqual(len(cells), 11)
        for label, value in cells[1:-1]:
            self.assertAlmostEqual(self.number(value), np.quantile(small.astype(float), float(label.split()[0]) / 100), delta=1e-5)
        # Of a large tensor: the lattice that the page names.
        self.go("#tensor=large")
        note = self.text("figcaption .note")
        size = int(re.search(r"[\d,]+", note)[0].replace(",", ""))
        side = next(n for n in range(1, 700) if min(700, n) * min(300, n) == size)
        rows = np.arange(side) * 700 // side
        columns = np.arange(min(side, 300)) * 300 // min(side, 300)
        sample = large[np.ix_(rows, columns)].astype(float)
        self.assert_histogram(self.bins("Histogram"), np.histogram(sample, 64, (float(large.min()), float(large.max())))[0])

    def test_magnitudes_and_logarithmic_counts(self):
        values = np.float32([0, 1, 1.5, 2, -3, 0.25, 8, 1e-3])
        self.open(self.report(self.file("magnitudes.safetensors", {"w": values})), "#tensor=w")
        self.find("#histogram-magnitude").click()
        self.settle()
        found = self.bins("Histogram")
        exponents = np.floor(np.log2(np.abs(values[values != 0].astype(float)))).astype(int)
        wanted = np.bincount(exponents - exponents.min())
        self.assertEqual(found[: len(wanted)].tolist(), wanted.tolist())
        self.find("#histogram-log").click()
        self.settle()
        self.assertIn("elements (log)", self.text("figure"))

    def test_a_picture_of_any_two_axes(self):
        self.open(self.sick(), "#tensor=model.conv.weight")
        size = "return [document.querySelector('.heat').width, document.querySelector('.heat').height]"
        self.assertEqual(self.script(size), [8, 16])
        Select(self.find("#axis-down")).select_by_value("2")
        self.settle()
        self.assertEqual(self.script(size), [8, 3])
        self.script("const s = document.querySelector('#index-0'); s.value = 3; s.dispatchEvent(new Event('input'))")
        self.assert_quiet()


    def test_pictures_have_axes_and_say_their_numbers(self):
        values = np.arange(12, dtype=np.float32).reshape(3, 4)
        self.open(self.report(self.file("axes.safetensors", {"w": values})), "#tensor=w")
        labels = self.script("return [...document.querySelectorAll('.heatframe text')].map((e) => e.textContent)")
        self.assertTrue({"0", "1", "2", "3", "axis 0 ↓", "axis 1 →"} <= set(labels), labels)
        for row, column in ((0, 0), (2, 3), (1, 2)):
            self.script(
                "const c = document.querySelector('.heat'), b = c.getBoundingClientRect();"
                "c.dispatchEvent(new PointerEvent('pointermove', { clientX: b.left + b.width * (arguments[1] + 0.5) / 4, clientY: b.top + b.height * (arguments[0] + 0.5) / 3 }))",
                row, column)
            place, value = self.text(".about").split(": about ")
            self.assertEqual(place, f"[{row}, {column}]")
            self.assertAlmostEqual(float(value), values[row, column], delta=0.1)

    def test_singular_values_of_chosen_matrices(self):
        random = np.random.default_rng(9)
        tensors = {"a.w": random.normal(size=(40, 30)).astype(np.float32), "b.w": np.ones((3, 3), np.float32)}
        self.open(self.report(self.file("svd.safetensors", tensors), "--singular-values", "a.*"), "#tensor=a.w")
        wanted = np.linalg.svd(tensors["a.w"].astype(float), compute_uv=False)
        self.assertAlmostEqual(self.number(self.fact("largest")), wanted[0], delta=1e-5)
        self.assertAlmostEqual(self.number(self.fact("smallest")), wanted[-1], delta=1e-5)
        self.assertEqual(self.fact("above 10⁻⁶ of the largest"), "30 of 30")
        self.assertEqual(len(self.script("return [...document.querySelectorAll('figure')].find((e) => e.querySelector('.title').textContent === 'Singular values').querySelectorAll('circle')")), 30)
        self.go("#tensor=b.w")
        self.assertNotIn("Singular values", self.text())
        self.assert_quiet()


class Hostile(Page):
    def test_names_stay_text_in_every_field(self):
        tensors = {name: np.zeros((2, 2), np.float32) if i == 0 else np.float32([[1, np.nan], [3, i]]) for i, name in enumerate(files.HOSTILE_NAMES)}
        metadata = {name or "empty": name * 2 for name in files.HOSTILE_NAMES}
        path = self.file("<b>&amp;'x' .safetensors", tensors, metadata)
        page = self.report(path)
        other = self.file("hostile2.safetensors", {name: array + 1 for name, array in tensors.items()})
        difference = self.report(path, other)
        run = self.report("--run", path, other)
        views = ["#overview", "#health", "#tensors"] + ["#tensor=" + urllib.parse.quote(name, safe="") for name in files.HOSTILE_NAMES]
        for report, more in ((page, []), (difference, ["#changes"]), (run, ["#steps"])):
            self.open(report)
            for view in views + more:
                with self.subTest(view):
                    self.go(view)
                    self.assertIsNone(self.script("return window.hacked"))
                    self.assertEqual(self.script("return document.querySelectorAll('main script, main img, main svg[onload], main b').length"), 0)
                    self.assertEqual(self.script("return document.scripts.length"), 2)
        self.open(page, "#tensor=" + urllib.parse.quote(files.SCRIPT, safe=""))
        self.assertEqual(self.text("h1"), files.SCRIPT)
        self.go("#tensors")
        self.assertIn("\\u202eevil\\u202c.weight", self.names())
        self.assert_quiet()


class Changes(Page):
    @classmethod
    def pair(cls):
        before, after = files.model(), files.model()
        random = np.random.default_rng(3)
        for name in list(after):
            if after[name].ndim == 2 and "layers.2" in name:
                after[name] = after[name] + (random.normal(size=after[name].shape) * 0.01).astype(np.float32)
        after["model.layers.3.self_attn.v_proj.weight"] = after["model.layers.3.self_attn.v_proj.weight"] * np.float32(3)
        after["new"] = np.ones(3, np.float32)
        del after["step"]
        after["model.conv.weight"] = after["model.conv.weight"][:4]
        after["model.embed_tokens.weight"] = after["model.embed_tokens.weight"].astype(np.float64)
        return before, after

    def test_numbers_are_those_of_diff(self):
        before, after = self.pair()
        a, b = self.file("a.safetensors", before), self.file("b.safetensors", after)
        page = self.report(a, b)
        told = json.loads(subprocess.run([TOOL, "diff", "--cast", "--json", a, b], capture_output=True, text=True, check=False).stdout)
        self.open(page, "#changes")
        words = {"only in A": "removed", "only in B": "added", "shape": "shape", "values": "values"}
        kinds = [words[one["kind"]] for one in told["differences"]]
        tiles = dict(self.script("return [...document.querySelectorAll('.tiles.changes .tile')].map((t) => [t.querySelector('dt').textContent, t.querySelector('dd').textContent])"))
        self.assertEqual(tiles["changed"], str(kinds.count("values")))
        self.assertEqual((tiles["added"], tiles["removed"], tiles["other shape"]), ("1", "1", "1"))
        first = self.script("return document.querySelector('.ranking .name').parentNode.title")
        self.assertEqual(first, "model.layers.3.self_attn.v_proj.weight")
        for one in told["differences"]:
            if one["kind"] != "values":
                continue
            self.go("#tensor=" + one["name"])
            self.assertEqual(self.number(self.fact("elements that differ")), one["different"])
            self.assertAlmostEqual(self.number(self.fact("largest |a − b|")), one["max_absolute"], delta=one["max_absolute"] * 1e-6)
            self.assertAlmostEqual(self.number(self.fact("largest |a − b| / |b|")), one["max_relative"], delta=one["max_relative"] * 1e-6)
            x, y = before[one["name"]].astype(float), after[one["name"]].astype(float)
            self.assertAlmostEqual(self.number(self.fact("norm of b − a")), np.linalg.norm(y - x), delta=np.linalg.norm(y - x) * 1e-6)
            counts = self.script(
                "const f = [...document.querySelectorAll('figure')].find((e) => e.querySelector('.title').textContent === 'Both histograms');"
                "return [0, 1].map((k) => [...f.querySelectorAll(`rect[data-series='${k}']`)].reduce((sum, r) => sum + Number(r.dataset.count), 0))")
            self.assertEqual(counts, [x.size, y.size])
        self.assert_quiet()

    def test_another_dtype_is_a_change(self):
        before, after = self.pair()
        self.open(self.report(self.file("a.safetensors", before), self.file("b.safetensors", after)))
        # No click: the first view has what moved most.
        ranked = self.script("return [...document.querySelectorAll('.ranking a')].map((e) => e.title)")
        self.assertEqual(ranked[0], "model.layers.3.self_attn.v_proj.weight")
        self.assertIn("model.layers.3", ranked)
        self.go("#changes")
        self.assertIn("float32 [500, 64] → float64 [500, 64], the same values", self.text())
        self.go("#tensors?kind=dtype")
        self.assertEqual(self.names(), ["model.embed_tokens.weight"])
        self.assertIn("float32 → float64", self.text("table.tensors tbody"))
        self.go("#tensors?kind=equal")
        self.assertNotIn("model.embed_tokens.weight", self.names())
        self.go("#tensor=model.embed_tokens.weight")
        self.assertEqual(self.text(".subtitle .badge"), "other dtype")

    def test_rename(self):
        before, _ = self.pair()
        a = self.file("prefixed.safetensors", {"old." + name: array for name, array in before.items()})
        self.open(self.report(a, self.file("plain.safetensors", before), "--rename", "s/^old[.]//"), "#changes")
        self.assertIn("Nothing differs", self.text())

    def test_a_run_answers_which_layer_blew_up(self):
        tensors = files.model()
        os.makedirs(self.path("run"), exist_ok=True)
        for step in (100, 200, 300, 1000):
            if step == 300:
                tensors["model.layers.1.mlp.down_proj.weight"] = tensors["model.layers.1.mlp.down_proj.weight"] * np.float32(2)
            self.file(f"run/step-{step}.safetensors", {name: array + array.dtype.type(step / 1e7) for name, array in tensors.items()})
        self.open(self.report(self.path("run")))
        # No click: the first row of the first view.
        row = self.script("return [...document.querySelectorAll('.jumps tbody tr')].map((r) => r.innerText)[0]")
        self.assertIn("model.layers.1.mlp.down_proj.weight", row)
        self.assertIn("step 200 → step 300", row)
        self.assertIn("2 ×", row)
        self.go("#steps")
        self.assertIn("model.layers.1.mlp.down_proj.weight", self.text(".multiple figcaption"))
        self.assertEqual(len(self.all(".multiple:first-child circle")), 4)
        for metric in ("sizes", "changes", "largest", "bad"):
            Select(self.find("#steps-metric")).select_by_value(metric)
            self.settle()
            self.assertGreater(len(self.all(".multiple:first-child circle")), 2, metric)
        Select(self.find("#steps-metric")).select_by_value("sizes")
        self.settle()
        titles = self.script("return [...document.querySelectorAll('.multiple')].find((e) => e.innerText.includes('conv')).querySelector('circle title').textContent")
        self.assertEqual(titles, "step 100: 2.25 KiB")
        self.assertIn("less than 1 %", self.text(".jumps"))
        Select(self.find("#steps-from")).select_by_value("2")
        self.settle()
        self.assertEqual(len(self.all(".multiple:first-child circle")), 2)
        self.assert_quiet()
