"""cc_tests: the tests of a package, each of the file with its name."""

def cc_tests(tests, deps = [], **common):
    """A cc_test by GoogleTest for each.

    Args:
      tests: by name, what NAME.cc needs besides: headers and sources of the package, and libraries.
      deps: libraries that all of them need.
      **common: further attributes of all.
    """
    for name, needs in tests.items():
        sources = [each for each in needs if each.endswith((".h", ".cc"))]
        native.cc_test(
            name = name,
            srcs = [name + ".cc"] + sources,
            deps = deps + [each for each in needs if each not in sources] +
                   ["@com_google_googletest//:gtest_main"],
            **common
        )
