"""ptxas_report: what ptxas says of a .cu file's kernels, and their code, architecture by architecture."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@local_config_cuda//cuda:toolkit.bzl", "CUDA_HOME", "CUDA_VERSION")

# $1 is the report, NAME.txt, and the code of an architecture is NAME.ARCH.cubin; options follow.
_COMMAND = """
set -eu
report=$1
: > "$report"
for arch in %s; do
  %s/bin/nvcc "-arch=$arch" "${@:2}" -cubin -o "${report%%.txt}.$arch.cubin" 2>> "$report" ||
    { cat "$report" >&2; exit 1; }
done
"""

def _ptxas_report_impl(ctx):
    report = ctx.actions.declare_file(ctx.label.name + ".txt")
    if not ctx.files.srcs:
        ctx.actions.write(report, "no device code in this build\n")
        return [DefaultInfo(files = depset([report]), runfiles = ctx.runfiles(files = [report]))]
    code = [ctx.actions.declare_file("%s.%s.cubin" % (ctx.label.name, arch)) for arch in ctx.attr.archs]
    outputs = [report] + code
    toolchain = find_cpp_toolchain(ctx)
    compilation = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps + [ctx.attr._cudart]],
    ).compilation_context
    args = ctx.actions.args()
    args.add(report)
    args.add_all(["-x", "cu", "-std=c++17", "-O3", "-Xptxas", "-v", "-ccbin", toolchain.compiler_executable])
    args.add_all(["--objdir-as-tempdir", "--expt-relaxed-constexpr", "-DNDEBUG"])
    args.add_all(ctx.attr.copts)
    args.add_all(compilation.defines, before_each = "-D")
    args.add("-I.")
    args.add("-I" + ctx.bin_dir.path)
    args.add_all(compilation.quote_includes, before_each = "-I")
    args.add_all(compilation.includes, before_each = "-I")
    args.add_all(compilation.system_includes, before_each = "-isystem")
    args.add_all(ctx.files.srcs)
    ctx.actions.run_shell(
        command = _COMMAND % (" ".join(ctx.attr.archs), CUDA_HOME),
        arguments = [args],
        inputs = depset(ctx.files.srcs, transitive = [compilation.headers, toolchain.all_files]),
        outputs = outputs,
        env = {
            "PATH": "/usr/bin:/bin",
            "CUDA_TOOLKIT": CUDA_VERSION,
        },
        mnemonic = "PtxasReport",
    )
    return [DefaultInfo(files = depset(outputs), runfiles = ctx.runfiles(files = outputs))]

_ptxas_report = rule(
    implementation = _ptxas_report_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"]),
        "archs": attr.string_list(),
        "copts": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "_cudart": attr.label(default = "@local_config_cuda//cuda:cudart_static"),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
    incompatible_use_toolchain_transition = True,
)

def ptxas_report(name, src, archs, **kwargs):
    """Compiles for architectures that need not be the build's; keeps the code and what ptxas -v printed.

    NAME.txt has what it printed, or "no device code in this build" where CUDA is disabled; NAME.ARCH.cubin
    has the code.

    Args:
      name: of the report.
      src: the .cu file.
      archs: "sm_100a", for example.
      **kwargs: copts (for nvcc), deps and the common attributes.
    """
    _ptxas_report(
        name = name,
        srcs = select({
            "@local_config_cuda//cuda:using_cuda": [src],
            "//conditions:default": [],
        }),
        archs = archs,
        **kwargs
    )
