"""Which parts run.py runs, on which machine, and from which bundle."""

import ctypes
import dataclasses
import datetime
import glob
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from typing import Optional

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))  # of the bundle or the source tree
IS_BUNDLE = os.path.exists(os.path.join(ROOT, "BUNDLE"))
PROGRAMS = ROOT if IS_BUNDLE else os.path.join(ROOT, "bazel-bin")

MEMORY_TESTS = (
    "allocation_failure caching_allocator caching_allocator_model caching_allocator_shortage copy_across "
    "device_backend device_tensor expandable_segments host_caching_allocator memory_observer owner_lock "
    "pinned_allocator pool_allocator private_pools"
).split()
OTHER_TESTS = [f"tests/tensor/memory/{name}_test" for name in MEMORY_TESTS] + [
    "tests/tensor/interop/dlpack_device_test",
    "tests/tensor/interop/dlpack_export_test",
    "tests/tensor/interop/dlpack_import_rejects_test",
    "tests/tensor/interop/dlpack_import_test",
    "tests/tensor/interop/dlpack_threads_test",
    "tests/serialize/checkpoint/device_test",
    "tests/serialize/exchange/channel_device_test",
    "tests/serialize/npy/npz_round_trip_test",
    "tests/serialize/safetensors/reader_test",
    "tests/serialize/stored/elements_test",
    "tests/serialize/wire/device_codec_test",
]
GPU_TEST = "tests/gpu/gpu_test"
CUDA_BACKEND_TEST = "tests/tensor/memory/cuda_backend_test"
# Tests that need the whole memory of the GPU, and those that are slow or large.
ALONE = "*OutOfMemory*"
LARGE = "*LargeTest*"
FINDING = 99


@dataclasses.dataclass
class Part:
    name: str
    command: tuple  # "{seconds}" in an argument becomes the time that the part has
    kind: str = "lines"  # "gtest" and "pytest" write a report; "figures" prints at least one line of JSON
    limit: float = 60  # seconds
    group: int = 0  # parts of one group run beside each other, groups one after the other
    row: str = ""  # of the table; default: the name
    environment: dict = dataclasses.field(default_factory=dict)
    folder: Optional[str] = ROOT  # where it runs
    finding_status: Optional[int] = None  # the exit status of a sanitizer that found something
    skip: str = ""  # why the part cannot run
    always: bool = False  # other parts need it


def why_no_gpu():
    """Empty if the driver finds a GPU. Asked in a process of its own, so that this one holds no context."""
    library = os.environ.get("TENSORCASK_CUDA_LIBRARY", "libcuda.so.1")
    question = (
        "import ctypes, sys\n"
        f"try: cuda = ctypes.CDLL({library!r})\n"
        "except OSError as error: sys.exit(f'no driver: {error}')\n"
        "count = ctypes.c_int()\n"
        "if status := cuda.cuInit(0): sys.exit(f'cuInit fails with {status}')\n"
        "if status := cuda.cuDeviceGetCount(ctypes.byref(count)): sys.exit(f'cuDeviceGetCount fails with {status}')\n"
        "if count.value == 0: sys.exit('the driver finds no device')\n"
    )
    try:
        command = [sys.executable, "-c", question]
        found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return "the driver does not answer"
    return "" if found.returncode == 0 else "no GPU: " + (found.stderr.strip().splitlines() or ["?"])[-1]


def _last_line(*command):
    """The last line that a program prints; empty without the program."""
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = [line for line in found.stdout.splitlines() if line.strip()]
    return lines[-1].strip() if found.returncode == 0 and lines else ""


def _cuda_program(name):
    """The path of a program of CUDA, or None."""
    found = shutil.which(name)
    if found:
        return found
    paths = sorted(glob.glob(f"/usr/local/cuda*/bin/{name}") + glob.glob(f"/usr/local/cuda*/compute-sanitizer/{name}"))
    return paths[-1] if paths else None


def _processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} CPUs"


