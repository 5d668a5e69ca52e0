"""Repositories with the canonical names and labels of the libraries gemmd uses,
backed by the system's static archives and headers.

Headers come from /usr/include (a built-in include directory of the compiler, so
sandboxed actions see them); archives and tools are symlinked into the
repository, so they are tracked inputs.
"""

_HEADER = "package(default_visibility = [\"//visibility:public\"])\n"

def _libdirs(rctx):
    """Directories that may hold the archives, most specific first."""
    dirs = []
    extra = rctx.os.environ.get("SYSTEM_LIBRARY_PATH", "")
    dirs += [d for d in extra.split(":") if d]
    result = rctx.execute(["gcc", "-print-multiarch"])
    if result.return_code == 0 and result.stdout.strip():
        dirs.append("/usr/lib/" + result.stdout.strip())
    return dirs + ["/usr/lib64", "/usr/lib"]

def _find(rctx, dirs, name):
    for d in dirs:
        p = rctx.path(d + "/" + name)
        if p.exists:
            return p
    return None

def _require(rctx, dirs, name, package):
    p = _find(rctx, dirs, name)
    if p == None:
        fail("%s not found in %s: install the package %s" % (name, dirs, package))
    return p

def _cc_library(name, srcs = [], deps = [], linkopts = [], defines = [], includes = [], hdrs = None):
    out = "\ncc_library(\n    name = %r,\n" % name
    if srcs:
        out += "    srcs = %r,\n" % srcs
    if hdrs:
        out += "    hdrs = %s,\n" % hdrs
    if includes:
        out += "    includes = %r,\n" % includes
    if defines:
        out += "    defines = %r,\n" % defines
    if linkopts:
        out += "    linkopts = %r,\n" % linkopts
    if deps:
        out += "    deps = %r,\n" % deps
    return out + ")\n"

def _archive(rctx, dirs, lib, package):
    name = "lib%s.a" % lib
    rctx.symlink(_require(rctx, dirs, name, package), "lib/" + name)
    return "lib/" + name

# ---------------------------------------------------------------- Abseil

# Public targets by package, as in Abseil's own BUILD files.
_ABSL_PACKAGES = {
    "algorithm": ["algorithm", "container"],
    "base": ["base", "config", "core_headers", "dynamic_annotations", "endian", "log_severity"],
    "cleanup": ["cleanup"],
    "container": ["btree", "fixed_array", "flat_hash_map", "flat_hash_set", "inlined_vector", "node_hash_map", "node_hash_set"],
    "debugging": ["failure_signal_handler", "leak_check", "stacktrace", "symbolize"],
    "flags": ["commandlineflag", "config", "flag", "marshalling", "parse", "program_name", "reflection", "usage"],
    "functional": ["any_invocable", "bind_front", "function_ref"],
    "hash": ["hash"],
    "memory": ["memory"],
    "meta": ["type_traits"],
    "numeric": ["bits", "int128"],
    "random": ["bit_gen_ref", "distributions", "random", "seed_sequences"],
    "status": ["status", "statusor"],
    "strings": ["cord", "str_format", "strings"],
    "synchronization": ["synchronization"],
    "time": ["civil_time", "time"],
    "types": ["any", "optional", "span", "variant"],
    "utility": ["utility"],
}

def _absl_module(package, target):
    if package == "algorithm" and target == "container":
        return "absl_algorithm_container"
    if package == "flags":
        return "absl_flags" if target == "flag" else "absl_flags_" + target
    if package == "random":
        return "absl_random_random" if target == "random" else (
            "absl_random_" + target
        )
    return "absl_" + target

def _parse_pc(text):
    requires = []
    libs = []
    for line in text.split("\n"):
        if line.startswith("Requires:"):
            for word in line[len("Requires:"):].replace(",", " ").split(" "):
                if word.startswith("absl_"):
                    requires.append(word)
        elif line.startswith("Libs:"):
            libs = [w[2:] for w in line.split(" ") if w.startswith("-labsl_")]
    return requires, libs

