"""The test of a family of kernels that leaves out each call which synchronises, one after another."""

def deletion_test(sources, deps, srcs = [], copts = [], shard_count = None):
    """Builds deletion_test.cc, on tests/kernels/emulator/deletions.h.

    Args:
      sources: the family's filegroup, whose text the test reads.
      deps: of the family's headers and what runs them.
      srcs: headers of the test.
      copts: besides -O2.
      shard_count: in how many parts it runs.
    """
    native.cc_test(
        name = "deletion_test",
        srcs = ["deletion_test.cc"] + srcs,
        copts = ["-O2"] + copts,
        data = [sources],
        shard_count = shard_count,
        deps = deps + [
            "//tests/kernels/emulator:deletions",
            "@com_google_googletest//:gtest_main",
        ],
    )
