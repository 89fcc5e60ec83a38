#!/usr/bin/env bash
# Runs the tests and benchmarks of a GPU from the bundle of `tools/dev gpu`: run.sh [ARGUMENT OF run.py...]
set -euo pipefail
here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
script="$here/tests/gpu/run.py" # in the bundle
[[ -e "$script" ]] || script="$here/run.py"
# The Python that has PyTorch, else any.
has_torch='import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)'
for python in python3 python3.12 python ""; do
  "${python:-false}" -c "$has_torch" 2>/dev/null && break
done
exec "${python:-python3}" -B "$script" "$@"
