"""Tests that a fault planted into the f32 product's source is caught."""

load("//kernels/sm90f32:headers.bzl", "HEADERS")
load("//tests/kernels:planted_headers.bzl", "planted_headers")

def planted_fault_test(name, source, tiling, shape, find, replace):
    """A test that a tiling with one text replaced fails on every seed.

    Args:
      name: what is wrong.
      source: the header under kernels/sm90f32 that is changed.
      tiling: its index in kernels/sm90f32/tilings.h.
      shape: "m,n,k" that shows it.
      find: text that occurs once in the source.
      replace: what stands there instead.
    """
    folder = native.package_name() + "/" + name
    copies = planted_headers(name, "kernels/sm90f32", HEADERS, source, find, replace)
    native.cc_test(
        name = name + "_test",
        srcs = [
            "direct_run.h",
            "f32_planes.h",
            "planted_fault_test.cc",
        ] + copies,
        # The source is one of many tests', with a header that is not in the tree.
        tags = ["no_tidy"],
        copts = [
            "-O2",
            "-ffp-contract=off",
            '-DSM90F32_HEADER=\\"%s/launch.h\\"' % folder,
            "-DSM90F32_TILING=%d" % tiling,
            "-DSM90F32_SHAPE=" + shape,
        ],
        deps = [
            "//kernels:kernel",
            "//kernels/emulator",
            "//kernels/epilogue:arithmetic",
            "//kernels/ptx",
            "//kernels/sm90:wgmma_gemm_source",
            "//tests/kernels/sm90:plane",
            "@com_google_googletest//:gtest_main",
        ],
    )
