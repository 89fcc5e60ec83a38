#!/usr/bin/env bash
# Makes WORK/bundle.tar.gz, with which a machine that has a GPU runs the tests and benchmarks of devices, without a
# compiler, a package or a network: gpu_bundle.sh [--no-wheel] WORK [OPTION OF BAZEL...]. `tools/dev gpu` runs this.
#
# The machine is x86-64 with a glibc as new as this one's, the driver, and Python 3.12 for the parts that need it:
#
#   tar xf bundle.tar.gz -C FOLDER && bash FOLDER/run.sh --out RESULTS      # tests/gpu/run.py says more
#
# The programs lie at their paths below bazel-bin, with the files that they read; lib/ has the shared libraries of
# Debian that they load, but for those of glibc and GCC; wheel/ has the wheel, with the command line tool. The file
# BUNDLE names the commit, MISSING what could not be had.
set -euo pipefail
wheel=yes
if [[ "$1" == --no-wheel ]]; then wheel=no && shift; fi
work="$(realpath -m "$1")"
shift
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
limit_bytes=$((60 << 20))

# Targets that may be missing are named in MISSING; all others must build.
programs=(
  tests/gpu:gpu_test
  tests/gpu:gpu_benchmark
  tests/gpu:replay_trace
  tests/gpu:libtorch_allocator.so
  tests/tensor/memory:cuda_backend_test
  tests/tensor/memory:allocation_failure_test
  tests/tensor/memory:caching_allocator_model_test
  tests/tensor/memory:caching_allocator_shortage_test
  tests/tensor/memory:caching_allocator_test
  tests/tensor/memory:copy_across_test
  tests/tensor/memory:device_backend_test
  tests/tensor/memory:device_tensor_test
  tests/tensor/memory:expandable_segments_test
  tests/tensor/memory:host_caching_allocator_test
  tests/tensor/memory:memory_observer_test
  tests/tensor/memory:owner_lock_test
  tests/tensor/memory:pinned_allocator_test
  tests/tensor/memory:pool_allocator_test
  tests/tensor/memory:private_pools_test
  tests/tensor/interop:dlpack_device_test
  tests/tensor/interop:dlpack_export_test
  tests/tensor/interop:dlpack_import_rejects_test
  tests/tensor/interop:dlpack_import_test
  tests/tensor/interop:dlpack_threads_test
  tests/serialize/checkpoint:device_test
  tests/serialize/exchange:channel_device_test
  tests/serialize/npy:npz_round_trip_test
  tests/serialize/safetensors:reader_test
  tests/serialize/stored:elements_test
  tests/serialize/wire:device_codec_test
)
scripts=(run.sh run.py gpu_parts.py part_results.py replay_trace.py frameworks_run.py
  frameworks_test.py frameworks_benchmark.py)

missing=()
miss() { missing+=("$1") && echo "gpu_bundle.sh: MISSING: $1" >&2; }

# The first Python 3.12 that starts and has its headers.
python_312() {
  local candidate
  for candidate in python3.12 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12.*/bin/python3.12; do
    if "$candidate" -c '
import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

# stage PACKAGE:NAME FOLDER: the program, stripped, and the files that it reads, at their paths.
stage() {
  local path="${1/://}" runfiles="bazel-bin/${1/://}.runfiles"
  if [[ -d "$runfiles" ]]; then
    (cd "$runfiles/$(basename "$(echo "$runfiles"/*/)")" && find . -not -type d -not -path "./$path" -print0) |
      (cd "$runfiles/$(basename "$(echo "$runfiles"/*/)")" && xargs -0 -r cp -L --parents -t "$2")
  fi
  install -D -m 755 "bazel-bin/$path" "$2/$path"
}

is_elf() { [[ "$(head -c 4 "$1" | tr -d '\0')" == $'\x7fELF' ]]; }

# Strips all programs and libraries below FOLDER, and copies to FOLDER/lib the libraries that they load.
add_libraries() {
  local file library name
  mkdir -p "$1/lib"
  while IFS= read -r -d '' file; do
    is_elf "$file" || continue
    chmod u+w "$file"
    strip --strip-unneeded "$file"
    while read -r name library; do
      case "$name" in
        ld-linux* | libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libresolv.so.*) ;;
        libstdc++.so.* | libgcc_s.so.*) ;;
        *) [[ -e "$1/lib/$name" ]] || install -m 755 "$library" "$1/lib/$name" ;;
      esac
    done < <(ldd "$file" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 } $0 ~ /not found/ { print $1, "missing" }')
  done < <(find "$1" -type f -print0)
}

# The newest version of glibc that the symbols of the programs below FOLDER name.
needed_glibc() {
  find "$1" -type f -print0 | xargs -0 objdump -T 2>/dev/null | grep -oE 'GLIBC_2[.][0-9.]+' | sort -uV | tail -n 1
}

main() {
  [[ "$(uname -m)" == x86_64 ]] || { echo "gpu_bundle.sh: this machine is $(uname -m), not x86_64" >&2 && exit 1; }
  local staging="$work/bundle" targets=() program script python
  for program in "${programs[@]}"; do
    if grep -q "name = \"${program#*:}\"" "${program%%:*}/BUILD.bazel" 2>/dev/null; then
      targets+=("//$program")
    else
      miss "//$program: no such target"
    fi
  done
  bazel build "$@" --compilation_mode=opt -- "${targets[@]}" >&2
  rm -rf "$staging"
  mkdir -p "$staging/tests/gpu" "$staging/wheel"
  for program in "${targets[@]}"; do stage "${program#//}" "$staging"; done

  mkdir -p "$staging/tests/python"
  cp tests/python/*.py "$staging/tests/python"
  for script in "${scripts[@]}"; do
    cp "tests/gpu/$script" "$staging/tests/gpu" 2>/dev/null || miss "tests/gpu/$script: no such file"
  done
  cp tests/gpu/*.py "$staging/tests/gpu"  # and what these import
  mv "$staging/tests/gpu/run.sh" "$staging"
  mkdir -p "$staging/tests/tensor/memory/traces"
  cp tests/tensor/memory/traces/*.txt "$staging/tests/tensor/memory/traces"

  add_libraries "$staging"
  if [[ "$wheel" == no ]]; then
    miss "the wheel: left out"
  elif python="$(python_312)"; then
    scripts/wheel.sh --untested "$work/wheel" "$python" >&2
    cp "$work"/wheel/dist/*.whl "$staging/wheel"
  else
    miss "the wheel: no Python 3.12 with headers here"
  fi

  {
    echo "commit $(git rev-parse HEAD)$([[ -z "$(git status --porcelain --untracked-files=no)" ]] || echo ", changed")"
    echo "of $(git log -1 --format=%cI), bundled $(date -u +%FT%TZ)"
    echo "needs $(needed_glibc "$staging")"
  } >"$staging/BUNDLE"
  printf '%s\n' "${missing[@]}" | sed '/^$/d' >"$staging/MISSING"
  tar -C "$staging" --owner=0 --group=0 -czf "$work/bundle.tar.gz" .

  local bytes
  bytes="$(stat -c %s "$work/bundle.tar.gz")"
  cat "$staging/BUNDLE"
  echo "$work/bundle.tar.gz: $((bytes >> 20)) MiB, ${#missing[@]} parts missing"
  ((bytes < limit_bytes)) || { echo "gpu_bundle.sh: more than $((limit_bytes >> 20)) MiB" >&2 && exit 1; }
}

main "$@"
