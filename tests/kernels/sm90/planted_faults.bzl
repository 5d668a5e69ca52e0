"""Tests that a fault planted into the Hopper GEMM's source is caught."""

load("//kernels/sm90:headers.bzl", "KERNEL_HEADERS")
load("//tests/kernels:planted_headers.bzl", "planted_headers")

def planted_fault_test(name, source, tiling, shape, find, replace):
    """A test that a tiling with one text replaced fails on every seed.

    Args:
      name: what is wrong.
      source: the header under kernels/sm90 that is changed.
      tiling: its index in kernels/sm90/tilings.h.
      shape: "m,n,k" that shows it.
      find: text that occurs once in the source.
      replace: what stands there instead.
    """
    folder = native.package_name() + "/" + name
    copies = planted_headers(name, "kernels/sm90", KERNEL_HEADERS, source, find, replace)
    native.cc_test(
        name = name + "_test",
        srcs = [
            "direct_launch.h",
            "planted_fault_test.cc",
        ] + copies,
        # The source is one of many tests', with a header that is not in the tree.
        tags = ["no_tidy"],
        copts = [
            "-O2",
            '-DSM90_HEADER=\\"%s/wgmma_gemm.h\\"' % folder,
            "-DSM90_TILING=%d" % tiling,
            "-DSM90_SHAPE=" + shape,
        ],
        deps = [
            "//kernels:types",
            "//kernels/emulator",
            "//kernels/epilogue:arithmetic",
            "//kernels/ptx",
            "//tests/kernels/emulator:half_matrix",
            "@com_google_googletest//:gtest_main",
        ],
    )
