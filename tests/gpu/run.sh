#!/usr/bin/env bash
# Runs the tests and benchmarks of a GPU from the bundle of `tools/dev gpu`: run.sh [ARGUMENT OF run.py...]
set -euo pipefail
here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
script="$here/tests/gpu/run.py" # in the bundle
[[ -e "$script" ]] || script="$here/run.py"
python="$(command -v python3.12 || command -v python3)" || { echo "run.sh: no python3 here" >&2 && exit 1; }
"$python" -c '' 2>/dev/null || python=python3
exec "$python" -B "$script" "$@"
