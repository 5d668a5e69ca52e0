// The names of the formats of packed.h, by which BUILD.bazel compiles launches: for a switch over
// them, whose cases the compiler counts.
#pragma once

#define GEMMD_QUANT_FORMATS(of)                                                                    \
  of(Int4) of(Int4G64) of(Int4G32) of(Uint4Offset) of(Uint4G64Offset) of(Uint4G32Offset)           \
      of(Uint4G32FloatOffset) of(TableG64Float) of(Iq4NlG32) of(Iq4NlG32Float) of(Mxfp4) of(Nvfp4) \
          of(Int8) of(Int8G64) of(Int8G32) of(Uint8G32Offset) of(E4m3) of(E5m2) of(MxE4m3)         \
              of(MxE5m2) of(MxE3m2) of(MxE2m3)
