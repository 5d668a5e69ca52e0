"""Tests that a fault planted into a kernel's source is caught."""

def planted_fault_test(name, step, find, replace):
    """A test that ladder A with one text replaced fails on every seed.

    Args:
      name: what is wrong.
      step: the step that shows it, A03 for example.
      find: text that occurs once in kernels/sm80/ladder_a.h.
      replace: what stands there instead.
    """
    header = name + "/ladder_a.h"
    native.genrule(
        name = name + "_source",
        srcs = ["//kernels/sm80:ladder_a.h"],
        outs = [header],
        cmd = "python3 $(location //deploy/check:plant_fault.py) $< $@ '%s' '%s'" % (find, replace),
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
            "-DLADDER_A_STEP=" + step,
            '-DLADDER_A_HEADER=\\"%s/%s\\"' % (native.package_name(), header),
        ],
        deps = [
            "//kernels/emulator",
            "//kernels/sm80:ladder_a_source",
            "//tests/kernels/mma:half_operands",
            "@com_google_googletest//:gtest_main",
        ],
    )
