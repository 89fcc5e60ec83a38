# shellcheck shell=bash
# For the scripts of this folder, which source it: a folder $work that is removed at the end, $version of the library,
# and `pass` and `fail`. From here on the working folder is the root.
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
version="$(sed -n 's/.*VERSION_STRING "\(.*\)"/\1/p' tensor/version.h)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
passed=0

fail() { echo "$(basename "$0"): $*" >&2; exit 1; }
pass() { passed=$((passed + 1)); echo "ok: $*" >&2; }
