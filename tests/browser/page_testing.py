"""What the tests of the page share: Chromium, the reports that they open, and questions to the page."""

import argparse
import json
import os
import subprocess
import tempfile
import time
import unittest
import urllib.parse

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

import files

TOOL = os.path.abspath(os.environ.get("TENSORCASK", "bazel-bin/tools/tensorcask"))
OPTIONS = argparse.Namespace(axe=None, pictures=None)
WIDE, NARROW = (1280, 860), (390, 844)


def start_browser():
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--disable-component-update", "--no-first-run", "--disable-background-networking"):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)


class Page(unittest.TestCase):
    """One browser and one folder for all tests."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tensorcask-browser-")
        cls.browser = start_browser()
        cls.reports = {}
        cls.look(*WIDE)

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()
        cls.folder.cleanup()

    @classmethod
    def look(cls, width, height, dark=False):
        cls.browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        theme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        cls.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": theme})

    def setUp(self):
        self.look(*WIDE)
        self.browser.get("about:blank")
        self.logs("browser")
        self.logs("performance")

    def logs(self, kind):
        return self.browser.get_log(kind)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def file(cls, name, tensors, metadata=None):
        return files.write(cls.path(name), tensors, metadata)

    @classmethod
    def report(cls, *arguments):
        """The path of a report, made once."""
        if arguments not in cls.reports:
            page = cls.path(f"page-{len(cls.reports)}.html")
            subprocess.run([TOOL, "report", *arguments, "-o", page], check=True, capture_output=True, timeout=60)
            cls.reports[arguments] = page
        return cls.reports[arguments]

    def open(self, page, fragment=""):
        self.browser.get("about:blank")
        self.browser.get((page if "://" in page else "file://" + urllib.parse.quote(page)) + fragment)
        end = time.monotonic() + 30
        while self.script("return document.documentElement.dataset.ready") is None:
            self.assertLess(time.monotonic(), end, "the page does not open")
            time.sleep(0.02)
        self.settle()

    def settle(self):
        """Waits for two frames: charts are drawn when their size is known."""
        self.browser.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 30)));")

    def go(self, fragment):
        self.script("location.hash = arguments[0]", fragment)
        self.settle()

    def script(self, text, *arguments):
        return self.browser.execute_script(text, *arguments)

    def find(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector="main"):
        return self.script("return document.querySelector(arguments[0]).innerText", selector)

    def names(self):
        return self.script("return [...document.querySelectorAll('table.tensors tbody .name')].map((e) => e.textContent)")

    def fact(self, term):
        return self.script(
            "return [...document.querySelectorAll('.facts > div')].filter((e) => e.firstChild.textContent === arguments[0])"
            ".map((e) => e.lastChild.textContent)[0]", term)

    def number(self, text):
        return float(text.split(" ")[0].replace("\u2212", "-").replace(",", ""))

    def assert_quiet(self):
        """No message in the console, and no request but those for the page."""
        self.assertEqual([entry["message"] for entry in self.logs("browser")], [])
        urls = set()
        for entry in self.logs("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                urls.add(message["params"]["request"]["url"].split("#")[0])
        self.assertEqual({url for url in urls if not url.startswith(("file:///", "data:", "about:"))}, set())
        ours = {"file://" + urllib.parse.quote(page) for page in self.reports.values()}
        self.assertEqual({url for url in urls if url.startswith("file:")} - ours, set())

    def sick(self):
        return self.report(self.file("model.safetensors", files.sick_model(), {"format": "pt", "author": "Somebody"}))
