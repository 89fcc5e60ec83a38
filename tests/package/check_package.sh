#!/usr/bin/env bash
# Checks the Debian package that `tools/dev package` makes: check_package.sh PACKAGE.deb [SYSTEM]
#
# Unpacks it, runs the program, and builds and runs tests/consumer_pkgconfig against it. With SYSTEM, as root: makes a
# minimal Debian 12 in the folder SYSTEM, from the mirror that apt uses, installs the package there and runs the program.
set -euo pipefail
package="$(realpath "$1")" system="${2:+$(realpath -m "$2")}"
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/checks.sh"

check_fields() {
  [[ "$(dpkg-deb --field "$package" Package)" == tensorcask ]] || fail "another name than tensorcask"
  [[ "$(dpkg-deb --field "$package" Version)" == "$version" ]] || fail "another version than $version"
  local depends library
  depends="$(dpkg-deb --field "$package" Depends)"
  for library in libabsl libc6 libprotobuf libre2 libsnappy libstdc++6 libxxhash libzstd zlib1g; do
    [[ "$depends" == *"$library"* ]] || fail "does not depend on $library: $depends"
  done
  pass "name, version and dependencies"
}

check_files() {
  local libraries="usr/lib/$(gcc -print-multiarch)" file
  for file in usr/bin/tensorcask usr/share/man/man1/tensorcask.1 usr/share/bash-completion/completions/tensorcask \
    usr/share/zsh/site-functions/_tensorcask usr/share/fish/vendor_completions.d/tensorcask.fish \
    usr/share/doc/tensorcask/LICENSE usr/share/doc/tensorcask/NOTICE usr/include/tensorcask/tensor/tensor.h \
    usr/include/tensorcask/serialize/checkpoint/checkpoint_reader.h usr/include/tensorcask/proto/tensor.pb.h \
    "$libraries"/{libtensorcask.so,libtensorcask.so."$version",pkgconfig/tensorcask.pc} \
    "$libraries"/cmake/Tensorcask/{TensorcaskConfig,TensorcaskConfigVersion,TensorcaskTargets,dependencies}.cmake; do
    [[ -e "$work/root/$file" ]] || fail "$file is missing"
  done
  [[ -z "$(find "$work/root" -type f -not -path "$work/root/usr/*")" ]] || fail "has files outside /usr"
  pass "files"
  # Text files do not name the folder of the sources. Messages of failed checks in the library do.
  file="$(grep -rlIF -e "$PWD" "$work/root" || true)"
  [[ -z "$file" ]] || fail "names the source folder: $file"
  if readelf -d "$work/root/usr/bin/tensorcask" | grep -qE 'RPATH|RUNPATH'; then fail "the program has an RPATH"; fi
  pass "no paths of the build"
  scripts/exported_symbols.py "$work/root/$libraries/libtensorcask.so" >&2 || fail "exported symbols"
  pass "exported symbols"
}

run_unpacked() {
  local libraries="$work/root/usr/lib/$(gcc -print-multiarch)"
  export LD_LIBRARY_PATH="$libraries"
  [[ "$("$work/root/usr/bin/tensorcask" --version)" == *"$version"* ]] || fail "tensorcask --version"
  "$work/root/usr/bin/tensorcask" demo >"$work/demo" || fail "tensorcask demo"
  pass "the program runs"
  mkdir -p "$work/consumer/saved"
  PKG_CONFIG_PATH="$libraries/pkgconfig" make -s -C tests/consumer_pkgconfig OUT="$work/consumer/" \
    CXXFLAGS="-std=c++17 -I$work/root/usr/include" LDFLAGS="-L$libraries" >&2 || fail "tests/consumer_pkgconfig"
  "$work/consumer/main" "$work/consumer/saved" >&2 || fail "tests/consumer_pkgconfig"
  pass "a project is built against the package"
}

# `debootstrap` with the packages that ours depends on; then dpkg needs no network.
install_in_system() {
  local mirror depends
  mirror="$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -n 1)"
  depends="$(dpkg-deb --field "$package" Depends | sed 's/([^)]*)//g; s/|[^,]*//g; s/ //g')"
  debootstrap --variant=minbase --include="$depends" bookworm "$system" "$mirror" >&2 || fail "debootstrap"
  cp "$package" "$system/tmp/tensorcask.deb"
  chroot "$system" dpkg -i /tmp/tensorcask.deb >&2 || fail "dpkg in the new system"
  chroot "$system" tensorcask demo >"$work/demo_in_system" || fail "tensorcask demo in the new system"
  pass "the package is installed in a minimal Debian 12, and the program runs there"
}

dpkg-deb --extract "$package" "$work/root"
check_fields
check_files
run_unpacked
if [[ -n "$system" ]]; then install_in_system; fi
echo "Package: $passed passed, 0 failed"
