#!/usr/bin/env python3
"""Builds the doors, the program and tests with the Bazel 7 of Debian's unstable suite. As root.

    scripts/bazel7.py [--registry FOLDER] [--only MODE] [--fast] [--jobs N] [--option=OPTION]... [TEST...]

TEST: targets; default: //tests/tensor/base/... MODE: WORKSPACE or modules; default: both. --fast: without optimisation.

First with WORKSPACE, over Debian's packages; then, with --registry, with modules, and a project that has the module.
The registry is one that scripts/module_registry.py made, since the suite need not reach the central one. Prints a line
for each step, and last how many passed.
"""

import argparse
import os
import shlex
import sys

import suite

PACKAGES = ('bazel-bootstrap g++ git libabsl-dev libcli11-dev libcurl4-openssl-dev libeigen3-dev libevent-dev '
            'libexpat1-dev libgmock-dev libgtest-dev libleveldb-dev libprotobuf-dev libre2-dev libsnappy-dev '
            'libxxhash-dev libzstd-dev nlohmann-json3-dev pkg-config '
            'patch protobuf-compiler python3 python3-numpy strace zlib1g-dev')
# What Debian's rc file overrides is older than what MODULE.bazel wants. Its other lines are the first two options. On a
# busy machine Bazel's server takes longer to start than the two minutes that Bazel waits.
STARTUP = ('bazel --install_base=/usr/share/bazel --trust_install_base --nosystem_rc --local_startup_timeout_secs=1800 '
           '--output_user_root=/root/.cache/{}')
MODES = {
    'WORKSPACE': '--noenable_bzlmod --enable_workspace',
    # Bazel's own suffix of a WORKSPACE would bring its rules beside those of the modules.
    'modules': '--noenable_workspace --lockfile_mode=off --registry=file:///registry',
}
# All steps run in one shell, since the servers of Bazel end with it.
STEP = """passed=0 failed=0
step() {  # NAME COMMAND
  if bash -c "$2" >&2; then echo "PASSED $1"; passed=$((passed + 1)); return 0; fi
  echo "FAILED $1"; failed=$((failed + 1)); return 1
}
"""
SUMMARY = 'echo "$passed passed, $failed failed"; [ $failed = 0 ]'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--registry', help='a folder that scripts/module_registry.py made; default: no modules')
    parser.add_argument('--only', choices=sorted(MODES), help='one of the two ways; default: both')
    parser.add_argument('--fast', action='store_true', help='without optimisation, which takes half the time')
    parser.add_argument('--jobs', default=str(len(os.sched_getaffinity(0))), help='how many actions run at once')
    parser.add_argument('--option', action='append', default=[], help='a further option of Bazel')
    parser.add_argument('test', nargs='*', default=['//tests/tensor/base/...'], help='targets of Bazel')
    args = parser.parse_args()
    if args.only == 'modules' and not args.registry:
        parser.error('modules need a --registry')

    unstable = suite.Suite('unstable')
    unstable.make()
    unstable.install(PACKAGES)
    mounts = [(args.registry, '/registry')] if args.registry else []
    lines = []

    def step(name, command):
        return f'step {shlex.quote(name)} {shlex.quote(command)}'

    # The project that has the module compiles the other modules as the tree does: once, with a cache.
    options = f'--jobs={args.jobs} --noshow_progress --color=no --disk_cache=/root/.cache/actions'
    options = ' '.join([options, *args.option])
    if args.fast:
        options += ' --compilation_mode=fastbuild --host_compilation_mode=fastbuild'

    for mode in MODES:
        if mode != (args.only or mode) or (mode == 'modules' and not args.registry):
            continue

        def bazel(command, targets):
            return f'{STARTUP.format(mode)} {command} {options} {MODES[mode]} {targets}'

        targets = ' '.join(args.test)
        program = [step(f'{mode}: demo', 'bazel-bin/tools/tensorcask demo')]
        if mode == 'modules':
            program.append(step(f'{mode}: tests/consumer_bzlmod', 'mkdir -p /tmp/saved && cd tests/consumer_bzlmod && ' +
                                bazel('run', '//:main -- /tmp/saved')))
        program.append(step(f'{mode}: {targets}', bazel('test', f'--keep_going --build_tests_only -- {targets}')))
        lines.append(f'if {step(f"{mode}: the doors", bazel("build", "//:all"))} && '
                     f'{step(f"{mode}: the program", bazel("build", "//tools:tensorcask"))}; then')
        lines += [*program, 'fi']
    return unstable.run('\n'.join([STEP, *lines, SUMMARY]), mounts).returncode


if __name__ == '__main__':
    sys.exit(main())
