"""Damaged and hostile files give exceptions of the package, never a crash."""

import os
import pathlib
import random
import re

import numpy as np
import pytest

import tensorcask as tc
from conftest import FORMATS

DATA = os.environ.get("TENSORCASK_TEST_DATA")
TREE = pathlib.Path(__file__).resolve().parent.parent.parent
CORPUS = TREE / "tests" / "fuzz" / "corpus"
# What `format` takes: the first table of the page.
PAGE = (TREE / "docs" / "formats.md").read_text(encoding="utf-8").partition("of the tool alone")[0]
NAMES = re.findall(r"^\| ([a-z]\S*) \|", PAGE, re.MULTILINE)


def test_the_page_has_the_formats_of_the_library():
    with pytest.raises(ValueError, match="is not one of " + ", ".join(NAMES) + "$"):
        tc.open("m", format="none")


def use(path, format=None):
    """Everything that reads. True if all of it works."""
    try:
        with tc.open(path, format=format) as reader:
            for name in reader:
                entry = reader.entry(name)
                if entry.nbytes > 1 << 28:
                    continue
                repr(entry), repr(reader[name])
                if entry.shape and entry.shape[0] > 0:
                    reader.slice(name)[-1]
                reader.read(name, mmap=True, tensor=True)
            reader.metadata, reader.notes
        tc.verify(path, format=format), tc.stats(path), tc.diff(path, path)
        return True
    except tc.Error as error:
        assert str(error) and len(str(error)) < 5000
        return False


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_damage(tmp_path, format):
    source = tmp_path / ("m" + FORMATS[format])
    tensors = {"w": np.arange(12.0).reshape(3, 4), "n": np.int8(3), "e": np.zeros((0, 2)), "b": np.ones(3, bool)}
    if format in ("checkpoint", "records"):
        tensors["s"] = np.array([b"one", b"two"], object)
    tc.save(source, tensors, format=format, **({"metadata": {"a": "b"}} if format == "safetensors" else {}))
    assert use(source)
    files = [source] if source.exists() else [tmp_path / "m.index", tmp_path / "m.data-00000-of-00001"]
    rng = random.Random(5)
    outcomes = set()
    for file in files:
        whole = file.read_bytes()
        cuts = sorted(rng.sample(range(len(whole)), min(60, len(whole))))
        for at in cuts:
            file.write_bytes(whole[:at])
            outcomes.add(use(source))
        for _ in range(250):
            damaged = bytearray(whole)
            for _ in range(rng.choice([1, 1, 3])):
                damaged[rng.randrange(len(whole))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
            file.write_bytes(damaged)
            outcomes.add(use(source))
        file.write_bytes(whole)
    assert outcomes >= {False} and use(source)


@pytest.mark.parametrize("target", sorted(folder.name for folder in CORPUS.iterdir()))
def test_inputs_of_the_fuzz_targets(tmp_path, target):
    rng = random.Random(7)
    for source in sorted((CORPUS / target).iterdir()):
        content = source.read_bytes()
        inputs = [content, content[: len(content) // 2]]
        if content:
            damaged = bytearray(content)
            damaged[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            inputs.append(bytes(damaged))
        for number, one in enumerate(inputs):
            path = tmp_path / f"{source.name}-{number}"
            path.write_bytes(one)
            for format in [None, *NAMES]:
                use(path, format)


def files_of_others():
    """Programs wrote them, or people who wanted to break programs: PyTorch's pickles, ONNX and GGUF, too."""
    if DATA is None:
        return []
    return [path for path in sorted(pathlib.Path(DATA).rglob("*")) if path.is_file() and path.stat().st_size < 8 << 20]


@pytest.mark.parametrize("path", files_of_others(), ids=lambda path: str(path.relative_to(DATA)))
def test_files_of_others(path):
    use(path)


def test_what_is_no_file_of_tensors(tmp_path):
    for name, content in {"empty": b"", "text": b"hello\n" * 99, "pickle": b"\x80\x04K\x01.", "zeros": bytes(5000)}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError) as caught:
            tc.open(tmp_path / name)
        assert isinstance(caught.value, tc.Error)
    os.mkfifo(tmp_path / "pipe")
    for path in [tmp_path, tmp_path / "pipe", "/dev/zero", "", "x" * 300, "/proc/self/mem"]:
        with pytest.raises(tc.Error):
            tc.open(path)
