"""cc_grpc_library: C++ service stubs from a proto_library.

Has the name, the label (@com_github_grpc_grpc//bazel:cc_grpc_library.bzl) and
the arguments of gRPC's own macro, so BUILD files do not depend on which is used.
"""

def _generate_impl(ctx):
    info = ctx.attr.src[ProtoInfo]
    mocks = ctx.attr.generate_mocks
    outs = []
    paths = []
    for proto in info.direct_sources:
        path = proto.path
        root = info.proto_source_root
        if root != "." and path.startswith(root + "/"):
            path = path[len(root) + 1:]
        paths.append(path)
        suffixes = [".grpc.pb.h", ".grpc.pb.cc"] + (["_mock.grpc.pb.h"] if mocks else [])
        for suffix in suffixes:
            outs.append(ctx.actions.declare_file(proto.basename[:-len(".proto")] + suffix, sibling = proto))
    descriptors = info.transitive_descriptor_sets

    # With strip_import_prefix the sources lie in a generated directory, which
    # cc_proto_library puts on the include path: the stubs go beside its headers.
    root = info.proto_source_root
    out_dir = root if root.startswith(ctx.bin_dir.path) else ctx.bin_dir.path
    if out_dir == ctx.bin_dir.path and ctx.label.workspace_root:
        out_dir += "/" + ctx.label.workspace_root

    args = ctx.actions.args()
    args.add_joined("--descriptor_set_in", descriptors, join_with = ":", format_joined = "%s")
    args.add("--plugin=protoc-gen-grpc=" + ctx.executable._plugin.path)
    args.add("--grpc_out=%s:%s" % ("generate_mock_code=true" if mocks else "", out_dir))
    args.add_all(paths)
    ctx.actions.run(
        executable = ctx.executable._protoc,
        tools = [ctx.executable._plugin],
        inputs = descriptors,
        outputs = outs,
        arguments = [args],
        mnemonic = "GrpcCodegen",
        progress_message = "Generating gRPC stubs %{label}",
    )
    return [
        DefaultInfo(files = depset(outs)),
        OutputGroupInfo(
            headers = depset([f for f in outs if f.extension == "h"]),
            sources = depset([f for f in outs if f.extension == "cc"]),
        ),
    ]

_generate = rule(
    implementation = _generate_impl,
    attrs = {
        "src": attr.label(mandatory = True, providers = [ProtoInfo]),
        "generate_mocks": attr.bool(),
        "_protoc": attr.label(
            default = "@com_google_protobuf//:protoc",
            executable = True,
            allow_single_file = True,
            cfg = "host",
        ),
        "_plugin": attr.label(
            default = "@com_github_grpc_grpc//:grpc_cpp_plugin",
            executable = True,
            allow_single_file = True,
            cfg = "host",
        ),
    },
)

def cc_grpc_library(name, srcs, deps, grpc_only = True, generate_mocks = False, **kwargs):
    """C++ service stubs.

    Args:
      name: name of the cc_library.
      srcs: one proto_library.
      deps: the cc_proto_library of the same protos.
      grpc_only: as in gRPC's macro; only True is supported.
      generate_mocks: also generate *_mock.grpc.pb.h.
      **kwargs: passed to the cc_library.
    """
    if len(srcs) != 1 or not grpc_only:
        fail("cc_grpc_library wants one proto_library in srcs, and grpc_only = True")
    codegen = "_%s_codegen" % name
    _generate(name = codegen, src = srcs[0], generate_mocks = generate_mocks, visibility = ["//visibility:private"])
    native.filegroup(name = codegen + "_hdrs", srcs = [":" + codegen], output_group = "headers")
    native.filegroup(name = codegen + "_srcs", srcs = [":" + codegen], output_group = "sources")
    native.cc_library(
        name = name,
        srcs = [":" + codegen + "_srcs"],
        hdrs = [":" + codegen + "_hdrs"],
        includes = ["_virtual_imports/" + srcs[0].split(":")[-1]],
        deps = deps + ["@com_github_grpc_grpc//:grpc++"],
        **kwargs
    )