def _absl_impl(rctx):
    dirs = _libdirs(rctx)
    pcdir = _require(rctx, dirs, "pkgconfig/absl_base.pc", "libabsl-dev").dirname
    build = _HEADER
    modules = []
    for f in pcdir.readdir():
        if not (f.basename.startswith("absl_") and f.basename.endswith(".pc")):
            continue
        name = f.basename[:-3]
        modules.append(name)
        requires, libs = _parse_pc(rctx.read(f))
        build += _cc_library(
            name = name,
            srcs = [_archive(rctx, dirs, lib, "libabsl-dev") for lib in libs],
            deps = [":" + r for r in requires],
        )
    rctx.file("BUILD.bazel", build)
    for package, targets in _ABSL_PACKAGES.items():
        text = _HEADER
        for t in targets:
            module = _absl_module(package, t)
            if module in modules:
                text += "\nalias(\n    name = %r,\n    actual = \"//:%s\",\n)\n" % (t, module)
        rctx.file("absl/%s/BUILD.bazel" % package, text)

_system_absl = repository_rule(
    implementation = _absl_impl,
    environ = ["SYSTEM_LIBRARY_PATH"],
    local = True,
)

# ---------------------------------------------------------------- Protocol Buffers

_WELL_KNOWN = [
    ("descriptor", []),
    ("any", []),
    ("duration", []),
    ("empty", []),
    ("field_mask", []),
    ("struct", []),
    ("timestamp", []),
    ("wrappers", []),
]

def _protobuf_impl(rctx):
    dirs = _libdirs(rctx)
    protoc = rctx.which("protoc")
    if protoc == None:
        fail("protoc not found: install the package protobuf-compiler")
    rctx.symlink(protoc, "bin/protoc")
    rctx.symlink(rctx.path("/usr/include/google/protobuf"), "google/protobuf")
    build = _HEADER
    build += _cc_library(
        name = "protobuf",
        srcs = [_archive(rctx, dirs, "protobuf", "libprotobuf-dev")],
        deps = [":z"],
        linkopts = ["-pthread"],
    )
    build += _cc_library(name = "z", srcs = [_archive(rctx, dirs, "z", "zlib1g-dev")])
    build += """
# The default --proto_compiler and --proto_toolchain_for_cc of Bazel.
alias(
    name = "protoc",
    actual = "bin/protoc",
)

proto_lang_toolchain(
    name = "cc_toolchain",
    blacklisted_protos = [%s],
    command_line = "--cpp_out=$(OUT)",
    runtime = ":protobuf",
)
""" % ", ".join(["\":%s_proto\"" % n for n, _ in _WELL_KNOWN])
    for name, deps in _WELL_KNOWN:
        build += """
proto_library(
    name = "%s_proto",
    srcs = ["google/protobuf/%s.proto"],
)
""" % (name, name)
    rctx.file("BUILD.bazel", build)

_system_protobuf = repository_rule(
    implementation = _protobuf_impl,
    environ = ["SYSTEM_LIBRARY_PATH", "PATH"],
    local = True,
)

# ---------------------------------------------------------------- gRPC

