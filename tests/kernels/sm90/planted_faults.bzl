"""Tests that a fault planted into the Hopper GEMM's source is caught."""

_HEADERS = [
    "raster.h",
    "tilings.h",
    "wgmma_consumer.h",
    "wgmma_epilogue.h",
    "wgmma_gemm.h",
    "wgmma_gemm_params.h",
    "wgmma_layout.h",
    "wgmma_pipeline.h",
    "wgmma_producer.h",
    "wgmma_store.h",
    "wgmma_types.h",
]

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
    copies = [name + "/" + header for header in _HEADERS]

    # The headers include each other, so all are copied and include the copies.
    native.genrule(
        name = name + "_source",
        srcs = ["//kernels/sm90:" + header for header in _HEADERS],
        outs = copies,
        cmd = " && ".join([
            "python3 $(location //deploy/check:plant_fault.py) $(location //kernels/sm90:%s)" % source +
            " $(RULEDIR)/%s/%s '%s' '%s'" % (name, source, find, replace),
        ] + [
            "cp $(location //kernels/sm90:%s) $(RULEDIR)/%s/%s" % (header, name, header)
            for header in _HEADERS
            if header != source
        ] + [
            "sed -i 's|\"kernels/sm90/|\"%s/|' $(OUTS)" % folder,
        ]),
        tools = ["//deploy/check:plant_fault.py"],
    )
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
