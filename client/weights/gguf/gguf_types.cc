#include "client/weights/gguf/gguf_types.h"

namespace gemmd::client {
namespace {

constexpr char kInteger[] = "integers of a matrix have 8 bits here: I8 is closest";
constexpr char kTable[] =
    "its codes stand for groups of elements in a table; int4-g32-f16 is closest: gemm quantize "
    "makes it of the f16 or f32 file";
constexpr char kOneBit[] =
    "its elements have one bit; int4-g128-f16 is closest: gemm quantize makes it of the f16 or f32 "
    "file";
constexpr char kProducts[] = "it is a type of activations within products; Q8_0 is closest";

constexpr std::optional<DataType> kNone;

constexpr GgufType kTypes[] = {
    {0, DataType::kF32, "F32", 1, 4, "", ""},
    {1, DataType::kF16, "F16", 1, 2, "", ""},
    {2, kNone, "Q4_0", 32, 18, "int4-g32-f16", ""},
    {3, kNone, "Q4_1", 32, 20, "int4-g32-f16-offset", ""},
    {6, kNone, "Q5_0", 32, 22, "int8-g32", ""},
    {7, kNone, "Q5_1", 32, 24, "uint8-g32-offset", ""},
    {8, kNone, "Q8_0", 32, 34, "int8-g32", ""},
    // 36 bytes with scale and sum as f16, and 40 as f32.
    {9, kNone, "Q8_1", 32, 0, "", kProducts},
    {10, kNone, "Q2_K", 256, 84, "int4-g16-f32-offset", ""},
    {11, kNone, "Q3_K", 256, 110, "int4-g16-f32", ""},
    {12, kNone, "Q4_K", 256, 144, "int4-g32-f32-offset", ""},
    {13, kNone, "Q5_K", 256, 176, "uint8-g32-offset", ""},
    {14, kNone, "Q6_K", 256, 210, "int8-g16", ""},
    {15, kNone, "Q8_K", 256, 292, "", kProducts},
    {16, kNone, "IQ2_XXS", 256, 66, "", kTable},
    {17, kNone, "IQ2_XS", 256, 74, "", kTable},
    {18, kNone, "IQ3_XXS", 256, 98, "", kTable},
    {19, kNone, "IQ1_S", 256, 50, "", kTable},
    {20, kNone, "IQ4_NL", 32, 18, "iq4-nl-g32-f16", ""},
    {21, kNone, "IQ3_S", 256, 110, "", kTable},
    {22, kNone, "IQ2_S", 256, 82, "", kTable},
    {23, kNone, "IQ4_XS", 256, 136, "iq4-nl-g32-f32", ""},
    {24, DataType::kInt8, "I8", 1, 1, "", ""},
    {25, kNone, "I16", 1, 2, "", kInteger},
    {26, kNone, "I32", 1, 4, "", kInteger},
    {27, kNone, "I64", 1, 8, "", kInteger},
    {28, DataType::kF64, "F64", 1, 8, "", ""},
    {29, kNone, "IQ1_M", 256, 56, "", kTable},
    {30, DataType::kBf16, "BF16", 1, 2, "", ""},
    {34, kNone, "TQ1_0", 256, 54, "int4-g128-f16", ""},
    {35, kNone, "TQ2_0", 256, 66, "int4-g128-f16", ""},
    {39, kNone, "MXFP4", 32, 17, "mxfp4", ""},
    {40, kNone, "NVFP4", 64, 36, "nvfp4", ""},
    {41, kNone, "Q1_0", 128, 18, "", kOneBit},
};

}  // namespace

absl::Span<const GgufType> GgufTypes() { return kTypes; }

const GgufType* FindGgufType(std::uint32_t number) {
  for (const GgufType& type : kTypes) {
    if (type.number == number) return &type;
  }
  return nullptr;
}

}  // namespace gemmd::client
