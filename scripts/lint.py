#!/usr/bin/env python3
"""What `tools/dev lint` does: lint.py [--fast] [FILE...]

1. The floors (tests/layering_test.py), a few rules of style that a pattern can tell, and the BUILD files with
   buildifier, which npx downloads; skipped without npx.
2. Each header of the library compiles alone, and twice in a row, with g++ and with clang++, without a warning.
3. The .cc files of the library that reach no protobuf compile with -fno-exceptions and -fno-rtti.
4. clang-tidy over the .cc files (.clang-tidy), unless --fast.

A file that was clean in step 3 or 4 before, with the same text after all its includes and the same rules, is not looked
at again; .cache/lint remembers that. With FILEs, steps 2 to 4 look at these alone.
"""

import concurrent.futures
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
CACHE = os.path.join(ROOT, ".cache", "lint")
INCLUDE_ROOT = os.path.join(ROOT, ".cache", "include")
HEADER_WARNINGS = ["-Wall", "-Wextra", "-Wconversion"]  # users may have them as errors
WARNINGS = [*HEADER_WARNINGS, "-Wno-sign-conversion"]

BUILDIFIER = "@bazel/buildifier@8.2.1"

# Pattern, the folders where it is a mistake, what to do about it.
LIBRARY = ("tensor/", "serialize/")
PATTERNS = [
    (r"^\s*#\s*pragma\s+once", ("",), "include guards are spelled TENSORCASK_<PATH>_H_"),
    (r"^\s*using\s+namespace\s", ("",), "name what you use"),
    (r"\bstd::c(out|err|log)\b", LIBRARY, "the library prints nothing: return a Status"),
    (r"(?<![\w:])(throw|try)\b\s*[\w({]", LIBRARY, "the library throws nothing: return a Status"),
    (r"\babsl::Mutex\b", ("",), "std::mutex: the thread sanitizer cannot see into absl::Mutex"),
    (r"\b(std::)?(exit|_exit|quick_exit)\(", LIBRARY, "the library never exits: return a Status"),
    (r"\babsl::HexStringToBytes\b", ("",), "deprecated in Abseil since 2024: BytesOfHex of tests/support/hex.h"),
    (r"[ \t]+$", ("",), "blanks at the end of the line"),
]
# Comments behind code of the library that only point at something.
NAMELESS = re.compile(r"\S\s+// (of|to) (it|both|them|these|those|that|all|each|the same)[.,;]?$")


def sources(*endings):
    """Paths of our files below the root, without the consumer's, which have include paths of their own."""
    for top in ("examples", "serialize", "tensor", "tests", "tools"):
        for folder, subfolders, files in os.walk(os.path.join(ROOT, top)):
            relative = os.path.relpath(folder, ROOT)
            subfolders[:] = sorted(name for name in subfolders if os.path.join(relative, name) != "tests/consumer")
            for name in sorted(files):
                if name.endswith(endings):
                    yield os.path.join(relative, name)


def without_comments(text):
    """The text with comments and strings blanked, line for line."""
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, lambda match: re.sub(r"[^\n]", "_", match.group()), text, flags=re.DOTALL)


def check_style():
    problems = []
    for path in sources(".h", ".cc"):
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            text = file.read()
        code = without_comments(text)
        for number, (line, bare) in enumerate(zip(text.split("\n"), code.split("\n")), start=1):
            for pattern, folders, advice in PATTERNS:
                if path.startswith(folders) and re.search(pattern, bare) and "NOLINT" not in line:
                    problems.append(f"{path}:{number}: {advice}")
            if path.startswith(LIBRARY) and NAMELESS.search(line):
                problems.append(f"{path}:{number}: the comment does not name what it is about")
        if path.endswith(".h"):
            guard = "TENSORCASK_" + re.sub(r"[^A-Z0-9]", "_", path.upper()) + "_"
            if not re.search(rf"^#ifndef {guard}\n#define {guard}$", text, re.MULTILINE):
                problems.append(f"{path}:1: lacks the include guard {guard}")
    return problems


def check_build_files():
    """The problems that buildifier finds, each a line or more; None if it cannot be had."""
    npx = shutil.which("npx")
    if npx is None:
        return None
    try:
        if run([npx, "--yes", BUILDIFIER, "-version"], timeout=60).returncode != 0:
            return None
    except subprocess.TimeoutExpired:  # no network
        return None
    patterns = ["*BUILD.bazel", "*.bzl", "*MODULE.bazel", "*WORKSPACE"]
    listed = run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns])
    files = [path for path in listed.stdout.splitlines() if os.path.isfile(os.path.join(ROOT, path))]
    if listed.returncode != 0 or not files:
        return [f"git lists no BUILD files: {listed.stdout}\n"]
    result = run([npx, "--yes", BUILDIFIER, "-mode=check", "-lint=warn", *files])
    return [] if result.returncode == 0 else [result.stdout]


def run(command, **kwargs):
    return subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", check=False, **kwargs
    )


def include_flags():
    """Makes the folder in which tensorcask/ is this tree, and the C++ files of the messages."""
    os.makedirs(INCLUDE_ROOT, exist_ok=True)
    link = os.path.join(INCLUDE_ROOT, "tensorcask")
    if not os.path.islink(link):
        os.symlink("../..", link)
    flags = ["-I", INCLUDE_ROOT, "-isystem", "/usr/include/eigen3", "-DOMPI_SKIP_MPICXX"]
    found = subprocess.run(["pkg-config", "--variable=includedir", "mpi-c"], capture_output=True, encoding="utf-8")
    flags += ["-isystem", found.stdout.strip()] if found.returncode == 0 else []
    query = run(["bazel", "query", "--noshow_progress", "--keep_going", "kind(cc_proto_library, //...)"])
    messages = sorted(line for line in query.stdout.splitlines() if line.startswith("//"))
    if messages:
        build = run(["bazel", "build", "--noshow_progress", "--color=no"] + messages)
        if build.returncode != 0:
            sys.exit(build.stdout)
        folder = run(["bazel", "info", "--noshow_progress", "bazel-bin"]).stdout.strip().splitlines()[-1]
        for imports in sorted(glob.glob(folder + "/**/_virtual_imports/*", recursive=True)):
            flags += ["-isystem", imports]
    return flags


