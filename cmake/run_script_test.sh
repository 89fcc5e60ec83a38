#!/bin/sh
# Runs a script as Bazel runs one, for CTest: run_script_test.sh ROOT SCRIPT [ARGUMENT...]
# ROOT/tensorcask has links to what the script needs. TEST_TMPDIR is a folder of its own, which is removed afterwards.
set -u
root="$1" script="$2"
shift 2
TEST_TMPDIR="$(mktemp -d)" || exit 1
export TEST_TMPDIR TEST_SRCDIR="$root" TEST_WORKSPACE=tensorcask
trap 'rm -rf "$TEST_TMPDIR"' EXIT
cd "$root/tensorcask" && "./$script" "$@"
