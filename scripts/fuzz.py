#!/usr/bin/env python3
"""Builds a fuzz target of tests/fuzz with clang's libFuzzer and runs it: fuzz.py [TARGET|all [SECONDS]] | coverage

Without a TARGET, lists them. SECONDS (default 60) are spent on each. Everything is compiled with -fsanitize=fuzzer,
address,undefined into .cache/fuzz, again when a file that it includes has changed. What the fuzzer learns stays in
.cache/fuzz/corpus/TARGET, so that the next run goes on from there; the seeds in the tree are never written to. An input
that breaks something is left in .cache/fuzz/found/TARGET: `.cache/fuzz/bin/TARGET FILE` runs it again, and once the bug
is mended it belongs among the seeds in tests/fuzz/corpus/TARGET.

Prints a line for each target: executions, edges covered, findings. Ends with 1 if anything was found.

`coverage` runs each target once over its seeds and what was learnt here, without sanitizers, and prints how much of the
lines and branches of its parser (parsers_of below) that reaches.
"""

import concurrent.futures
import dataclasses
import glob
import json
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
CACHE = os.path.join(ROOT, ".cache", "fuzz")
INCLUDE_ROOT = os.path.join(ROOT, ".cache", "include")  # tensorcask/ in it is this tree
GENERATED = os.path.join(CACHE, "gen")  # the C++ files of the messages
FUZZ_FOLDER = "tests/fuzz"
SUFFIX = "_fuzz.cc"

COMPILE = ["clang++", "-std=c++17", "-g1", "-I", INCLUDE_ROOT, "-I", GENERATED]
LINK = ["clang++"]


@dataclasses.dataclass(frozen=True)
class Build:
    """One way to compile everything; what it makes stays apart from that of the others."""

    folder: str
    compile_flags: tuple
    link_flags: tuple


SANITIZERS = "address,undefined,float-cast-overflow"
SANITIZED = Build(
    CACHE,
    ("-O1", "-fno-omit-frame-pointer", f"-fsanitize=fuzzer-no-link,{SANITIZERS}", "-fno-sanitize-recover=all"),
    (f"-fsanitize=fuzzer,{SANITIZERS}", "-fno-sanitize-recover=all"),
)
COUNTED = Build(
    os.path.join(CACHE, "coverage"),
    ("-O0", "-fsanitize=fuzzer-no-link", "-fprofile-instr-generate", "-fcoverage-mapping"),
    ("-fsanitize=fuzzer", "-fprofile-instr-generate"),
)


def parsers_of(name):
    """Patterns of the files whose lines the target `name` is to reach: those that its first comment lists, or its room."""
    with open(os.path.join(ROOT, FUZZ_FOLDER, name + SUFFIX), encoding="utf-8") as file:
        comment = file.read().partition("\n\n")[0]
    listed = comment.partition("\n// Is to reach what input can reach of these files:\n")[2]
    return re.findall(r"^//   (\S+)$", listed, re.MULTILINE) or [f"serialize/{name}/*"]


PACKAGES = [
    "absl_cord", "absl_flat_hash_map", "absl_flat_hash_set", "absl_inlined_vector", "absl_status", "absl_statusor",
    "absl_str_format", "absl_strings", "absl_time", "expat", "libcurl", "protobuf", "libxxhash", "libzstd", "zlib",
]  # fmt: skip
OTHER_LIBRARIES = ["-lsnappy"]  # those without a .pc file
GRPC_PLUGIN = shutil.which("grpc_cpp_plugin")  # None: what needs gRPC is left out

# Bounds of one input: a second is far above what any takes, and so is the memory.
LIMITS = ["-timeout=10", "-rss_limit_mb=2048", "-malloc_limit_mb=512", "-max_len=8192"]


def run(command, **kwargs):
    return subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", check=False, **kwargs
    )  # fmt: skip


def check(result):
    if result.returncode != 0:
        sys.exit(f"{' '.join(result.args)}\n{result.stdout}")
    return result.stdout


def is_built(source):
    """False for what needs gRPC, where it is not installed."""
    if GRPC_PLUGIN is not None:
        return True
    with open(source, encoding="utf-8") as file:
        return re.search(r"grpc::|<grpcpp/", file.read()) is None


