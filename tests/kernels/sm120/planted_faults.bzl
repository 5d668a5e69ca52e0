"""Tests that a fault planted into a kernel's source is caught."""

def planted_fault_test(name, step, find, replace):
    """A test that ladder B with one text replaced fails on every seed.

    Args:
      name: what is wrong.
      step: the step that shows it, TmaR32 for example.
      find: text that occurs once in the headers below, taken together.
      replace: what stands there instead.
    """
    headers = [
        "//kernels/sm120:warp_fragments.h",
        "//kernels/sm120:tensor_stages.h",
        "//kernels/sm120:ladder_b.h",
    ]
    header = name + "/ladder_b.h"
    native.genrule(
        name = name + "_source",
        srcs = headers,
        outs = [header],
        # One file of the three, which includes none of them.
        cmd = ("cat $(SRCS) | grep -v -E 'pragma once|include \"kernels/sm120/(warp|tensor_stages)' " +
               "> $@.whole && python3 $(location //deploy/check:plant_fault.py) $@.whole $@ '%s' '%s'") %
              (find, replace),
        tools = ["//deploy/check:plant_fault.py"],
    )
    native.cc_test(
        name = name + "_test",
        srcs = [
            "planted_fault_test.cc",
            header,
        ],
        # The source is one of many tests', with a header that is not in the tree.
        tags = ["no_tidy"],
        copts = [
            "-O2",
            "-DLADDER_B_STEP=" + step,
            '-DLADDER_B_HEADER=\\"%s/%s\\"' % (native.package_name(), header),
        ],
        deps = [
            ":ladder_b_run",
            "@com_google_googletest//:gtest_main",
        ],
    )