def check_header(compiler, path, flags):
    text = f'#include "tensorcask/{path}"\n' * 2
    command = [compiler, "-std=c++17", *HEADER_WARNINGS, "-Werror", "-fsyntax-only", *flags, "-x", "c++", "-"]
    result = subprocess.run(
        command, cwd=ROOT, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return result.stdout if result.returncode != 0 else None


def reached(path, found=None):
    """The text of a file of ours and of those that it includes, by path, and the names of all else that these include."""
    ours, others = found = found or ({}, set())
    if path not in ours:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            ours[path] = file.read()
        for name in re.findall(r'^#include [<"]([^>"]+)', ours[path], re.MULTILINE):
            inside = name[len("tensorcask/"):] if name.startswith("tensorcask/") else ""
            if inside and os.path.exists(os.path.join(ROOT, inside)):
                reached(inside, found)
            else:
                others.add(name)
    return found


def reaches_protobuf(path):
    return any(name.startswith("google/protobuf/") or name.endswith(".pb.h") for name in reached(path)[1])


def clean_before(key):
    """The path of what remembers that something was clean, and whether it does."""
    stamp = os.path.join(CACHE, key.hexdigest())
    if os.path.exists(stamp):
        os.utime(stamp)
        return stamp, True
    return stamp, False


def remember(stamp):
    with open(stamp, "w", encoding="utf-8"):
        pass


def check_without_exceptions(path, flags):
    command = ["g++", "-std=c++17", "-fno-exceptions", "-fno-rtti", "-fsyntax-only", *flags, path]
    key = hashlib.sha256(" ".join(command).encode())
    for name, text in sorted(reached(path)[0].items()):
        key.update(f"{name}\0{text}\0".encode())
    stamp, clean = clean_before(key)
    if clean:
        return None
    result = run(command)
    if result.returncode != 0:
        return result.stdout
    remember(stamp)
    return None


def check_tidy(path, flags):
    compile_flags = ["-std=c++17", *WARNINGS, *flags]
    expanded = subprocess.run(
        ["clang++", "-E", "-x", "c++", *compile_flags, path],
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
    )
    if expanded.returncode != 0:
        return expanded.stderr.decode(errors="replace")
    key = hashlib.sha256(expanded.stdout)
    # Comments are not in the expanded text, but NOLINT is one.
    for name in (".clang-tidy", "tests/.clang-tidy", path):
        with open(os.path.join(ROOT, name), "rb") as file:
            key.update(file.read())
    stamp, clean = clean_before(key)
    if clean:
        return None
    result = run(["clang-tidy", "--quiet", path, "--", "-x", "c++", *compile_flags])
    if result.returncode != 0:
        lines = [line for line in result.stdout.splitlines() if not re.match(r"\d+ warnings? (treated|generated)", line)]
        return "\n".join(lines) + "\n"
    remember(stamp)
    return None


def in_parallel(title, jobs):
    """Runs (name, function, arguments); prints what each returns that is not None. The number of these."""
    broken = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        futures = {pool.submit(function, *arguments): name for name, function, arguments in jobs}
        for future in concurrent.futures.as_completed(futures):
            output = future.result()
            if output is not None:
                broken += 1
                print(f"--- {title}: {futures[future]}\n{output}", end="", flush=True)
    print(f"{title}: {len(futures)} looked at, {broken} with problems", flush=True)
    return broken


def main(arguments):
    fast = "--fast" in arguments
    chosen = [os.path.relpath(path, ROOT) for path in arguments if path != "--fast"]
    os.makedirs(CACHE, exist_ok=True)

    broken = 0
    layering = run([sys.executable, "tests/layering_test.py"])
    if layering.returncode != 0:
        broken += 1
        print(layering.stdout, end="")
    problems = check_style()
    for problem in problems:
        print(problem)
    broken += len(problems)
    print(f"floors and style: {'fine' if broken == 0 else 'see above'}", flush=True)

    problems = check_build_files()
    for problem in problems or []:
        print(problem, end="")
        broken += 1
    verdict = "SKIPPED, npx has no buildifier" if problems is None else "see above" if problems else "fine"
    print(f"BUILD files: {verdict}", flush=True)

    flags = include_flags()
    headers = [path for path in sources(".h") if path.startswith(LIBRARY)]
    # Libraries to be compared with may not be installed.
    units = [path for path in sources(".cc") if not re.search(r"_peers_\w+\.cc$", path)]
    if chosen:
        headers = [path for path in headers if path in chosen]
        units = [path for path in units if path in chosen]
    jobs = [(f"{compiler} {path}", check_header, (compiler, path, flags)) for path in headers for compiler in ("g++", "clang++")]
    broken += in_parallel("headers alone", jobs)
    plain = [path for path in units if path.startswith(LIBRARY) and not reaches_protobuf(path)]
    broken += in_parallel("no exceptions", [(path, check_without_exceptions, (path, flags)) for path in plain])
    if not fast:
        broken += in_parallel("clang-tidy", [(path, check_tidy, (path, flags)) for path in units])
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