def _gibibytes(path):
    total, _, free = shutil.disk_usage(path)
    return f"{free / 2**30:.0f} of {total / 2**30:.0f} GiB free"


def _version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def describe_machine():
    """name -> text."""
    fields = "name,driver_version,memory.total,compute_cap,pcie.link.gen.current,pcie.link.width.current"
    driver_cuda = "none"
    try:
        number = ctypes.c_int()
        if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number)) == 0:
            driver_cuda = f"{number.value // 1000}.{number.value % 1000 // 10}"
    except OSError:
        pass
    nvcc = _cuda_program("nvcc")
    sanitizer = _cuda_program("compute-sanitizer")
    packages = ("torch", "jax", "jaxlib", "cupy-cuda13x", "cupy", "safetensors", "numpy", "ml_dtypes", "pytest",
                "fastsafetensors")  # fmt: skip
    versions = {name: _version(name) for name in packages}
    pages = "?"
    if hasattr(os, "sysconf"):
        pages = f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    return {
        "card": _last_line("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader") or "none",
        "CUDA of the driver": driver_cuda,
        "nvcc": _last_line(nvcc, "--version") if nvcc else "none",
        "compute-sanitizer": _last_line(sanitizer, "--version") if sanitizer else "none",
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{_processor()}, {pages} of memory",
        "system": f"{' '.join(platform.libc_ver())}, Linux {platform.release()}, Python {platform.python_version()}",
        "/dev/shm": _gibibytes("/dev/shm") if os.path.isdir("/dev/shm") else "none",
        "packages": ", ".join(f"{name} {version}" for name, version in versions.items() if version != "none")
        + ("" if versions["fastsafetensors"] != "none" else ", no fastsafetensors"),
    }