def _grpc_impl(rctx):
    dirs = _libdirs(rctx)
    plugin = rctx.which("grpc_cpp_plugin")
    if plugin == None:
        fail("grpc_cpp_plugin not found: install the package protobuf-compiler-grpc")
    rctx.symlink(plugin, "bin/grpc_cpp_plugin")

    def_absl = [
        "//absl/base",
        "//absl/cleanup",
        "//absl/container:flat_hash_map",
        "//absl/container:flat_hash_set",
        "//absl/container:inlined_vector",
        "//absl/functional:any_invocable",
        "//absl/functional:bind_front",
        "//absl/functional:function_ref",
        "//absl/hash",
        "//absl/memory",
        "//absl/meta:type_traits",
        "//absl/random",
        "//absl/status",
        "//absl/status:statusor",
        "//absl/strings",
        "//absl/strings:cord",
        "//absl/strings:str_format",
        "//absl/synchronization",
        "//absl/time",
        "//absl/types:optional",
        "//absl/types:span",
        "//absl/types:variant",
        "//absl/utility",
    ]
    absl = ["@com_google_absl" + a for a in def_absl]

    build = _HEADER
    for name, package in [("cares", "libc-ares-dev"), ("re2", "libre2-dev"), ("ssl", "libssl-dev"), ("crypto", "libssl-dev")]:
        build += _cc_library(
            name = name,
            srcs = [_archive(rctx, dirs, name, package)],
            deps = [":crypto"] if name == "ssl" else [],
            linkopts = ["-ldl", "-pthread"] if name == "crypto" else [],
        )
    build += _cc_library("address_sorting", [_archive(rctx, dirs, "address_sorting", "libgrpc-dev")])
    build += _cc_library("upb", [_archive(rctx, dirs, "upb", "libgrpc-dev")])
    build += _cc_library("gpr", [_archive(rctx, dirs, "gpr", "libgrpc-dev")], deps = absl, linkopts = ["-lrt", "-ldl", "-pthread"])
    build += _cc_library(
        "grpc",
        [_archive(rctx, dirs, "grpc", "libgrpc-dev")],
        deps = [":address_sorting", ":re2", ":upb", ":cares", "@com_google_protobuf//:z", ":gpr", ":ssl", ":crypto"] + absl,
    )
    build += _cc_library(
        "grpc++",
        [_archive(rctx, dirs, "grpc++", "libgrpc++-dev")],
        deps = [":grpc", "@com_google_protobuf//:protobuf"],
    )

    # It registers itself from plugin objects that the binary does not name, so the archive is
    # linked whole.
    _archive(rctx, dirs, "grpcpp_channelz", "libgrpc++-dev")
    build += """
cc_import(
    name = "grpcpp_channelz_whole",
    static_library = "lib/libgrpcpp_channelz.a",
    alwayslink = True,
)

cc_library(
    name = "grpcpp_channelz",
    deps = [":grpcpp_channelz_whole", ":grpc++"],
)
"""
    build += _cc_library("grpc++_error_details", [_archive(rctx, dirs, "grpc++_error_details", "libgrpc++-dev")], deps = [":grpc++"])
    build += """
alias(
    name = "grpc_cpp_plugin",
    actual = "bin/grpc_cpp_plugin",
)
"""
    rctx.file("BUILD.bazel", build)
    rctx.file("bazel/BUILD.bazel", "")
    rctx.symlink(Label("//deploy/bazel:cc_grpc_library.bzl"), "bazel/cc_grpc_library.bzl")

_system_grpc = repository_rule(
    implementation = _grpc_impl,
    environ = ["SYSTEM_LIBRARY_PATH", "PATH"],
    local = True,
)

# ---------------------------------------------------------------- GoogleTest

def _googletest_impl(rctx):
    dirs = _libdirs(rctx)
    build = _HEADER
    build += _cc_library(
        "gtest",
        [_archive(rctx, dirs, "gmock", "libgmock-dev"), _archive(rctx, dirs, "gtest", "libgtest-dev")],
        linkopts = ["-pthread"],
    )
    build += _cc_library("gtest_main", [_archive(rctx, dirs, "gmock_main", "libgmock-dev")], deps = [":gtest"])
    rctx.file("BUILD.bazel", build)

_system_googletest = repository_rule(
    implementation = _googletest_impl,
    environ = ["SYSTEM_LIBRARY_PATH"],
    local = True,
)

# ---------------------------------------------------------------- OpenBLAS

