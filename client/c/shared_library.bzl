"""shared_library: a shared library of the system's shared libraries and position-independent objects of ours."""

def _with_pic_impl(settings, attr):
    return {"//command_line_option:copt": settings["//command_line_option:copt"] + ["-fPIC"]}

_with_pic = transition(
    implementation = _with_pic_impl,
    inputs = ["//command_line_option:copt"],
    outputs = ["//command_line_option:copt"],
)

def _shared_library_impl(ctx):
    archives = []
    objects = []
    system = []
    for input in ctx.attr.dep[0][CcInfo].linking_context.linker_inputs.to_list():
        for library in input.libraries:
            file = library.static_library or library.pic_static_library
            if input.owner.workspace_name:
                # The system's archives are not position-independent; "libz.a" is -lz.
                system.append("-l" + file.basename[len("lib"):-len(".a")])
            elif library.alwayslink:
                objects += library.objects or library.pic_objects
            else:
                archives.append(file)
    out = ctx.actions.declare_file(ctx.attr.soname)
    arguments = ctx.actions.args()
    arguments.add_all([
        "-shared",
        "-Wl,-soname," + ctx.attr.soname,
        "-Wl,--version-script=" + ctx.file.version_script.path,
        "-Wl,--no-undefined,--gc-sections,--as-needed",
        # gRPC's threads and protobuf's registry of messages outlive every handle.
        "-Wl,-z,nodelete,-z,relro,-z,now",
        "-o",
        out,
    ] + ctx.attr.link_options)
    arguments.add("-Wl,--whole-archive")
    arguments.add_all([each for each in archives if each.owner == ctx.attr.dep[0].label])
    arguments.add("-Wl,--no-whole-archive")
    arguments.add_all(objects)
    arguments.add("-Wl,--start-group")
    arguments.add_all(archives)
    arguments.add("-Wl,--end-group")
    arguments.add_all(system)
    ctx.actions.run(
        executable = "/usr/bin/g++",
        arguments = [arguments],
        inputs = archives + objects + [ctx.file.version_script],
        outputs = [out],
        mnemonic = "LinkSharedLibrary",
        use_default_shell_env = True,  # g++ finds ld by PATH
    )
    return [DefaultInfo(files = depset([out]), runfiles = ctx.runfiles(files = [out]))]

shared_library = rule(
    implementation = _shared_library_impl,
    attrs = {
        "dep": attr.label(
            doc = "The cc_library whose objects are all linked; those below it where they are used.",
            cfg = _with_pic,
            providers = [CcInfo],
        ),
        "link_options": attr.string_list(doc = "Further options of g++."),
        "soname": attr.string(mandatory = True),
        "version_script": attr.label(
            doc = "The symbols to export and their versions; all others should be local.",
            allow_single_file = True,
            mandatory = True,
        ),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
)
