"""cask_fuzz_target: a libFuzzer entry point, as a test that needs no fuzzer."""

load("//bazel:cask.bzl", "cask_cc_test")

def cask_fuzz_target(name, deps):
    """Makes the test `<name>_test` from `<name>_fuzz.cc`, which replays the seeds in corpus/<name> and changes to them.

    Under clang's fuzzer the same file is built by scripts/fuzz.py.
    """
    corpus = native.glob(["corpus/{}/*".format(name)])
    cask_cc_test(
        name = name + "_test",
        size = "small",
        srcs = [name + "_fuzz.cc"],
        args = ["$(location {})".format(path) for path in corpus],
        data = corpus,
        deps = deps + [":replay"],
    )
