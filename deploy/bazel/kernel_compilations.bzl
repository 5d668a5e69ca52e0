"""kernel_compilations: a family of kernels as nvcc and as the C++ compiler make it.

What a family needs for that is written here from one table: the functions' declarations, their
definitions for either compiler, and what stands in where a build has no device code. The files lie
in bazel-bin, in the folder of the family.
"""

load("//deploy/bazel:cuda.bzl", "cuda_library")
load("//deploy/bazel:text_file.bzl", "text_file")

# As .bazelrc has them for sources of the tree, which these are as good as.
_WARNINGS = ["-Wall", "-Wextra", "-Werror"]

def _write(out, top, includes, namespace, blocks):
    text = "// Written by kernel_compilations() in %s/BUILD.bazel.\n" % native.package_name()
    text += top + "".join(["#include \"%s\"\n" % header for header in includes])
    text += "\nnamespace %s {\n\n%s\n\n}  // namespace %s\n" % (namespace, "\n\n".join(blocks), namespace)
    text_file(name = out + "_text", out = out, text = text)

def _wrapped(head, items, tail):
    """head(item, item, ...)tail, in lines of 100 as clang-format makes them."""
    lines = [head]
    for i, item in enumerate(items):
        item += tail if i + 1 == len(items) else ","
        blank = " " if i > 0 else ""
        if i > 0 and len(lines[-1] + blank + item) > 100:
            lines.append(" " * len(head) + item)
        else:
            lines[-1] += blank + item
    return "\n".join(lines)

_DECLARATIONS = """{type}
{count}
// Queues on target.stream. UNIMPLEMENTED: built without CUDA.
{name}Launch* Cuda{name}({parameter});

// Runs in target.emulator, whose report is of the last launch, or of the first wrong one.
{name}Launch* Emulated{name}({parameter});

// That of both which the target is for.
inline {name}Launch* {name}For(const LaunchTarget& target{more}) {{
  return target.emulator != nullptr ? Emulated{name}({argument}) : Cuda{name}({argument});
}}"""

def _declarations(name, parameters, count, key):
    return _DECLARATIONS.format(
        name = name,
        type = _wrapped("using %sLaunch = absl::Status(" % name, parameters, ");"),
        count = "\ninline constexpr int k%sVariants = %d;\n" % (name, count) if count else "",
        parameter = "int " + key if count else "",
        more = ", int " + key if count else "",
        argument = key if count else "",
    )

# A function that returns one of several, by its place among them.
def _chooser(head, table, choices, call = ""):
    lines = [head + "(int variant) {", "  static constexpr %s = {" % table]
    lines += ["      %s," % choice for choice in choices]
    return "\n".join(lines + ["  };", "  return kVariants[variant]%s;" % call, "}"])

# A function that returns one of several, by the value of its variant.
def _chooser_by_value(head, key, variants, choices):
    lines = ["%s(int %s) {" % (head, key), "  switch (%s) {" % key]
    for variant, choice in zip(variants, choices):
        lines += ["    case %s:" % variant, "      return %s;" % choice]
    return "\n".join(lines + ["    default:", "      return nullptr;", "  }", "}"])

# A function of one compilation.
def _definition(compilation, name, function, variants, key):
    head = "%sLaunch* %s%s" % (name, compilation, name)
    if not variants:
        return "%s() { return %s; }" % (head, function)
    if key != "variant":
        choices = ["%s<%s>" % (function, variant) for variant in variants]
        return _chooser_by_value(head, key, variants, choices)
    table = "%sLaunch* kVariants[]" % name
    return _chooser(head, table, ["%s<%s>" % (function, variant) for variant in variants])

# The .cu files. Those of a dict of variants have a function for each, and another one chooses.
def _cuda_files(name, namespace, launches, variants, key, entry_includes, includes):
    if type(variants) != "dict":
        _write(name + "_cuda.cu", "", includes, namespace, [
            _definition("Cuda", launch, launches[launch], variants, key)
            for launch in launches
        ])
        return [name + "_cuda.cu"]
    files = []
    first = 0
    for file, part in variants.items():
        _write("%s_%s.cu" % (name, file), "", includes, namespace, [
            "\n".join([
                "%sLaunch* Cuda%s%d() { return %s<%s>; }" % (launch, launch, first + i, function, variant)
                for i, variant in enumerate(part)
            ])
            for launch, function in launches.items()
        ])
        files.append("%s_%s.cu" % (name, file))
        first += len(part)
    blocks = []
    for launch in launches:
        one = ["Cuda%s%d" % (launch, i) for i in range(first)]
        blocks.append("\n".join(["%sLaunch* %s();" % (launch, each) for each in one]))
        head = "%sLaunch* Cuda%s" % (launch, launch)
        if key == "variant":
            blocks.append(_chooser(head, "%sLaunch* (*kVariants[])()" % launch, one, "()"))
            continue
        all_variants = [variant for part in variants.values() for variant in part]
        blocks.append(_chooser_by_value(head, key, all_variants, [each + "()" for each in one]))
    _write(name + "_table.cu", "", entry_includes, namespace, blocks)
    return files + [name + "_table.cu"]

