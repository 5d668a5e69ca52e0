"""clang-tidy as one action for each source: what did not change is not checked again.

    bazel build --config=opt --config=tidy //...

The inputs of an action are the source, the headers it may include, the .clang-tidy files above
it and the version of the tool. clang-tidy finds its checks as it does in an editor.
"""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _configure_impl(rctx):
    tool = rctx.which("clang-tidy-22")
    version = "not installed"
    if tool != None:
        version = rctx.execute([tool, "--version"]).stdout
    rctx.file("version.txt", version)
    rctx.file("BUILD.bazel", "exports_files([\"version.txt\"])\n")

clang_tidy_configure = repository_rule(
    implementation = _configure_impl,
    environ = ["PATH"],
    local = True,
)

# Options of GCC that Clang does not know.
_GCC_ONLY = ["-fno-canonical-system-headers", "-Wno-free-nonheap-object", "-Wunused-but-set-parameter"]

_COMMAND = """
if ! log=$(clang-tidy-22 --quiet "$1" -- "${@:3}" 2>&1); then
  printf '%s\\n' "$log" >&2
  exit 1
fi
: >"$2"
"""

def _flags(ctx, compilation):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts,
        include_directories = compilation.includes,
        quote_include_directories = compilation.quote_includes,
        system_include_directories = compilation.system_includes,
        preprocessor_defines = depset(transitive = [compilation.defines, compilation.local_defines]),
    )
    flags = cc_common.get_memory_inefficient_command_line(
        feature_configuration = features,
        action_name = CPP_COMPILE_ACTION_NAME,
        variables = variables,
    )
    own = [ctx.expand_make_variables("copts", flag, {}) for flag in getattr(ctx.rule.attr, "copts", [])]

    # libstdc++'s templates use what it deprecates itself.
    warnings = [
        "-Wall",
        "-Wextra",
        "-Wno-deprecated-declarations",
        "-Wthread-safety",
        "-Wthread-safety-beta",  # the order of locks
    ]
    return [flag for flag in flags + own + warnings if flag not in _GCC_ONLY]

def _clang_tidy_impl(target, ctx):
    sources = [
        file
        for source in getattr(ctx.rule.attr, "srcs", [])
        for file in source.files.to_list()
        if file.is_source and file.extension == "cc" and not file.owner.workspace_name
    ]
    if CcInfo not in target or not sources or "no_tidy" in ctx.rule.attr.tags:
        return [OutputGroupInfo(tidy = depset())]
    compilation = target[CcInfo].compilation_context
    flags = _flags(ctx, compilation)
    private = [
        file
        for source in ctx.rule.attr.srcs
        for file in source.files.to_list()
        if file.extension != "cc"
    ]
    configuration = ctx.files._version + [
        file
        for file in ctx.files._configuration
        if target.label.package.startswith(file.owner.package)
    ]
    outputs = []
    for source in sources:
        output = ctx.actions.declare_file("_tidy/%s/%s.ok" % (target.label.name, source.basename))
        ctx.actions.run_shell(
            command = _COMMAND,
            arguments = [source.path, output.path] + flags,
            inputs = depset(
                [source] + private + configuration,
                transitive = [compilation.headers],
            ),
            outputs = [output],
            mnemonic = "ClangTidy",
            progress_message = "Checking %s" % source.short_path,
            use_default_shell_env = True,
        )
        outputs.append(output)
    return [OutputGroupInfo(tidy = depset(outputs))]

clang_tidy = aspect(
    implementation = _clang_tidy_impl,
    attrs = {
        "_configuration": attr.label_list(
            default = ["//:.clang-tidy", "//client/cli:.clang-tidy", "//tests:.clang-tidy"],
            allow_files = True,
        ),
        "_version": attr.label(
            default = "@clang_tidy//:version.txt",
            allow_files = True,
        ),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
    incompatible_use_toolchain_transition = True,
)