def all_targets():
    return sorted(os.path.basename(path)[: -len(SUFFIX)] for path in glob.glob(os.path.join(ROOT, FUZZ_FOLDER, "*" + SUFFIX)))


def targets():
    """Those that can be built here."""
    return [name for name in all_targets() if is_built(os.path.join(ROOT, FUZZ_FOLDER, name + SUFFIX))]


def is_fresh(made, inputs):
    """True if `made` exists and is newer than all `inputs`, which must exist."""
    if not os.path.exists(made):
        return False
    age = os.path.getmtime(made)
    return all(os.path.exists(path) and os.path.getmtime(path) <= age for path in inputs)


def generate_messages():
    protos = sorted(glob.glob(os.path.join(ROOT, "proto", "*.proto")))
    stamp = os.path.join(GENERATED, "stamp")
    if not is_fresh(stamp, protos):
        os.makedirs(GENERATED, exist_ok=True)
        # Imports carry the prefix, as everywhere.
        names = [f"tensorcask/proto/{os.path.basename(path)}" for path in protos]
        grpc = [f"--plugin=protoc-gen-grpc={GRPC_PLUGIN}", f"--grpc_out={GENERATED}"] if GRPC_PLUGIN is not None else []
        check(run(["protoc", f"-I{INCLUDE_ROOT}", f"--cpp_out={GENERATED}", *grpc, *names]))
        with open(stamp, "w", encoding="utf-8"):
            pass
    made = sorted(glob.glob(os.path.join(GENERATED, "tensorcask", "proto", "*.pb.cc")))
    # Files of messages without a service are there, too, and have nothing.
    return [path for path in made if not path.endswith(".grpc.pb.cc") or os.path.basename(path) == "exchange_service.grpc.pb.cc"]


def object_of(how, source):
    relative = os.path.relpath(source, ROOT).replace(os.sep, "__")
    return os.path.join(how.folder, "obj", relative + ".o")


def dependencies(made):
    """What the compiler says that `made` was made of; None if it never said."""
    try:
        with open(made[: -len(".o")] + ".d", encoding="utf-8") as file:
            text = file.read().replace("\\\n", " ")
    except FileNotFoundError:
        return None
    return text.partition(":")[2].split()


def compile_one(how, source):
    """Makes the object of `source`; a string that says what is wrong, or None."""
    made = object_of(how, source)
    inputs = dependencies(made)
    if inputs is not None and is_fresh(made, inputs):
        return None
    result = run([*COMPILE, *how.compile_flags, "-MMD", "-MF", made[: -len(".o")] + ".d", "-c", source, "-o", made])
    return result.stdout if result.returncode != 0 else None


