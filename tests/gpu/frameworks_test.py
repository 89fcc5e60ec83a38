#!/usr/bin/env python3
"""The Python module with PyTorch, CuPy and JAX on a GPU: `pytest tests/gpu/frameworks_test.py`.

The tests are in the modules named *_cases.py. Those of a framework that is missing say so and are skipped, and all are
skipped without a GPU. frameworks_run.py runs them so that a crash of one test leaves the others.
"""

import sys

import gpu_arrays  # first: it sets what JAX reads when it is imported
import pytest

pytest.register_assert_rewrite("exchange_cases", "load_cases", "model_cases", "save_cases", "tensor_cases")

from exchange_cases import *  # noqa: E402, F403
from load_cases import *  # noqa: E402, F403
from model_cases import *  # noqa: E402, F403
from save_cases import *  # noqa: E402, F403
from tensor_cases import *  # noqa: E402, F403

pytestmark = pytest.mark.skipif(gpu_arrays.why_no_gpu() is not None, reason=str(gpu_arrays.why_no_gpu()))

if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", __file__, *sys.argv[1:]]))
