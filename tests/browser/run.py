#!/usr/bin/env python3
"""The page of `tensorcask report` and the server of `tensorcask browse`, in Chromium: `tools/dev browser`.

    tests/browser/run.py [--axe axe.min.js] [--pictures FOLDER] [-k NAME]

TENSORCASK names the program. With --pictures it also writes the pictures of the guide. Without --axe the rules of
accessibility are not checked. The last line counts the tests.
"""

import argparse
import base64
import concurrent.futures
import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import types
import unittest
import unittest.mock
import urllib.parse

import numpy as np
from selenium.webdriver.support.ui import Select

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import files  # noqa: E402
import page_views  # noqa: E402
from page_testing import NARROW, OPTIONS, TOOL, WIDE, Page  # noqa: E402


class Looks(Page):
    def views(self):
        before, after = page_views.Changes.pair()
        changes = self.report(self.file("a.safetensors", before), self.file("b.safetensors", after))
        self.file("r-1.safetensors", before)
        self.file("r-2.safetensors", {**before, "model.conv.weight": before["model.conv.weight"] * 2})
        run = self.report("--run", self.path("r-1.safetensors"), self.path("r-2.safetensors"))
        tensor = "#tensor=model.layers.1.mlp.up_proj.weight"
        return [(self.sick(), view) for view in ("#overview", "#health", "#tensors", tensor)] + [
            (changes, "#overview"), (changes, "#changes"), (changes, "#tensors"), (changes, "#tensor=model.layers.3.self_attn.v_proj.weight"), (run, "#steps"), (run, "#overview"),
            (run, "#tensor=model.conv.weight"), (self.report(self.file("empty.safetensors", {})), "#overview"),
            (self.report(self.path("model.safetensors"), "--singular-values", "*q_proj*"), "#tensor=model.layers.1.self_attn.q_proj.weight")]  # fmt: skip

    def test_accessibility(self):
        if OPTIONS.axe is None:
            self.skipTest("without axe-core")
        with open(OPTIONS.axe, encoding="utf-8") as file:
            axe = file.read()
        for dark in (False, True):
            for size in (WIDE, NARROW):
                self.look(*size, dark)
                for page, view in self.views():
                    with self.subTest(view, dark=dark, width=size[0]):
                        self.open(page, view)
                        self.script(axe)
                        result = self.browser.execute_async_script("const done = arguments[0]; axe.run().then((r) => done(r.violations.map((v) => [v.id, v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + ' ' + n.failureSummary)])))")
                        self.assertEqual(result, [])

    def test_nothing_is_wider_than_the_screen(self):
        for size in (WIDE, NARROW, (320, 640)):
            self.look(*size)
            for page, view in self.views():
                with self.subTest(view, width=size[0]):
                    self.open(page, view)
                    self.assertNotRegex(self.text(), r"\[object|undefined")
                    self.assertLessEqual(self.script("return document.documentElement.scrollWidth"), size[0])

    def test_print(self):
        for page, view in self.views():
            with self.subTest(view):
                self.open(page, view)
                pdf = base64.b64decode(self.browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
                self.assertTrue(pdf.startswith(b"%PDF"))
        self.assert_quiet()

    def take_pictures(self):
        self.file("model.safetensors", files.sick_model(), {"format": "pt"})
        page = self.path("picture.html")
        subprocess.run([TOOL, "report", "model.safetensors", "-o", page], cwd=self.folder.name, check=True, capture_output=True)
        for name, view, height in (("report_overview", "", 780), ("report_tensor", "#tensor=model.layers.1.mlp.up_proj.weight", 560)):
            self.look(1000, height)
            self.open(page, view)
            self.browser.save_screenshot(os.path.join(OPTIONS.pictures, name + ".png"))


class Notebook(Page):
    """The frame in which a notebook shows `tensorcask.report`, without the module of C++."""

    def test_the_page_works_in_its_frame(self):
        native = types.ModuleType("tensorcask._native")
        package = types.ModuleType("tensorcask")
        package._native = native
        with open(os.path.join(os.path.dirname(__file__), "../../python/tensorcask/_report.py"), encoding="utf-8") as file:
            code = compile(file.read(), file.name, "exec")
        module = {"__name__": "tensorcask._report"}
        with unittest.mock.patch.dict(sys.modules, {"tensorcask": package, "tensorcask._native": native}):
            exec(code, module)  # pylint: disable=exec-used
        with open(self.sick(), encoding="utf-8") as file:
            frame = module["Report"](file.read(), ["m"])._repr_html_()
        notebook = self.path("notebook.html")
        self.reports["notebook"] = notebook
        with open(notebook, "w", encoding="utf-8") as file:
            file.write("<!DOCTYPE html><title>notebook</title><h1>Cell</h1>" + frame + "<p>below</p>")
        self.browser.get("file://" + urllib.parse.quote(notebook))
        self.browser.switch_to.frame(0)
        end = time.monotonic() + 30
        while self.script("return document.documentElement.dataset.ready") is None:
            self.assertLess(time.monotonic(), end, "the page does not open")
            time.sleep(0.02)
        self.find("#views a[data-view=tensors]").click()
        self.settle()
        self.find("#search").send_keys("k_proj")
        self.assertEqual(len(self.names()), 4)
        self.find("table.tensors tbody a").click()
        self.settle()
        self.assertEqual(self.text("h1"), "model.layers.0.self_attn.k_proj.weight")
        self.assertGreater(len(self.all("svg rect[data-count]")), 10)
        self.find("a[rel=next]").click()
        self.settle()
        self.assertEqual(self.text("h1"), "model.layers.1.self_attn.k_proj.weight")
        self.find(".toolbar a").click()
        self.settle()
        next(button for button in self.all(".toolbar button") if button.text == "Copy CSV").click()
        self.assertIn("Copied 4 rows", self.text("#status"))
        # The page may not reach into the notebook.
        self.assertIn("SecurityError", self.script("try { return String(parent.document.title); } catch (error) { return error.name; }"))
        self.browser.switch_to.default_content()
        self.assertEqual(self.browser.current_url.split("#")[0], "file://" + urllib.parse.quote(notebook))
        self.assertEqual(self.text("h1"), "Cell")
        self.assert_quiet()


class Browse(Page):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tensors = files.model()
        cls.server = subprocess.Popen([TOOL, "browse", "--no-open", cls.file("model.safetensors", cls.tensors)], stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, text=True)  # fmt: skip
        cls.url = cls.server.stdout.readline().strip()
        parts = urllib.parse.urlsplit(cls.url)
        cls.port, cls.token = parts.port, urllib.parse.parse_qs(parts.query)["token"][0]

    @classmethod
    def tearDownClass(cls):
        cls.server.stdout.close()
        cls.server.terminate()
        cls.server.wait(10)
        super().tearDownClass()

    def ask(self, target, method="GET", headers=None, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, target, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def test_elements_and_singular_values(self):
        name = "model.layers.1.mlp.up_proj.weight"
        self.open(self.url, "#tensor=" + name)
        end = time.monotonic() + 10
        while not self.all("table.elements tbody td") and time.monotonic() < end:
            time.sleep(0.05)
        shown = self.script("return [...document.querySelectorAll('table.elements tbody td')].map((e) => Number(e.textContent))")
        np.testing.assert_allclose(shown, self.tensors[name][:16, :8].ravel(), rtol=1e-6)
        next(button for button in self.all("main button") if button.get_attribute("aria-label") == "Rows after").click()
        time.sleep(0.3)
        shown = self.script("return [...document.querySelectorAll('table.elements tbody td')].map((e) => Number(e.textContent))")
        np.testing.assert_allclose(shown, self.tensors[name][16:32, :8].ravel(), rtol=1e-6)
        answer = self.ask(f"/singular?token={self.token}&tensor={list(self.tensors).index(name)}")
        np.testing.assert_allclose(json.loads(answer[1]), np.linalg.svd(self.tensors[name].astype(float), compute_uv=False), rtol=1e-7)
        self.assertEqual([entry["message"] for entry in self.logs("browser")], [])

    def test_elements_of_any_two_axes(self):
        conv = "model.conv.weight"
        self.open(self.url, "#tensor=" + conv)
        values = self.tensors[conv].astype(float)

        def shown(rows):
            end = time.monotonic() + 10
            while time.monotonic() < end:
                cells = self.script("return [...document.querySelectorAll('table.elements tbody tr')].map((r) => [...r.querySelectorAll('td')].map((e) => Number(e.textContent)))")
                if len(cells) == rows:
                    return np.array(cells)
                time.sleep(0.05)
            return self.fail("the elements do not come")

        np.testing.assert_allclose(shown(3), values[0, 0], rtol=1e-3)
        Select(self.find("#elements-down")).select_by_value("0")
        np.testing.assert_allclose(shown(16), values[:, 0, 0, :], rtol=1e-3)
        Select(self.find("#elements-down")).select_by_value("3")  # the axes change places
        np.testing.assert_allclose(shown(3), values[:8, 0, 0, :].T, rtol=1e-3)
        self.script("const e = document.querySelector('#at-1'); e.value = '5'; e.dispatchEvent(new Event('change'))")
        time.sleep(0.3)
        np.testing.assert_allclose(shown(3), values[:8, 5, 0, :].T, rtol=1e-3)
        norm = "model.layers.1.input_layernorm.weight"
        self.go("#tensor=" + norm)
        np.testing.assert_allclose(shown(8).ravel(), self.tensors[norm], rtol=1e-6)
        self.go("#tensor=step")
        np.testing.assert_allclose(shown(1), [[100]])
        self.assertEqual([entry["message"] for entry in self.logs("browser")], [])

    def test_refuses_what_is_not_of_this_page(self):
        good = f"/?token={self.token}"
        self.assertEqual(self.ask(good)[0], 200)
        self.assertEqual(self.ask(good, headers={"Host": f"localhost:{self.port}"})[0], 200)
        self.assertEqual(self.ask(good, headers={"Origin": f"http://127.0.0.1:{self.port}"})[0], 200)
        for target in ("/", "/?token=", "/?token=" + "0" * 32, "/?token=" + self.token[:-1], f"/values?tensor=0&start=0&length=1&token={self.token}0"):
            self.assertEqual(self.ask(target)[0], 403, target)
        for host in ("evil.example", f"evil.example:{self.port}", "127.0.0.1", f"127.0.0.1:{self.port}.evil.example", ""):
            self.assertEqual(self.ask(good, headers={"Host": host})[0], 421, host)
        for origin in ("http://evil.example", "null", f"https://127.0.0.1:{self.port}"):
            self.assertEqual(self.ask(good, headers={"Origin": origin})[0], 403, origin)
        navigation = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        self.assertEqual(self.ask(good, headers=navigation)[0], 200)
        self.assertEqual(self.ask("/", headers=navigation)[0], 403)
        for target, dropped in ((good, "Sec-Fetch-Mode"), (good, "Sec-Fetch-Dest"), (f"/values?tensor=0&start=0&length=1&token={self.token}", "")):
            headers = {name: value for name, value in navigation.items() if name != dropped}
            self.assertEqual(self.ask(target, headers=headers)[0], 403, (target, dropped))
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            self.assertGreaterEqual(self.ask(good, method)[0], 400, method)

    def test_refuses_other_paths_and_slices(self):
        token = "&token=" + self.token
        for path in ("/etc/passwd", "/../../etc/passwd", "/%2e%2e/x", "//x", "/values/", "/index.html"):
            self.assertEqual(self.ask(f"{path}?x=1{token}")[0], 404, path)
        for query, code in (("tensor=0&start=0,0&length=1,1", 200), ("tensor=999&start=0&length=1", 404), ("start=0&length=1", 400),
                            ("tensor=0&start=0,0&length=100,100", 400), ("tensor=0&start=-1,0&length=1,1", 400), ("tensor=0&start=499,0&length=2,1", 400),
                            ("tensor=0&start=0&length=1", 400), ("tensor=0&start=9223372036854775807,0&length=9223372036854775807,1", 400),
                            ("tensor=0&start=x,0&length=1,1", 400), ("tensor=0&start=0,0&length=0,1", 400)):  # fmt: skip
            self.assertEqual(self.ask(f"/values?{query}{token}")[0], code, query)
        self.assertEqual(self.ask(f"/singular?tensor=0{token}")[0], 200)
        self.assertIn(self.ask("/?x=" + "a" * 100000)[0], (400, 414))

    def test_10000_connections(self):
        def one(_):
            return self.ask(f"/values?token={self.token}&tensor=1&start=0&length=1")[0] in (200, 400)

        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            self.assertTrue(all(pool.map(one, range(10000))))
        # More idle connections than the server has descriptors: it answers when they are gone.
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
        idle = []
        try:
            for _ in range(1500):
                idle.append(socket.create_connection(("127.0.0.1", self.port), timeout=5))
        except OSError:
            pass  # the queue of the listener is full
        for connection in idle:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        self.assertGreater(len(idle), 900)
        self.assertEqual(self.ask(f"/?token={self.token}")[0], 200)

    def test_the_browser_of_the_user_gets_to_the_page(self):
        with open(self.path("xdg-open"), "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\necho "$1" > "$OPENED.new"; mv "$OPENED.new" "$OPENED"\n')
        os.chmod(self.path("xdg-open"), 0o700)
        environment = dict(os.environ, DISPLAY=":0", OPENED=self.path("opened"), PATH=self.folder.name + ":" + os.environ["PATH"])
        with subprocess.Popen([TOOL, "browse", self.path("model.safetensors")], env=environment, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as server:  # fmt: skip
            try:
                end = time.monotonic() + 10
                while not os.path.exists(self.path("opened")):
                    self.assertLess(time.monotonic(), end, "no browser is started")
                    time.sleep(0.05)
                with open(self.path("opened"), encoding="utf-8") as file:
                    self.browser.get("file://" + urllib.parse.quote(file.read().strip()))
                while not self.browser.current_url.startswith("http://127.0.0.1:"):
                    self.assertLess(time.monotonic(), end, "the file does not lead to the page")
                    time.sleep(0.05)
                while self.script("return document.documentElement.dataset.ready") is None:
                    self.assertLess(time.monotonic(), end, self.text("body"))
                    time.sleep(0.05)
            finally:
                server.terminate()

    def test_ctrl_c_ends_it(self):
        server = subprocess.Popen([TOOL, "browse", "--no-open", self.path("model.safetensors")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        server.stdout.readline()
        server.send_signal(signal.SIGINT)
        self.assertEqual(server.wait(10), 0)
        server.stdout.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--axe")
    parser.add_argument("--pictures")
    parser.add_argument("-k", action="append")
    parser.parse_args(namespace=OPTIONS)
    loader = unittest.TestLoader()
    if OPTIONS.k:
        loader.testNamePatterns = [f"*{one}*" for one in OPTIONS.k]
    tests = unittest.TestSuite(loader.loadTestsFromModule(module) for module in (page_views, sys.modules[__name__]))
    if OPTIONS.pictures:
        tests.addTest(Looks("take_pictures"))
    result = unittest.TextTestRunner(sys.stderr, verbosity=1).run(tests)
    failed = len({str(test).split(" (")[0] + str(type(test)) for test, _ in result.failures + result.errors})
    skipped = len(result.skipped)
    print(f"Browser: {result.testsRun - failed - skipped} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
