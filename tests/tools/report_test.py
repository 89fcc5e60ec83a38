#!/usr/bin/env python3
"""`tensorcask report` and `tensorcask browse` without a browser: files, exit status, messages, requests.

tests/browser has what the page shows.
"""

import base64
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import urllib.parse
import zlib

sys.path[:0] = (os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in (".", "../support"))
import case_report  # noqa: E402
from tool_testing import TOOL, Archives, floats, read, run  # noqa: E402


def data_of(page):
    """What the script of the page reads."""
    packed = re.search(rb'id="data">([^<]*)<', page)[1]
    return json.loads(zlib.decompress(base64.b64decode(packed)))


class Report(Archives):
    def setUp(self):
        super().setUp()
        self.a = self.model("a", {"dense/bias": floats(1, 2), "dense/kernel": floats(1, 2, 3, 4, shape=[2, 2])})
        self.b = self.model("b", {"dense/bias": floats(1, 2), "dense/kernel": floats(1, 2, 3, 8, shape=[2, 2])})
        self.page = self.path("page.html")

    def data(self, *arguments):
        result = run("report", *arguments, "-o", self.page, "--overwrite")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("open it with a browser", result.stdout)
        return data_of(read(self.page))

    def test_a_file(self):
        data = self.data(self.a)
        self.assertEqual(data["kind"], "file")
        self.assertEqual([row[0] for row in data["archives"][0]["tensors"]], ["dense/bias", "dense/kernel"])
        chosen = self.data(self.a, "--include", "*kernel")
        self.assertEqual([row[0] for row in chosen["archives"][0]["tensors"]], ["dense/kernel"])

    def test_two_files_are_compared_or_a_run(self):
        data = self.data(self.a, self.b)
        self.assertEqual([pair[2:5] for pair in data["pairs"]], [["equal", 0, 0], ["values", 1, 4]])
        renamed = self.data(self.a, self.b, "--rename", "s/kernel/other/")
        self.assertEqual(sorted(pair[2] for pair in renamed["pairs"]), ["added", "equal", "removed"])
        self.assertEqual(self.data("--run", self.a, self.b)["run"]["steps"][1][0], "b")

    def test_a_folder_of_steps(self):
        os.mkdir(self.path("run"))
        for step in (20, 3, 100):
            self.model(f"run/ckpt-{step}", {"w": floats(step, 0)})
        run_data = self.data(self.path("run"))["run"]
        self.assertEqual([step[0] for step in run_data["steps"]], ["step 3", "step 20", "step 100"])
        self.assertEqual(run_data["tensors"][0][1], [3, 20, 100])

    def test_a_folder_of_folders_of_steps(self):
        for step in (500, 1000, 90):
            os.makedirs(self.path(f"trainer/checkpoint-{step}"))
            self.model(f"m{step}", {"w": floats(step, 0)})
            for name in ("model", "optimizer"):
                run("convert", self.path(f"m{step}"), self.path(f"trainer/checkpoint-{step}/{name}.safetensors"))
        os.mkdir(self.path("trainer/runs"))
        run_data = self.data(self.path("trainer"))["run"]
        self.assertEqual([step[0] for step in run_data["steps"]], ["step 90", "step 500", "step 1000"])
        self.assertEqual(run_data["tensors"][0][1], [90, 500, 1000])
        named = self.data("--run", *(self.path(f"trainer/checkpoint-{step}/model.safetensors") for step in (90, 500)))["run"]
        self.assertEqual([step[0] for step in named["steps"]], ["step 90", "step 500"])

    def test_singular_values(self):
        data = self.data(self.a, "--singular-values", "*kernel")
        values = data["archives"][0]["tensors"][1][11]["s"]
        self.assertEqual((values["n"], values["rank"]), (2, 2))
        self.assertAlmostEqual(values["v"][0], 5.464986, 6)
        self.assertAlmostEqual(values["v"][1], 0.3659662, 6)
        result = run("report", self.a, "-o", self.page, "--overwrite", "--singular-values", "none")
        self.assertEqual(result.returncode, 2)
        self.assertIn("none", result.stderr)

    def test_the_page_is_written_whole_or_not_at_all(self):
        self.data(self.a)
        before = read(self.page)
        result = run("report", self.b, "-o", self.page)
        self.assertEqual(result.returncode, 1)
        self.assertIn("exists already; --overwrite replaces it", result.stderr)
        self.assertEqual(read(self.page), before)
        self.assertEqual(data_of(run("report", self.a, "-o", "-").stdout.encode())["kind"], "file")

    def test_misuse(self):
        for arguments, says in (
            ([self.a], "--output"),
            ([self.a, "-o", self.folder], "is a folder"),
            ([self.a, "-o", self.page, "--include", "nothing"], "nothing"),
            ([self.a, "-o", self.page, "--rename", "a=b"], "--rename compares two files"),
            ([self.a, self.b, "--run", "-o", self.page, "--rename", "a=b"], "--rename compares two files"),
        ):
            result = run("report", *arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn(says, result.stderr)
            self.assertFalse(os.path.exists(self.page))
        self.assertEqual(run("report", self.path("missing"), "-o", self.page).returncode, 1)


class Browse(Archives):
    def setUp(self):
        super().setUp()
        path = self.model("m", {"w": floats(*range(6), shape=[2, 3])})
        self.server = subprocess.Popen([TOOL, "browse", "--no-open", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.server.communicate)
        self.addCleanup(self.server.kill)
        url = urllib.parse.urlsplit(self.server.stdout.readline().strip())
        self.port, self.token = url.port, urllib.parse.parse_qs(url.query)["token"][0]

    def ask(self, target, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        self.addCleanup(connection.close)
        connection.request("GET", target, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()

    def test_the_page_and_its_elements(self):
        status, page = self.ask("/?token=" + self.token)
        self.assertEqual(status, 200)
        self.assertTrue(data_of(page)["live"])
        self.assertIn(b"connect-src 'self'", page)
        status, values = self.ask(f"/values?token={self.token}&tensor=0&start=1,0&length=1,3")
        self.assertEqual((status, json.loads(values)), (200, ["3", "4", "5"]))
        self.assertEqual(len(json.loads(self.ask(f"/singular?token={self.token}&tensor=0")[1])), 2)

    def test_refuses_strangers(self):
        good = "/?token=" + self.token
        self.assertEqual(self.ask("/")[0], 403)
        self.assertEqual(self.ask("/?token=" + "0" * 32)[0], 403)
        self.assertEqual(self.ask(good, {"Host": "evil.example"})[0], 421)
        self.assertEqual(self.ask(good, {"Origin": "http://evil.example"})[0], 403)
        self.assertEqual(self.ask("/other?token=" + self.token)[0], 404)
        self.assertEqual(self.ask(f"/values?token={self.token}&tensor=0&start=0,0&length=3,3")[0], 400)
        self.assertEqual(self.ask(f"/values?token={self.token}&tensor=7&start=0&length=1")[0], 404)

    def test_ctrl_c_ends_it(self):
        self.server.send_signal(signal.SIGINT)
        self.assertEqual(self.server.wait(30), 0)


if __name__ == "__main__":
    case_report.main("report")
