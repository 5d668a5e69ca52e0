"""Copies of a kernel's headers in which one text is replaced."""

def planted_headers(name, package, headers, source, find, replace):
    """Copies headers into a folder called `name`, where they include each other.

    Args:
      name: of the folder, and of the rule with "_source" behind it.
      package: where the headers are, "kernels/sm90" for example.
      headers: all that include one another.
      source: the one of them that is changed.
      find: text that occurs once in it.
      replace: what stands there instead.

    Returns:
      The copies' paths, for a target's srcs.
    """
    label = "//" + package + ":"
    copies = [name + "/" + header for header in headers]
    native.genrule(
        name = name + "_source",
        srcs = [label + header for header in headers],
        outs = copies,
        cmd = " && ".join([
            "python3 $(location //deploy/check:plant_fault.py) $(location %s%s)" % (label, source) +
            " $(RULEDIR)/%s/%s '%s' '%s'" % (name, source, find, replace),
        ] + [
            "cp $(location %s%s) $(RULEDIR)/%s/%s" % (label, header, name, header)
            for header in headers
            if header != source
        ] + [
            "sed -i 's|\"%s/|\"%s/%s/|' $(OUTS)" % (package, native.package_name(), name),
        ]),
        tools = ["//deploy/check:plant_fault.py"],
    )
    return copies