def compile_all(how, sources):
    os.makedirs(os.path.join(how.folder, "obj"), exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        made = pool.map(lambda source: compile_one(how, source), sources)
        problems = [problem for problem in made if problem is not None]
    if problems:
        sys.exit("\n".join(problems))
    return [object_of(how, source) for source in sources]


def library_sources():
    paths = []
    for top in ("tensor", "serialize"):
        paths += glob.glob(os.path.join(ROOT, top, "**", "*.cc"), recursive=True)
    # What the targets share: other files of their folder, but for the program that replays seeds without a fuzzer.
    shared = glob.glob(os.path.join(ROOT, FUZZ_FOLDER, "*.cc"))
    paths += [path for path in shared if not path.endswith((SUFFIX, "replay.cc"))]
    return sorted(filter(is_built, paths)) + generate_messages()


def build(how, names):
    os.makedirs(INCLUDE_ROOT, exist_ok=True)
    link = os.path.join(INCLUDE_ROOT, "tensorcask")
    if not os.path.islink(link):
        os.symlink("../..", link)
    objects = compile_all(how, library_sources())
    mains = compile_all(how, [os.path.join(ROOT, FUZZ_FOLDER, name + SUFFIX) for name in names])
    archive = os.path.join(how.folder, "liball.a")
    if not is_fresh(archive, objects):
        if os.path.exists(archive):
            os.remove(archive)
        check(run(["ar", "rcs", archive, *objects]))
    packages = PACKAGES + (["grpc++"] if GRPC_PLUGIN is not None else [])
    libraries = check(run(["pkg-config", "--libs", *packages])).split() + OTHER_LIBRARIES
    os.makedirs(os.path.join(how.folder, "bin"), exist_ok=True)
    for name, main_object in zip(names, mains):
        program = os.path.join(how.folder, "bin", name)
        if not is_fresh(program, [archive, main_object]):
            check(run([*LINK, *how.link_flags, main_object, archive, "-Wl,--as-needed", *libraries, "-o", program]))


def fuzz(name, seconds):
    """Runs one target; the number of findings."""
    learnt = os.path.join(CACHE, "corpus", name)
    found = os.path.join(CACHE, "found", name)
    for folder in (learnt, found):
        os.makedirs(folder, exist_ok=True)
    before = set(os.listdir(found))
    seeds = os.path.join(ROOT, FUZZ_FOLDER, "corpus", name)
    environment = dict(os.environ, ASAN_OPTIONS="allocator_may_return_null=1:detect_stack_use_after_return=1")
    command = [
        os.path.join(CACHE, "bin", name), *LIMITS, f"-max_total_time={seconds}", "-print_final_stats=1",
        f"-artifact_prefix={found}/", learnt, seeds,
    ]  # fmt: skip
    result = run(command, env=environment)
    log = os.path.join(CACHE, name + ".log")
    with open(log, "w", encoding="utf-8") as file:
        file.write(result.stdout)
    executions = re.findall(r"stat::number_of_executed_units:\s*(\d+)", result.stdout)
    covered = re.findall(r"\bcov: (\d+)", result.stdout)
    new = sorted(set(os.listdir(found)) - before)
    print(
        f"{name}: {executions[-1] if executions else '?'} executions in {seconds} s, {covered[-1] if covered else '?'} "
        f"edges covered, {len(new)} findings",
        flush=True,
    )
    for path in new:
        print(f"  .cache/fuzz/found/{name}/{path}")
    if result.returncode != 0:
        lines = [line for line in result.stdout.splitlines() if "ERROR: " in line or "runtime error: " in line]
        print("\n".join(lines[:5]))
        print(f"  see .cache/fuzz/{name}.log", flush=True)
    return max(len(new), int(result.returncode != 0))


def coverage(names):
    """Prints what the inputs that are known reach of each parser."""
    build(COUNTED, names)
    for name in names:
        learnt = os.path.join(CACHE, "corpus", name)
        os.makedirs(learnt, exist_ok=True)
        program = os.path.join(COUNTED.folder, "bin", name)
        raw = os.path.join(COUNTED.folder, name + ".profraw")
        profile = os.path.join(COUNTED.folder, name + ".profdata")
        inputs = [learnt, os.path.join(ROOT, FUZZ_FOLDER, "corpus", name)]
        check(run([program, "-runs=0", *inputs], env=dict(os.environ, LLVM_PROFILE_FILE=raw)))
        check(run(["llvm-profdata-14", "merge", raw, "-o", profile]))
        sources = sorted(path for pattern in parsers_of(name) for path in glob.glob(os.path.join(ROOT, pattern + "*")))
        # The compiler saw the files through the link that gives includes their prefix.
        sources += [os.path.join(INCLUDE_ROOT, "tensorcask", os.path.relpath(path, ROOT)) for path in sources]
        exported = check(
            run(["llvm-cov-14", "export", "-summary-only", f"-instr-profile={profile}", program, *sources])
        )
        totals = json.loads(exported)["data"][0]["totals"]
        shares = [f"{kind} {totals[kind]['percent']:.1f} % of {totals[kind]['count']}" for kind in ("lines", "branches")]
        print(f"{name}: {', '.join(shares)}", flush=True)


def main(arguments):
    known = targets()
    if not arguments:
        print("\n".join(known))
        return 0
    if arguments == ["coverage"]:
        coverage(known)
        return 0
    seconds = arguments[1] if len(arguments) > 1 else "60"
    if len(arguments) > 2 or not seconds.isdigit() or (arguments[0] != "all" and arguments[0] not in known):
        print(__doc__.partition("\n")[0] + f"\nTARGET is one of: {' '.join(known)}", file=sys.stderr)
        return 2
    names = known if arguments[0] == "all" else [arguments[0]]
    build(SANITIZED, names)
    return 1 if sum(fuzz(name, int(seconds)) for name in names) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