def bundle_lines():
    """What the bundle says about itself."""
    lines = []
    for name, before in (("BUNDLE", "bundle: "), ("MISSING", "MISSING in the bundle: ")):
        path = os.path.join(ROOT, name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                text = "; ".join(file.read().split("\n")).strip("; ")
            lines += [before + text] if text else []
    return lines or ["bundle: none, this is the source tree"]


def all_parts(work, simulated=False):
    """All parts, for this machine. `work` is a folder for what they share. With `simulated`, benchmarks use a simulated
    device: there is no GPU."""
    # The libraries of the bundle are for its own programs: Python's packages bring theirs.
    libraries = [os.path.join(ROOT, "lib")] if IS_BUNDLE else []
    libraries += [os.environ["LD_LIBRARY_PATH"]] if os.environ.get("LD_LIBRARY_PATH") else []
    native = {"TENSORCASK_TEST_MODULES": PROGRAMS, "LD_LIBRARY_PATH": ":".join(libraries)}
    site = os.path.join(work, "site")
    python_path = [site, HERE, os.path.join(ROOT, "tests", "python"), os.environ.get("PYTHONPATH", "")]
    frameworks = {
        "PYTHONPATH": ":".join(filter(None, python_path)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # JAX would take three quarters of the memory
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "CUPY_CACHE_DIR": os.path.join(work, "cupy"),
    }
    has_pytest = importlib.util.find_spec("pytest") is not None
    wheels = sorted(glob.glob(os.path.join(ROOT, "wheel", "*.whl")))
    no_wheel = "" if wheels else "no wheel in the bundle"
    sanitizer = _cuda_program("compute-sanitizer")
    memcheck = (sanitizer or "compute-sanitizer", "--tool", "memcheck", "--error-exitcode", str(FINDING),
                "--report-api-errors", "no")  # fmt: skip  # tests provoke errors of calls on purpose
    small = ("--simulated", "--small") if simulated else ()

    def absent(*paths):
        return "; ".join(f"no {path} here" for path in paths if not os.path.exists(path))

    def program(path, name=None, kind="gtest", arguments=(), before=(), **fields):
        full = os.path.join(PROGRAMS, path)
        skip = fields.pop("skip", "") or absent(full)
        return Part(name or os.path.basename(path), (*before, full, *arguments), kind, environment=native, skip=skip,
                    **fields)  # fmt: skip

    def script(name, file, kind, arguments=(), before=(), pytest_arguments=(), **fields):
        full = os.path.join(HERE, file)
        skip = fields.pop("skip", "") or absent(full) or ("" if file == "replay_trace.py" else no_wheel)
        command = (*before, sys.executable, "-B")
        if kind == "pytest":
            skip = skip or ("" if has_pytest else "no pytest here")
            command += ("-m", "pytest", "-v", "-p", "no:cacheprovider", "--rootdir", HERE, "--durations=12",
                        "-o", "faulthandler_timeout=60", *pytest_arguments)  # fmt: skip
        return Part(name, (*command, full, *arguments), kind, environment=frameworks, skip=skip, **fields)

    replay = os.path.join(PROGRAMS, "tests/gpu/replay_trace")
    traces = os.path.join(ROOT, "tests/tensor/memory/traces")
    helper = os.path.join(PROGRAMS, "tests/gpu/libtorch_allocator.so")
    times = ("--times", *(("--helper", helper) if os.path.exists(helper) else ()))
    replay_arguments = ("--program", replay, "--traces", traces, "--libraries", native["LD_LIBRARY_PATH"])
    no_replay = absent(replay)
    not_large = f"--gtest_filter=-{LARGE}:{ALONE}"
    no_sanitizer = "" if sanitizer else "no compute-sanitizer here"
    nothing_to_check = no_sanitizer or ("there is no GPU" if simulated else "")
    install = ("pip", "install", "--no-index", "--no-deps", "--disable-pip-version-check", "--target", site)
    if importlib.util.find_spec("pip") is None:
        install = ("zipfile", "-e", *wheels, site)
        wheels = []
    return [
        Part("wheel", (sys.executable, "-m", *install, *wheels), limit=60, group=0, skip=no_wheel, always=True),
        # Tests that look at the free memory of the GPU run without others that use it.
        program(GPU_TEST, arguments=(f"--gtest_filter=-{ALONE}",), limit=100, group=1),
        *[program(path, row="other C++ tests", limit=60, group=1) for path in OTHER_TESTS],
        program(CUDA_BACKEND_TEST, limit=40, group=2),
        script("traces", "replay_trace.py", "lines", replay_arguments, limit=75, group=2, skip=no_replay),
        script("frameworks", "frameworks_run.py", "lines", ("-k", "not Alone"), limit=150, group=2),
        program(GPU_TEST, "gpu_test, memory exhausted", arguments=(f"--gtest_filter={ALONE}",), limit=45, group=3),
        script("frameworks alone", "frameworks_run.py", "lines", ("-k", "Alone"), limit=60, group=4),
        program("tests/gpu/gpu_benchmark", kind="figures", arguments=small, limit=100, group=5),
        script("allocator times", "replay_trace.py", "figures", (*replay_arguments, *times), limit=60, group=6,
               skip=no_replay),  # fmt: skip
        script("frameworks_benchmark", "frameworks_benchmark.py", "figures", ("--limit", "{seconds}"), limit=130,
               group=7),  # fmt: skip
        program(GPU_TEST, "memcheck gpu_test", before=memcheck, arguments=(not_large,), limit=120, group=8,
                finding_status=FINDING, skip=nothing_to_check),  # fmt: skip
        program(CUDA_BACKEND_TEST, "memcheck cuda_backend_test", before=memcheck, arguments=(not_large,), limit=120,
                group=8, finding_status=FINDING, skip=nothing_to_check),  # fmt: skip
        script("memcheck frameworks", "frameworks_test.py", "pytest", before=memcheck,
               pytest_arguments=("-k", "DLPack and not Alone"), limit=120, group=8, finding_status=FINDING,
               skip=nothing_to_check),  # fmt: skip
    ]
