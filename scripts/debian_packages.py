#!/usr/bin/env python3
"""Builds the packages of packaging/debian in suites of Debian, installs them in minimal systems and uses them. As root.

    scripts/debian_packages.py [--fast] [--built] SUITE...     SUITE: debian13 or unstable

--fast: without optimisation. --built: takes the packages that the last run built. scripts/suite.py says where the
suites lie. A minimal system, made by debootstrap and kept, has what is essential in the suite; what is installed in it
for a step is gone after the step. So a step fails if a package does not name what it needs.

Prints a line for each step, what lintian says after the first, and last how many passed.
"""

import argparse
import os
import sys

import suite

FOLDER = '/root/packages'  # in the suite
BUILD = ('rm -rf {folder} && mkdir -p {folder}/tensorcask && '
         'tar --create --file=- --exclude=./.cache --exclude=./bazel-* . | tar --extract --file=- --directory '
         '{folder}/tensorcask && '
         'cd {folder}/tensorcask && cp -r packaging/debian debian && '
         'apt-get build-dep -y -qq --no-install-recommends ./ >/dev/null && '
         'DEB_BUILD_OPTIONS=\'{options}\' dpkg-buildpackage -us -uc -b')
APT = 'export DEBIAN_FRONTEND=noninteractive; apt-get update -qq; apt-get install -y -qq --no-install-recommends '
STEPS = {
    'the program alone: demo, its manual':
        APT + '/packages/tensorcask_*.deb /packages/libtensorcask0.1_*.deb man-db >/dev/null && tensorcask --version && '
        'tensorcask demo && man tensorcask | grep -q SYNOPSIS && ! command -v g++',
    'programs by CMake and by pkg-config':
        APT + '/packages/tensorcask_*.deb /packages/libtensorcask0.1_*.deb /packages/libtensorcask-dev_*.deb '
        'cmake g++ make pkgconf >/dev/null && mkdir /tmp/here && '
        'AUTOPKGTEST_TMP=/tmp/here packaging/debian/tests/consumers',
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--fast', action='store_true', help='without optimisation, which takes half the time')
    parser.add_argument('--built', action='store_true', help='the packages that the last run built')
    parser.add_argument('suite', nargs='+', choices=sorted(suite.CODE_NAMES))
    args = parser.parse_args()
    results = []

    def step(name, made, command, *mounts, **kwargs):
        passed = made.run(command, mounts, stdout=sys.stderr, **kwargs).returncode == 0
        print(f'{"PASSED" if passed else "FAILED"} {made.name}: {name}', flush=True)
        results.append(passed)
        return passed

    for name in args.suite:
        full = suite.Suite(name)
        full.make()
        if not args.built:
            full.install('build-essential debhelper dpkg-dev lintian')
            options = f'parallel={os.cpu_count()}' + (' noopt' if args.fast else '')
            if not step('dpkg-buildpackage', full, BUILD.format(folder=FOLDER, options=options)):
                continue
        step('lintian', full, f'cd {FOLDER} && lintian --fail-on error *.changes >&2')
        minimal = suite.Suite(name, purpose='-minimal')
        minimal.make()
        for what, command in STEPS.items():
            step(what, minimal, command, (full.root + FOLDER, '/packages'), scratch=True)
    print(f'{sum(results)} passed, {len(results) - sum(results)} failed')
    return 0 if results and all(results) else 1


if __name__ == '__main__':
    sys.exit(main())
