"""The headers of the f32 product, which include each other."""

HEADERS = [
    "consumer.h",
    "entries.h",
    "finish.h",
    "fragments.h",
    "launch.h",
    "layout.h",
    "params.h",
    "parts.h",
    "producer.h",
    "product.h",
    "split.h",
    "tilings.h",
]
