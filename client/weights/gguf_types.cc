#include "client/weights/gguf_types.h"

namespace gemmd::client {
namespace {

constexpr char kInteger[] = "integers of a matrix have 8 bits here: I8 is closest";
constexpr char kOffset4[] =
    "each of its blocks has an offset of its own, which is no whole number of steps; "
    "int4-g32-f16-zp is closest: gemm quantize makes it of the f16 or f32 file";
constexpr char kOffset5[] =
    "each of its blocks has an offset of its own, which is no whole number of steps; "
    "int8-g32 is closest: gemm quantize makes it of the f16 or f32 file";
constexpr char kSixteen[] =
    "its blocks are of 16 elements with scales of either sign, and blocks of integers are of 32 "
    "and more here; int8-g32 is closest: gemm quantize makes it of the f16 or f32 file";
constexpr char kTable[] =
    "its codes stand for groups of elements in a table; int4-g32-f16 is closest: gemm quantize "
    "makes it of the f16 or f32 file";
constexpr char kFewBits[] =
    "its elements have less than 4 bits; int4-g128-f16 is closest: gemm quantize makes it of the "
    "f16 or f32 file";
constexpr char kProducts[] = "it is a type of activations within products; Q8_0 is closest";

constexpr std::optional<DataType> kNone;

constexpr GgufType kTypes[] = {
    {0, "F32", 1, 4, DataType::kF32, "", ""},
    {1, "F16", 1, 2, DataType::kF16, "", ""},
    {2, "Q4_0", 32, 18, kNone, "int4-g32-f16-zp", ""},
    {3, "Q4_1", 32, 20, kNone, "", kOffset4},
    {6, "Q5_0", 32, 22, kNone, "int8-g32", ""},
    {7, "Q5_1", 32, 24, kNone, "", kOffset5},
    {8, "Q8_0", 32, 34, kNone, "int8-g32", ""},
    // 36 bytes with scale and sum as f16, and 40 as f32.
    {9, "Q8_1", 32, 0, kNone, "", kProducts},
    {10, "Q2_K", 256, 84, kNone, "", kOffset4},
    {11, "Q3_K", 256, 110, kNone, "", kSixteen},
    {12, "Q4_K", 256, 144, kNone, "", kOffset4},
    {13, "Q5_K", 256, 176, kNone, "", kOffset5},
    {14, "Q6_K", 256, 210, kNone, "", kSixteen},
    {15, "Q8_K", 256, 292, kNone, "", kProducts},
    {16, "IQ2_XXS", 256, 66, kNone, "", kTable},
    {17, "IQ2_XS", 256, 74, kNone, "", kTable},
    {18, "IQ3_XXS", 256, 98, kNone, "", kTable},
    {19, "IQ1_S", 256, 50, kNone, "", kTable},
    {20, "IQ4_NL", 32, 18, kNone, "int8-g32", ""},
    {21, "IQ3_S", 256, 110, kNone, "", kTable},
    {22, "IQ2_S", 256, 82, kNone, "", kTable},
    {23, "IQ4_XS", 256, 136, kNone, "int8-g32", ""},
    {24, "I8", 1, 1, DataType::kInt8, "", ""},
    {25, "I16", 1, 2, kNone, "", kInteger},
    {26, "I32", 1, 4, kNone, "", kInteger},
    {27, "I64", 1, 8, kNone, "", kInteger},
    {28, "F64", 1, 8, DataType::kF64, "", ""},
    {29, "IQ1_M", 256, 56, kNone, "", kTable},
    {30, "BF16", 1, 2, DataType::kBf16, "", ""},
    {34, "TQ1_0", 256, 54, kNone, "", kFewBits},
    {35, "TQ2_0", 256, 66, kNone, "", kFewBits},
    {39, "MXFP4", 32, 17, kNone, "mxfp4", ""},
    {40, "NVFP4", 64, 36, kNone, "nvfp4", ""},
    {41, "Q1_0", 128, 18, kNone, "", kFewBits},
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
