"""text_file: a file with the text that a .bzl file made."""

def _text_file_impl(ctx):
    ctx.actions.write(ctx.outputs.out, ctx.attr.text)

text_file = rule(
    implementation = _text_file_impl,
    attrs = {
        "out": attr.output(mandatory = True),
        "text": attr.string(mandatory = True),
    },
)
