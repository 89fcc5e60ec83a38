#!/usr/bin/env python3
"""Runs commands in another Debian suite, in a folder that debootstrap makes and that is kept. As root.

    scripts/suite.py [--folder FOLDER] SUITE [COMMAND...]     SUITE: debian13 or unstable; default command: bash

The command runs in /tensorcask there: a copy of this tree as git has it, with changes that are not committed. What it
builds stays for the next run, and so does a user.bazelrc of its own. TENSORCASK_TEST_DATA, if set, is /data there,
read-only. The packages come from the mirror that apt uses here. TENSORCASK_SUITES names another folder than
.cache/suites.

All mounts belong to the command's own namespace and end with it, so the folder can be removed at any time.
"""

import argparse
import filecmp
import os
import shlex
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CODE_NAMES = {'debian13': 'trixie', 'unstable': 'sid'}
BUILT = ('.cache', 'bazel-', 'user.bazelrc')  # beginnings of names in the copy that are not of the tree


def default_folder():
    return os.environ.get('TENSORCASK_SUITES') or os.path.join(ROOT, '.cache', 'suites')


def settings_of_apt():
    """How apt reaches the mirror here, and whether it takes lists that are old."""
    lines = subprocess.run(['apt-config', 'dump', 'Acquire'], text=True, stdout=subprocess.PIPE, check=True).stdout
    wanted = ('Acquire::Check-', 'Acquire::http', 'Acquire::Retries')
    return ''.join(line + '\n' for line in lines.splitlines() if line.startswith(wanted))


def mirror():
    lines = subprocess.run(['apt-get', 'indextargets', '--format', '$(SITE)', 'Created-By: Packages'], text=True,
                           stdout=subprocess.PIPE, check=True).stdout.split()
    if not lines:
        sys.exit('apt-get has no lists of packages: apt-get update')
    return lines[0]


class Suite:
    """`purpose`: of a system beside the one that has all that the suite was ever asked to install."""

    def __init__(self, name, folder=None, purpose=''):
        self.name = name
        self.root = os.path.join(os.path.abspath(folder or default_folder()), name + purpose)
        self.tree = os.path.join(self.root, 'tensorcask')

    def make(self):
        if os.geteuid() != 0:
            sys.exit(f'the suite {self.name} needs root: debootstrap and chroot')
        if not os.path.exists(os.path.join(self.root, 'etc', 'debian_version')) or \
                os.path.exists(os.path.join(self.root, 'debootstrap')):  # which debootstrap removes at its end
            os.makedirs(self.root, exist_ok=True)
            subprocess.run(['debootstrap', '--variant=minbase', CODE_NAMES[self.name], self.root, mirror()], check=True,
                           stdout=sys.stderr)
        for path in ('etc/resolv.conf', 'etc/hosts'):
            shutil.copyfile('/' + path, os.path.join(self.root, path))
        with open(os.path.join(self.root, 'etc', 'apt', 'apt.conf.d', '90outside'), 'w', encoding='utf-8') as file:
            file.write(settings_of_apt())
        os.makedirs(os.path.join(self.root, 'data'), exist_ok=True)
        self.copy_tree()

    def copy_tree(self):
        names = subprocess.run(['git', '-C', ROOT, 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
                               stdout=subprocess.PIPE, check=True, text=True).stdout.split('\0')
        names = {name for name in names if name and os.path.lexists(os.path.join(ROOT, name))}
        for folder, folders, files in os.walk(self.tree):
            if folder == self.tree:
                folders[:] = [name for name in folders if not name.startswith(BUILT)]
            for name in files:
                path = os.path.join(folder, name)
                if os.path.relpath(path, self.tree) not in names and not name.startswith(BUILT):
                    os.unlink(path)
        for name in names:
            source, target = os.path.join(ROOT, name), os.path.join(self.tree, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if os.path.islink(source):
                if os.path.lexists(target):
                    os.unlink(target)
                os.symlink(os.readlink(source), target)
            elif not os.path.exists(target) or not filecmp.cmp(source, target):
                shutil.copy2(source, target)

    def install(self, packages):
        """Installs Debian packages, named in one string."""
        # A mirror that stands still has lists that are old, and all that they name.
        command = ('(dpkg --status {0} >/dev/null 2>&1 || {{ apt-get update -qq; DEBIAN_FRONTEND=noninteractive '
                   'apt-get install -y -qq --no-install-recommends {0}; }}) >&2 </dev/null').format(packages)
        if self.run(command).returncode != 0:
            sys.exit(f'the suite {self.name} cannot install {packages}')

    def run(self, command, mounts=(), scratch=False, **kwargs):
        """Runs a command of the shell in the copy of the tree. `mounts`: folders, and where they are read there.

        `scratch`: what the command changes is in memory, and gone afterwards."""
        mounts = list(mounts)
        environment = {'HOME': '/root', 'LANG': 'C.UTF-8', 'PATH': '/usr/sbin:/usr/bin:/sbin:/bin',
                       'TERM': os.environ.get('TERM', 'dumb')}
        data = os.environ.get('TENSORCASK_TEST_DATA')
        if data:
            mounts.append((data, '/data'))
            environment['TENSORCASK_TEST_DATA'] = '/data'
        certificates = os.environ.get('PIP_CERT')  # by which pip knows its index
        if certificates:
            mounts.append((os.path.dirname(certificates), '/certificates'))
            environment['PIP_CERT'] = '/certificates/' + os.path.basename(certificates)
        lines = ['set -e', 'root="$1"']
        if scratch:
            lines += ['mount -t tmpfs tmpfs "$root/mnt"', 'mkdir "$root"/mnt/{changed,work,root}',
                      'mount -t overlay overlay -o "lowerdir=$root,upperdir=$root/mnt/changed,workdir=$root/mnt/work" '
                      '"$root/mnt/root"', 'root="$root/mnt/root"']
        lines += ['mount -t proc proc "$root/proc"', 'mount -t sysfs -o ro sysfs "$root/sys"',
                  'mount --rbind /dev "$root/dev"', 'mount -t tmpfs tmpfs "$root/tmp"']
        for source, target in mounts:
            place = '"$root"' + shlex.quote(target)
            lines += [f'mkdir -p {place}', f'mount --bind {shlex.quote(os.path.abspath(source))} {place}',
                      f'mount -o remount,bind,ro {place}']
        variables = ' '.join(shlex.quote(f'{name}={value}') for name, value in environment.items())
        lines.append(f'exec chroot "$root" env -i {variables} bash -c "cd /tensorcask && $2"')
        return subprocess.run(['unshare', '--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child',
                               'bash', '-c', '\n'.join(lines), 'suite', self.root, command], check=False, **kwargs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--folder', default=default_folder(), help='where the suites lie')
    parser.add_argument('suite', choices=sorted(CODE_NAMES))
    parser.add_argument('command', nargs=argparse.REMAINDER)
    args = parser.parse_args()
    suite = Suite(args.suite, args.folder)
    suite.make()
    return suite.run(shlex.join(args.command) if args.command else 'bash').returncode


if __name__ == '__main__':
    sys.exit(main())