def _openblas_impl(rctx):
    dirs = _libdirs(rctx)
    archive = None
    for variant in ["openblas-pthread/", "openblas-serial/", ""]:
        archive = archive or _find(rctx, dirs, variant + "libopenblas.a")
    build = _HEADER
    if archive == None:
        build += _cc_library("openblas", defines = ["HAVE_OPENBLAS=0"])
    else:
        rctx.symlink(archive, "lib/libopenblas.a")
        include = None
        for inc in [str(archive.dirname).replace("/lib/", "/include/"), "/usr/include"]:
            if include == None and rctx.path(inc + "/cblas.h").exists:
                include = inc
        rctx.symlink(include, "include/openblas")
        build += _cc_library(
            "openblas",
            ["lib/libopenblas.a"],
            hdrs = "glob([\"include/openblas/*.h\"])",
            includes = ["include"],
            defines = ["HAVE_OPENBLAS=1"],
            linkopts = ["-pthread", "-lm"],
        )
    rctx.file("BUILD.bazel", build)

_system_openblas = repository_rule(
    implementation = _openblas_impl,
    environ = ["SYSTEM_LIBRARY_PATH"],
    local = True,
)

# ---------------------------------------------------------------- smaller ones

def _benchmark_impl(rctx):
    # Debian has it as a shared library alone.
    _require(rctx, _libdirs(rctx), "libbenchmark.so", "libbenchmark-dev")
    rctx.file("BUILD.bazel", _HEADER + _cc_library(
        "benchmark",
        linkopts = ["-lbenchmark", "-pthread"],
    ))

_system_benchmark = repository_rule(
    implementation = _benchmark_impl,
    environ = ["SYSTEM_LIBRARY_PATH"],
    local = True,
)

# The headers are Debian's libboost1.74-dev, which libboost-context-dev brings.
def _boost_impl(rctx):
    dirs = _libdirs(rctx)
    if not rctx.path("/usr/include/boost/beast.hpp").exists:
        fail("/usr/include/boost/beast.hpp not found: install the package libboost-context-dev")
    rctx.file("BUILD.bazel", _HEADER + _cc_library(
        "context",
        [_archive(rctx, dirs, "boost_context", "libboost-context-dev")],
    ) + _cc_library("headers"))

_system_boost = repository_rule(
    implementation = _boost_impl,
    environ = ["SYSTEM_LIBRARY_PATH"],
    local = True,
)

def _jemalloc_impl(rctx):
    dirs = _libdirs(rctx)
    rctx.file("BUILD.bazel", _HEADER + _cc_library(
        "jemalloc",
        [_archive(rctx, dirs, "jemalloc", "libjemalloc-dev")],
        linkopts = ["-ldl", "-lm", "-pthread"],
    ))

_system_jemalloc = repository_rule(
    implementation = _jemalloc_impl,
    environ = ["SYSTEM_LIBRARY_PATH"],
    local = True,
)

def _headers_impl(rctx):
    header = "/usr/include/" + rctx.attr.header
    if not rctx.path(header).exists:
        fail("%s not found: install the package %s" % (header, rctx.attr.package))
    rctx.file("BUILD.bazel", _HEADER + _cc_library(rctx.attr.target))

# A library that is headers alone: /usr/include is a built-in include directory,
# so the target only proves that the package is there.
_system_headers = repository_rule(
    implementation = _headers_impl,
    attrs = {
        "header": attr.string(mandatory = True),
        "package": attr.string(mandatory = True),
        "target": attr.string(mandatory = True),
    },
    local = True,
)

def system_dependencies():
    """Defines every external repository that BUILD files here name."""
    _system_absl(name = "com_google_absl")
    _system_protobuf(name = "com_google_protobuf")
    _system_grpc(name = "com_github_grpc_grpc")
    _system_googletest(name = "com_google_googletest")
    _system_openblas(name = "openblas")
    _system_benchmark(name = "com_github_google_benchmark")
    _system_boost(name = "boost")
    _system_jemalloc(name = "jemalloc")
    _system_headers(
        name = "com_github_nlohmann_json",
        header = "nlohmann/json.hpp",
        package = "nlohmann-json3-dev",
        target = "json",
    )
    _system_headers(
        name = "com_github_cliutils_cli11",
        header = "CLI/CLI.hpp",
        package = "libcli11-dev",
        target = "cli11",
    )
