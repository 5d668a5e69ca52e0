"""cc_interface: a library whose users see the headers of its interface and link what is behind it.

Bazel compiles a source again when any header changes that it could include, and what a cc_library
hands on is every header below it. Behind a cc_interface a header may change without that.
"""

def _cc_interface_impl(ctx):
    interface = ctx.attr.interface[CcInfo]
    everything = cc_common.merge_cc_infos(
        cc_infos = [interface] + [target[CcInfo] for target in ctx.attr.implementation],
    )
    return [
        DefaultInfo(files = depset(transitive = [
            target[DefaultInfo].files
            for target in ctx.attr.implementation
        ])),
        CcInfo(
            compilation_context = interface.compilation_context,
            linking_context = everything.linking_context,
        ),
    ]

cc_interface = rule(
    implementation = _cc_interface_impl,
    attrs = {
        "interface": attr.label(
            doc = "The cc_library with the headers, and with what they include themselves.",
            mandatory = True,
            providers = [CcInfo],
        ),
        "implementation": attr.label_list(
            doc = "Libraries that define what the headers declare.",
            providers = [CcInfo],
        ),
    },
    provides = [CcInfo],
)

def _header_list_impl(ctx):
    headers = depset(transitive = [
        target[CcInfo].compilation_context.headers
        for target in ctx.attr.deps
    ])
    list = ctx.actions.declare_file(ctx.label.name + ".txt")
    ctx.actions.write(list, "".join([file.short_path + "\n" for file in headers.to_list()]))
    return [DefaultInfo(files = depset([list]), runfiles = ctx.runfiles(files = [list]))]

header_list = rule(
    doc = "NAME.txt: the headers by which Bazel keys what includes any of `deps`, a path a line.",
    implementation = _header_list_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)