def kernel_compilations(
        name,
        namespace,
        source,
        header,
        launches,
        parameters,
        variants = [],
        key = "variant",
        includes = [],
        archs = [],
        cuda_copts = [],
        cuda_srcs = [],
        emulated_copts = [],
        emulated_srcs = [],
        visibility = None):
    """Compiles host functions that launch kernels, for CUDA devices and for the emulator.

    For {"Product": "LaunchProduct"} the library `name` has NAME_entries.h, which declares
      ProductLaunch                 the functions' type
      kProductVariants              how many variants there are
      CudaProduct(variant)          LaunchProduct<that variant> as nvcc compiles it
      EmulatedProduct(variant)      the same as the C++ compiler does
      ProductFor(target, variant)   that of both which the target is for
    Without variants it is LaunchProduct itself, and there is no such parameter.

    Args:
      name: of the library. NAME_cuda and NAME_emulated are what it consists of.
      namespace: of the functions, "gemmd::hopper::half" for example.
      source: the cc_library with the kernels' headers.
      header: the one of them, of this package, that defines the functions.
      launches: functions that return absl::Status, by the name of their compilations.
      parameters: their types, before a last const LaunchTarget&.
      variants: their template arguments, in order. A dict of such lists spreads what takes
        long over files NAME_<their key>.cu, which are compiled side by side.
      key: the name of the parameter that says which variant. With any but "variant", which is the
        place of one in `variants`, it is the template argument itself, an int, for whose
        constants `includes` has a header; a value that is no variant's gives null.
      includes: headers that the parameters need, besides kernels/kernel.h.
      archs: the architectures that have code (cuda_library).
      cuda_copts: for nvcc.
      cuda_srcs: .cu files that are written by hand.
      emulated_copts: for the C++ compiler, besides -O2.
      emulated_srcs: the same as cuda_srcs for it.
      visibility: of the library `name`.
    """
    folder = native.package_name() + "/"
    entries = name + "_entries"
    entry_includes = [folder + entries + ".h"]
    launch_includes = sorted(entry_includes + [folder + header])
    all_variants = variants
    if type(variants) == "dict":
        all_variants = [variant for part in variants.values() for variant in part]

    _write(
        entries + ".h",
        "// The compilations of its launches, as functions.\n#pragma once\n\n" +
        "#include \"absl/status/status.h\"\n",
        sorted(includes + ["kernels/kernel.h"]),
        namespace,
        [_declarations(launch, parameters + ["const LaunchTarget&"], len(all_variants), key) for launch in launches],
    )
    _write(name + "_emulated.cc", "", launch_includes, namespace, [
        _definition("Emulated", launch, launches[launch], all_variants, key)
        for launch in launches
    ])
    _write(name + "_without_cuda.cc", "", entry_includes + ["kernels/without_cuda.h"], namespace, [
        "%sLaunch* Cuda%s(%s) { return WithoutCuda<%sLaunch>::Launch; }" %
        (launch, launch, "int" if all_variants else "", launch)
        for launch in launches
    ])

    native.cc_library(
        name = entries,
        hdrs = [entries + ".h"],
        deps = [
            source,
            "//kernels:kernel",
        ],
    )
    cuda_library(
        name = name + "_cuda",
        srcs = _cuda_files(
            name,
            namespace,
            launches,
            variants,
            key,
            entry_includes,
            launch_includes,
        ) + cuda_srcs,
        archs = archs,
        copts = cuda_copts,
        stub_srcs = [name + "_without_cuda.cc"],
        deps = [":" + entries],
    )
    native.cc_library(
        name = name + "_emulated",
        srcs = [name + "_emulated.cc"] + emulated_srcs,
        copts = ["-O2"] + _WARNINGS + emulated_copts,
        deps = [":" + entries],
    )
    native.cc_library(
        name = name,
        visibility = visibility,
        deps = [
            ":" + entries,
            ":%s_cuda" % name,
            ":%s_emulated" % name,
        ],
    )
