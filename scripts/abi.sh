#!/usr/bin/env bash
# Compares an installed libtensorcask.so with a description of its interface: abi.sh PREFIX BASELINE [--write]
#
# The library must have debug information. --write: writes the description instead. `tools/dev abi` runs this.
set -euo pipefail
prefix="$1" baseline="$2" mode="${3:-}"
library="$prefix/lib/libtensorcask.so"
if [[ "$mode" == --write ]]; then
  abidw --no-show-locs --no-corpus-path --no-comp-dir-path --out-file "$baseline" "$(realpath "$library")"
  echo "$baseline: written"
  exit 0
fi
if [[ ! -e "$baseline" ]]; then
  echo "$baseline does not exist: a release writes it with tools/dev abi --write" >&2
  exit 1
fi
# abidiff's status has 4 for a changed type or function, 8 beside it for a removed symbol, 1 and 2 for errors.
status=0
abidiff --no-added-syms "$baseline" "$(realpath "$library")" || status=$?
if ((status & 3)); then exit 2; fi
if ((status != 0)); then
  echo "the interface differs: programs must be compiled again"
  exit 1
fi
echo "programs that were compiled against $baseline still run"
