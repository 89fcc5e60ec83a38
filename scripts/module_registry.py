#!/usr/bin/env python3
"""Makes a registry of Bazel's modules in a folder, from git repositories that lie on this machine.

    scripts/module_registry.py --registry GIT --sources FOLDER [--instead MODULE=FOLDER]... [--bazel VERSION]
        --out FOLDER MODULE.bazel...

GIT: a git directory of the central registry. The folder of sources has git directories as OWNER+NAME/repo or
OWNER/NAME.git, by their names on GitHub. `--instead` names a folder with the sources of a module whose repository lacks
the version; without a folder the module is a stub, with neither rules nor toolchains.

For each module that the MODULE.bazel files ask for, directly or not, the registry gets all the versions that are named,
and the sources of the highest, with the patches and files that the central registry adds to them. Prints a line for
each of these: where its sources come from, or why there are none. Bazel asks for sources only of modules that a build
uses.

Bazel reads the folder by --registry=file://FOLDER. It can be moved.
"""

import argparse
import ast
import glob
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile

URL = re.compile(r'https://github[.]com/(?P<owner>[^/]+)/(?P<name>[^/]+)/(?:'
                 r'archive/(?:refs/tags/)?(?P<archive>.+?)[.](?:tar[.]gz|zip)|'
                 r'releases/download/(?P<release>[^/]+)/.*)$')


def git(repository, *arguments):
    result = subprocess.run(['git', '--git-dir', repository, *arguments], capture_output=True, check=False)
    return result.stdout if result.returncode == 0 else None


def dependencies(text, with_development=False):
    """{name: version} of the bazel_dep calls of a MODULE.bazel file."""
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == 'bazel_dep':
            values = dict(zip(('name', 'version'), (value.value for value in node.args)))
            values.update({word.arg: getattr(word.value, 'value', None) for word in node.keywords})
            if values.get('version') and (with_development or not values.get('dev_dependency')):
                found[values['name']] = values['version']
    return found


def without_rules(text):
    """A MODULE.bazel file with the same name, version and dependencies, and neither toolchains nor extensions."""
    lines = [ast.unparse(node) for node in ast.parse(text).body
             if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and
             getattr(node.value.func, 'id', '') in ('module', 'bazel_dep')]
    return '\n'.join(lines) + '\n'


def version_key(version):
    """Orders versions as Bazel does: identifiers of digits below others, a release above its candidates."""
    def identifiers(text):
        return [(0, int(part), '') if part.isdigit() else (1, 0, part) for part in text.split('.')]

    release, _, candidate = version.partition('+')[0].partition('-')
    return identifiers(release), candidate == '', identifiers(candidate)


def replace(path, old, new):
    with open(path, encoding='utf-8') as file:
        text = file.read()
    if old in text:
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text.replace(old, new))


