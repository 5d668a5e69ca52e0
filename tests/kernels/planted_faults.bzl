"""Tests that faults planted into the sources of a family of kernels are caught."""

_COMMAND = """
set -eu
cp "${@:8}" "$6"
python3 "$1" "$2/$3" "$6/$3" "$4" "$5"
sed -i "s|\\"$2/|\\"$7/|" "$6"/*
"""

# Copies of all headers of a package in a folder of their own, where they include each other and
# one has a text replaced.
def _planted_headers_impl(ctx):
    headers = [file for file in ctx.files.sources if file.extension == "h"]
    copies = [ctx.actions.declare_file(ctx.attr.folder + "/" + file.basename) for file in headers]
    ctx.actions.run_shell(
        command = _COMMAND,
        arguments = [
            ctx.file._plant.path,
            headers[0].dirname,
            ctx.attr.source,
            ctx.attr.find,
            ctx.attr.replace,
            copies[0].dirname,
            ctx.label.package + "/" + ctx.attr.folder,
        ] + [file.path for file in headers],
        inputs = headers + [ctx.file._plant],
        outputs = copies,
        mnemonic = "PlantFault",
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset(copies))]

_planted_headers = rule(
    implementation = _planted_headers_impl,
    attrs = {
        "folder": attr.string(mandatory = True),
        "sources": attr.label(mandatory = True),
        "source": attr.string(mandatory = True),
        "find": attr.string(mandatory = True),
        "replace": attr.string(mandatory = True),
        "_plant": attr.label(default = "//deploy/check:plant_fault.py", allow_single_file = True),
    },
)

def fault(source, find, replace, **words):
    """A fault.

    Args:
      source: the header that is changed.
      find: text that occurs once in it.
      replace: what stands there instead.
      **words: what the family's `run` says for these names in capitals: what shows the fault.
    """
    return struct(source = source, find = find, replace = replace, words = words)

def planted_fault_tests(
        sources,
        header,
        run_header,
        run,
        seeds,
        faults,
        deps,
        srcs = [],
        copts = [],
        is_caught_at_once = False):
    """For each fault a test NAME_test that the family with it fails on every seed.

    Args:
      sources: the family's filegroup, "//kernels/hopper/half:sources" for example.
      header: the one of its headers that has what is run.
      run_header: what runs it, included behind a changed copy of `header`. It includes no header
        of the family itself.
      run: the call, of emulator::Options options; gives a string that says what was wrong.
      seeds: from 1 to this.
      faults: by name.
      deps: of the family's headers and the run header.
      srcs: headers of the test.
      copts: besides -O2.
      is_caught_at_once: that it fails where copies land at once, too.
    """
    for name, each in faults.items():
        call = run
        for word, text in each.words.items():
            call = call.replace(word.upper(), str(text))
        _planted_headers(
            name = name + "_headers",
            folder = name,
            sources = sources,
            source = each.source,
            find = each.find,
            replace = each.replace,
        )
        native.cc_test(
            name = name + "_test",
            srcs = [
                "//tests/kernels:planted_fault_test.cc",
                ":%s_headers" % name,
            ] + srcs,
            # The source is one of many tests', with headers that are not in the tree.
            tags = ["no_tidy"],
            copts = [
                "-O2",
                '-DPLANTED_HEADER=\\"%s/%s/%s\\"' % (native.package_name(), name, header),
                '-DPLANTED_RUN_HEADER=\\"%s\\"' % run_header,
                "'-DPLANTED_RUN=%s'" % call,
                "-DPLANTED_SEEDS=%d" % seeds,
                "-DPLANTED_IS_CAUGHT_AT_ONCE=%d" % (1 if is_caught_at_once else 0),
            ] + copts,
            deps = deps + [
                "//kernels/emulator",
                "@com_google_googletest//:gtest_main",
            ],
        )
