"""tc.report, and the tables that notebooks show of readers."""

import base64
import html
import json
import re
import zlib

import numpy as np
import pytest

import tensorcask as tc


def data_of(page):
    """What the script of the page reads."""
    return json.loads(zlib.decompress(base64.b64decode(re.search(r'id="data">([^<]*)<', page)[1])))


@pytest.fixture
def model(tmp_path):
    tc.save(tmp_path / "a.npz", {"w": np.float32([[1, 2], [3, 4]]), "<b>": np.zeros(3)})
    return tmp_path / "a.npz"


def test_one_file(model, tmp_path):
    report = tc.report(model)
    assert repr(report).startswith(f"<tensorcask.Report of {model}, ")
    data = data_of(report.html)
    assert data["kind"] == "file" and not data["live"]
    assert {row[0] for row in data["archives"][0]["tensors"]} == {"w", "<b>"}
    assert [row[0] for row in data_of(tc.report(model, names="w").html)["archives"][0]["tensors"]] == ["w"]
    tensors = data_of(tc.report(model, singular_values="w").html)["archives"][0]["tensors"]
    (singular,) = [row[11]["s"] for row in tensors if "s" in row[11]]
    assert singular["v"] == pytest.approx(np.linalg.svd(np.float32([[1, 2], [3, 4]]), compute_uv=False), rel=1e-6)
    report.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == report.html
    with pytest.raises(FileExistsError):
        report.save(tmp_path / "page.html")
    report.save(tmp_path / "page.html", overwrite=True)


def test_a_notebook_shows_the_page_in_a_frame_without_rights(model):
    text = tc.report(model)._repr_html_()
    frame = re.fullmatch(r'<iframe srcdoc="([^"]*)" sandbox="allow-scripts allow-modals" [^<>]*></iframe>', text)
    assert html.unescape(frame[1]) == tc.report(model).html


def test_two_files_and_runs(model, tmp_path):
    tc.save(tmp_path / "b.npz", {"w": np.float32([[1, 2], [3, 8]]), "<b>": np.zeros(3)})
    other = tmp_path / "b.npz"
    pairs = data_of(tc.report(model, other).html)["pairs"]
    assert sorted(pair[2] for pair in pairs) == ["equal", "values"]
    renamed = data_of(tc.report(model, other, rename={"w": "v"}).html)["pairs"]
    assert sorted(pair[2] for pair in renamed) == ["added", "equal", "removed"]
    assert len(data_of(tc.report(model, other, run=True).html)["run"]["steps"]) == 2
    assert len(data_of(tc.report(model, other, model).html)["run"]["steps"]) == 3
    assert data_of(tc.report(model.read_bytes()).html)["kind"] == "file"
    (tmp_path / "run").mkdir()
    for step in (10, 9):
        tc.save(tmp_path / f"run/ckpt-{step}", {"w": np.ones(step)})
    assert [step[0] for step in data_of(tc.report(tmp_path / "run").html)["run"]["steps"]] == ["step 9", "step 10"]


def test_errors(model, tmp_path):
    with pytest.raises(TypeError, match="at least one path"):
        tc.report()
    with pytest.raises(TypeError, match="formt"):
        tc.report(model, formt="npz")
    with pytest.raises(FileNotFoundError, match="nothing"):
        tc.report(tmp_path / "nothing.npz")


def test_the_table_of_a_reader(model):
    with tc.open(model) as reader:
        table = reader._repr_html_()
        assert "<td>float32</td><td>[2,2]</td>" in table
        assert "&lt;b&gt;" in table and "<b>&quot;" not in table and "<td>\"<b>" not in table
    assert "closed" in reader._repr_html_()