class Registry:
    def __init__(self, registry, sources, out, bazel):
        self.bazel = bazel
        self.registry = registry
        self.sources = sources
        self.out = out

    def file(self, name, version, path):
        return git(self.registry, 'show', f'HEAD:modules/{name}/{version}/{path}')

    def write(self, content, *path):
        path = os.path.join(self.out, *path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'wb') as file:
            file.write(content)

    def versions(self, roots):
        """{name: versions} of all modules that are named, from `roots` on. Writes their MODULE.bazel files."""
        found = {}
        waiting = list(roots)
        while waiting:
            name, version = waiting.pop()
            if version in found.setdefault(name, set()):
                continue
            found[name].add(version)
            module = self.file(name, version, 'MODULE.bazel')
            if module is None:
                sys.exit(f'the registry has no {name} {version}')
            self.write(module, 'modules', name, version, 'MODULE.bazel')
            waiting += dependencies(module.decode()).items()
        return found

    def add_sources(self, name, version, instead=None):
        """Returns a sentence: what the sources are. `instead`: a folder with them."""
        source = json.loads(self.file(name, version, 'source.json'))
        folder = os.path.join(self.out, 'sources', name, version)
        self.write(json.dumps({'type': 'local_path', 'path': f'{name}/{version}'}).encode(), 'modules', name, version,
                   'source.json')
        shutil.rmtree(folder, ignore_errors=True)
        if instead == '':
            module = without_rules(self.file(name, version, 'MODULE.bazel').decode()).encode()
            self.write(module, 'modules', name, version, 'MODULE.bazel')
            self.write(module, 'sources', name, version, 'MODULE.bazel')
            return 'a stub'
        if instead:
            shutil.copytree(instead, folder, symlinks=True)
            what = instead
        else:
            what = self.unpack(source, folder)
        if not os.path.isdir(folder):
            return 'no sources: ' + what
        for path in source.get('overlay', {}):
            self.write(self.file(name, version, f'overlay/{path}'), 'sources', name, version, path)
        for patch in source.get('patches', {}):
            command = ['patch', '--quiet', '--force', '--no-backup-if-mismatch', f'-p{source.get("patch_strip", 0)}']
            applied = subprocess.run([*command, '-d', folder], input=self.file(name, version, f'patches/{patch}'),
                                     capture_output=True, check=False)
            if applied.returncode != 0:
                what += f'; {patch} does not fit: {" ".join(applied.stdout.decode().split())}'
        self.write(self.file(name, version, 'MODULE.bazel'), 'sources', name, version, 'MODULE.bazel')
        for file in glob.glob(os.path.join(folder, '**', '*.bzl'), recursive=True) if self.bazel else ():
            replace(file, 'native.bazel_version', repr(self.bazel))
        return what

    def unpack(self, source, folder):
        """Makes the folder, from a repository. Returns what it has, or why there is none."""
        url = URL.match(source.get('url', ''))
        if not url:
            return f'{source.get("url") or source.get("type")} is not on GitHub'
        places = [os.path.join(self.sources, *place) for place in (
            (f'{url["owner"]}+{url["name"]}', 'repo'), (url['owner'], f'{url["name"]}.git'))]
        repository = next((place for place in places if os.path.isdir(place)), None)
        if repository is None:
            return f'there is no repository {url["owner"]}/{url["name"]}'
        reference = url['archive'] or url['release']
        # A tree below a prefix `NAME-VERSION` or `NAME-VERSION/folder`: archives of git have no such prefix.
        below = source.get('strip_prefix', '').partition('/')[2] if url['archive'] else ''
        archive = git(repository, 'archive', '--format=tar', f'{reference}:{below}' if below else reference)
        if archive is None:
            return f'{url["owner"]}/{url["name"]} has no {reference}'
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(folder)
        commit = git(repository, 'rev-parse', f'{reference}^0').decode()[:12]
        return f'{url["owner"]}/{url["name"]} {reference}, {commit}'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--registry', required=True, help='the git directory of the central registry')
    parser.add_argument('--sources', required=True, help='the folder with the git directories of the modules')
    parser.add_argument('--instead', metavar='MODULE=FOLDER', action='append', default=[], help='sources of a module')
    parser.add_argument('--bazel', metavar='VERSION', help='of a Bazel that does not say its own, as Debian\'s')
    parser.add_argument('--out', required=True, help='the folder of the new registry')
    parser.add_argument('module', nargs='+', help='MODULE.bazel files: ours, a consumer\'s, and the one in Bazel')
    args = parser.parse_args()

    registry = Registry(args.registry, args.sources, args.out, args.bazel)
    instead = dict(pair.split('=', 1) for pair in args.instead)
    roots = set()
    for path in args.module:
        with open(path, encoding='utf-8') as file:
            roots |= set(dependencies(file.read(), with_development=True).items())
    roots = {(name, version) for name, version in roots if name != 'tensorcask'}
    registry.write(json.dumps({'mirrors': [], 'module_base_path': 'sources'}).encode(), 'bazel_registry.json')
    for name, versions in sorted(registry.versions(roots).items()):
        version = max(versions, key=version_key)
        print(f'{name} {version}: {registry.add_sources(name, version, instead.get(name))}', flush=True)
    return 0


if __name__ == '__main__':
    sys.exit(main())
