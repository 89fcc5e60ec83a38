#!/usr/bin/env bash
# Makes wheels of the Python module, and tests them: wheel.sh [--untested] WORK [PYTHON...]
#
# Each PYTHON (default: python3) gets the wheel for its version: one for 3.11, and one with the stable ABI for 3.12 and
# later. `auditwheel repair` copies the libraries of Debian that the wheel needs into it; the results are in WORK/dist.
# Each PYTHON then tests its wheel in a fresh virtual environment, but not with --untested. `tools/dev wheel` and
# scripts/gpu_bundle.sh run this.
set -euo pipefail
tested=yes
if [[ "$1" == --untested ]]; then tested=no && shift; fi
work="$(realpath -m "$1")"
shift
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
(($#)) || set -- python3
pip=(-m pip --quiet --no-input --disable-pip-version-check --retries 1 --timeout 30)
status=0

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }

tag_of() {
  case "$(version_of "$1")" in
    3.11) echo cp311-cp311 ;;
    *) echo cp312-abi3 ;;
  esac
}

# auditwheel expects libexpat of each system, and leaves it there. A container may lack it if its Python brings its own.
bring_libexpat() {
  "$1" - <<'END'
import json
import pathlib

import auditwheel.policy

for path in pathlib.Path(auditwheel.policy.__file__).parent.glob("*-policy.json"):
    policies = json.loads(path.read_text())
    for policy in policies:
        policy["lib_whitelist"] = [name for name in policy["lib_whitelist"] if name != "libexpat.so.1"]
    path.write_text(json.dumps(policies))
END
}

# make PYTHON TAG: a wheel in WORK/dist.
make() {
  local environment="$work/make-$2"
  [[ -x "$environment/bin/python" ]] || "$1" -m venv "$environment"
  "$environment/bin/python" "${pip[@]}" install -r tests/python/requirements-wheel.txt
  bring_libexpat "$environment/bin/python"
  rm -rf "$work/made-$2"
  "$environment/bin/python" "${pip[@]}" wheel --no-build-isolation --no-deps \
    --config-settings build-dir="$work/build-$2" -w "$work/made-$2" ./python
  PATH="$environment/bin:$PATH" auditwheel repair --wheel-dir "$work/dist" "$work/made-$2"/*.whl
}

# check PYTHON TAG: the tests, with nothing but the wheel and the packages of the tests.
check() {
  local environment="$work/test-$(version_of "$1")"
  rm -rf "$environment"
  "$1" -m venv "$environment" || return
  "$environment/bin/python" "${pip[@]}" install -r tests/python/requirements.txt \
    "$work"/dist/tensorcask-*-"$2"-*.whl || return
  "$environment/bin/python" tests/python/check_wheel.py && "$environment/bin/python" tests/python/run.py
}

mkdir -p "$work"
rm -rf "$work/dist"
made=""
for python in "$@"; do
  tag="$(tag_of "$python")"
  if [[ " $made " != *" $tag "* ]]; then
    make "$python" "$tag" >&2
    made+=" $tag"
  fi
  echo "$python: Python $(version_of "$python"), $(basename "$work"/dist/tensorcask-*-"$tag"-*.whl)"
  [[ "$tested" == no ]] || check "$python" "$tag" || status=1
done
exit "$status"
