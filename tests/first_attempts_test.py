#!/usr/bin/env python3
"""What people write first compiles, or the compiler's message says what to write instead.

    tests/first_attempts_test.py [--verbose]

Both lists are compiled as one file each, by the compiler and with the libraries of the system. A message belongs to the
attempt in whose line the error is, up to the next error.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the modules below lie in the source tree
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, folder) for folder in ("docs", "support")]
import case_report  # noqa: E402
import source_tree  # noqa: E402

HEADERS = """
    tensor/base/status_macros.h tensor/compat/resizable.h tensor/memory/caching_options.h
    tensor/memory/host_caching_allocator.h tensor/memory/memory_observer.h tensor/partial_shape.h tensor/tensor.h
    tensor/strided/accessor.h tensor/strided/compare.h tensor/strided/convert.h tensor/strided/copy.h
    tensor/strided/view.h tensor/strided/view_chain.h
""".split()

# `a` and `b` are tensors, `view` is a view, `allocator` an allocator, `n` an int.
COMPILE = [
    "(void)Tensor::Create(DType::kFloat32, {2, 3});",
    "(void)Tensor::Create(DType::kFloat32, {n, 2});",
    "(void)Tensor::Create(DType::kFloat32, {});",
    "(void)Tensor::Create(DType::kFloat32, {2, 3}, allocator);",
    "(void)Tensor::Zeros(DType::kHalf, {2, 3});",
    "(void)a.Reshape({2, 1});",
    "(void)Copy(a, &b);",
    "(void)Fill(0.5F, &b);",
    "(void)Convert(a, &b);",
    "(void)PackedAccessor<float, 2>::Create(a);",
    "absl::StatusOr<TensorView> crop = ViewChain(a).Narrow(0, 1, 2).Flip({1}).Permute({2, 0, 1}).Unsqueeze(0)"
    ".ConvertTo(DType::kBFloat16);",
    "absl::StatusOr<Tensor> dense = ViewChain(view).Transpose(0, 1).Slice(0, 0, 1).ToTensor();",
    "(void)Tensor::FromValues<float>({{1, 2}, {3, 4}}, allocator);",
    "(void)Tensor::FromSpan(TensorShape({2}), std::vector<float>{1, 2}, allocator);",
    "(void)Tensor::Scalar(5.0F, allocator);",
    "(void)a.flat<long long>();",
    "a.mutable_flat<float>()(0) = 1;",
    "PartialTensorShape shape({2, -1}); (void)shape.AddDim(3); (void)shape.SetDim(1, 4); (void)shape.InsertDim(0, 2);"
    " (void)shape.RemoveDim(0); (void)shape.AppendShape(PartialTensorShape({3}));",
    "ResizableTensor growing; (void)growing.ResizeAndKeep({2, 3});",
    "(void)MemoryEvent().total_reserved;",
    "(void)view.SetDim(0, 1); (void)view.SetStride(0, 1);",
    "std::cout << a << view << a.shape() << a.dtype();",
]

# An attempt, and what its message has.
REFUSED = [
    ("Tensor made(DType::kFloat32, TensorShape({2}));", "Tensor::Create(dtype, shape)"),
    ("Tensor made(DType::kFloat32, {2, 3});", "Tensor::Create(dtype, {2, 3})"),
    ("(void)Accessor<float, 2>::Create(a);", "PackedAccessor"),
    ("a.Transpose(0, 1);", "TensorView(t).Transpose(0, 1)"),
    ("a.Permute({1, 0});", "TensorView(t).Permute({1, 0})"),
    ("(void)(a == b);", "Equal(a, b)"),
    ("(void)(a != b);", "!Equal(a, b)"),
    ("a[0];", "SubSlice(index)"),
    ("n = a.dims();", "rank()"),
    ("a.flat<float>()(0) = 1;", "mutable_flat|read-only"),
]

BEGIN = """
void Attempt{number}([[maybe_unused]] tensorcask::Tensor a, [[maybe_unused]] tensorcask::Tensor b,
                     [[maybe_unused]] tensorcask::TensorView view, [[maybe_unused]] int n,
                     [[maybe_unused]] const tensorcask::RefPtr<tensorcask::Allocator>& allocator) {{
  using namespace tensorcask;
#line {number} "attempt"
  {text}
}}
"""


def messages(attempts):
    """Number of an attempt -> the messages of the compiler for it; 0: those outside of all attempts."""
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(source_tree.root(), os.path.join(folder, "tensorcask"))
        text = "".join(f'#include "tensorcask/{header}"\n' for header in HEADERS)
        text += "#include <iostream>\n#include <vector>\n"
        text += "".join(BEGIN.format(number=number, text=text_) for number, text_ in enumerate(attempts, 1))
        command = ["c++", "-std=c++17", "-fsyntax-only", "-I", folder, "-x", "c++", "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True)
    found = {}
    number = 0
    for line in done.stderr.splitlines():
        place = re.match(r"attempt:(\d+):\d+: error: |attempt: In function .*Attempt(\d+)\(", line)
        if place:
            number = int(place[1] or place[2])
        found[number] = found.get(number, "") + line + "\n"
    return {number: text for number, text in found.items() if "error: " in text}


class FirstAttempts(unittest.TestCase):
    def test_compile(self):
        found = messages(COMPILE)
        for number, text in enumerate(["the headers", *COMPILE]):
            with self.subTest(text):
                self.assertEqual(found.get(number, "")[:1000], "")

    def test_are_refused_with_what_to_write(self):
        found = messages([text for text, _ in REFUSED])
        self.assertEqual(sorted(found), list(range(1, len(REFUSED) + 1)))
        for number, (text, says) in enumerate(REFUSED, 1):
            with self.subTest(text):
                self.assertTrue(any(part in found[number] for part in says.split("|")), found[number][:1000])


if __name__ == "__main__":
    case_report.main("first_attempts")
