"""The headers of the Hopper GEMM's kernel, which include each other."""

KERNEL_HEADERS = [
    "raster.h",
    "tilings.h",
    "wgmma_consumer.h",
    "wgmma_epilogue.h",
    "wgmma_gemm.h",
    "wgmma_gemm_params.h",
    "wgmma_layout.h",
    "wgmma_pipeline.h",
    "wgmma_producer.h",
    "wgmma_store.h",
    "wgmma_types.h",
]
