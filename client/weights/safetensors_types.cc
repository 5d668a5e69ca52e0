#include "client/weights/safetensors_types.h"

namespace gemmd::client {
namespace {

constexpr char kInteger[] = "integers of a matrix have 8 bits here: I8 or U8 is closest";
constexpr char kScales[] =
    "its codes have scales in another tensor, which is not read; mxfp4 and nvfp4 are closest";
constexpr char kFp6Scales[] =
    "its codes have scales in another tensor, which is not read; mxfp6 is closest";

constexpr std::optional<DataType> kNone;

constexpr SafetensorsType kTypes[] = {
    {"BOOL", 8, kNone, "", "truth values are no numbers: U8 is closest"},
    {"F4", 4, kNone, "", kScales},
    {"F6_E2M3", 6, kNone, "", kFp6Scales},
    {"F6_E3M2", 6, kNone, "", kFp6Scales},
    // Codes of uint8 always have a scale, so theirs is 1.
    {"U8", 8, kNone, "uint8-tensor", ""},
    {"I8", 8, DataType::kInt8, "", ""},
    {"F8_E5M2", 8, DataType::kFp8E5M2, "", ""},
    {"F8_E4M3", 8, DataType::kFp8E4M3, "", ""},
    {"F8_E8M0", 8, kNone, "", "it is a type of scales, and no matrix is of it"},
    // Decoded (fnuz.h).
    {"F8_E4M3FNUZ", 8, DataType::kF16, "", ""},
    {"F8_E5M2FNUZ", 8, DataType::kF16, "", ""},
    {"I16", 16, kNone, "", kInteger},
    {"U16", 16, kNone, "", kInteger},
    {"F16", 16, DataType::kF16, "", ""},
    {"BF16", 16, DataType::kBf16, "", ""},
    {"I32", 32, kNone, "", kInteger},
    {"U32", 32, kNone, "", kInteger},
    {"F32", 32, DataType::kF32, "", ""},
    {"C64", 64, kNone, "", "complex numbers have no form: F32 is closest"},
    {"F64", 64, DataType::kF64, "", ""},
    {"I64", 64, kNone, "", kInteger},
    {"U64", 64, kNone, "", kInteger},
};

}  // namespace

absl::Span<const SafetensorsType> SafetensorsTypes() { return kTypes; }

const SafetensorsType* FindSafetensorsType(absl::string_view name) {
  for (const SafetensorsType& type : kTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

}  // namespace gemmd::client
