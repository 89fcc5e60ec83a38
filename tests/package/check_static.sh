#!/usr/bin/env bash
# Checks the program that `tools/dev static` makes: check_static.sh PROGRAM
#
# It needs no file of the system: as root, it runs in a folder that has nothing else, as it would on any Linux.
set -euo pipefail
program="$(realpath "$1")"
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/checks.sh"

check_file() {
  if readelf -lW "$program" | grep -q INTERP; then fail "needs an interpreter"; fi
  if readelf -dW "$program" | grep -q NEEDED; then fail "needs a shared library"; fi
  pass "needs no shared library"
  # The oldest kernel that its C library works with: 3.2 is of 2012.
  local kernel
  kernel="$(readelf -nW "$program" | sed -n 's/.*OS: Linux, ABI: //p')"
  [[ -n "$kernel" && "$(printf '%s\n4.0.0\n' "$kernel" | sort -V | head -n 1)" == "$kernel" ]] ||
    fail "needs Linux $kernel"
  pass "works with Linux $kernel and later"
}

# Everywhere but in the empty folder it could still find files of this system.
run_alone() {
  mkdir "$work/root" "$work/root/tmp"
  cp "$program" "$work/root/tensorcask"
  local -a run=("$work/root/tensorcask") at="$work/root/tmp"
  if ((EUID == 0)); then run=(chroot "$work/root" /tensorcask) at=/tmp; fi
  [[ "$("${run[@]}" --version)" == *"$version"* ]] || fail "--version"
  TMPDIR="$at" "${run[@]}" demo >"$work/demo" || fail "demo"
  pass "demo"
  printf '\x93NUMPY\x01\x00\x46\x00%-69s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }" >"$work/root/tmp/a.npy"
  printf '\0\0\x80\x3f\0\0\0\x40' >>"$work/root/tmp/a.npy"
  "${run[@]}" convert "$at/a.npy" "$at/b.safetensors" >&2 || fail "convert"
  "${run[@]}" verify "$at/b.safetensors" >&2 || fail "verify"
  [[ "$("${run[@]}" show "$at/b.safetensors")" == *"1 2"* ]] || fail "show"
  pass "converts, verifies and prints a file"
}

check_file
run_alone
((EUID == 0)) || echo "check_static.sh: not root, so it did not run in an empty folder" >&2
echo "Static program: $passed passed, 0 failed"
