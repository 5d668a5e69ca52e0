#include "client/weights/onnx_types.h"

namespace gemmd::client {
namespace {

constexpr OnnxType kTypes[] = {
    {1, "F32", 32, 4, 0},     {2, "U8", 8, 5, 1},           {3, "I8", 8, 5, 1},
    {4, "U16", 16, 5, 2},     {5, "I16", 16, 5, 2},         {6, "I32", 32, 5, 4},
    {7, "I64", 64, 7, 0},     {8, "STRING", 0, 6, 0},       {9, "BOOL", 8, 5, 1},
    {10, "F16", 16, 5, 2},    {11, "F64", 64, 10, 0},       {12, "U32", 32, 11, 0},
    {13, "U64", 64, 11, 0},   {14, "C64", 64, 4, 0},        {15, "C128", 128, 10, 0},
    {16, "BF16", 16, 5, 2},   {17, "F8_E4M3", 8, 5, 1},     {18, "F8_E4M3FNUZ", 8, 5, 1},
    {19, "F8_E5M2", 8, 5, 1}, {20, "F8_E5M2FNUZ", 8, 5, 1}, {21, "U4", 4, 5, 1},
    {22, "I4", 4, 5, 1},      {23, "F4", 4, 5, 1},          {24, "F8_E8M0", 8, 5, 1},
    {25, "U2", 2, 5, 1},      {26, "I2", 2, 5, 1},          {27, "F6_E2M3", 0, 5, 0},
    {28, "F6_E3M2", 0, 5, 0},
};

}  // namespace

const OnnxType* FindOnnxType(std::uint64_t number) {
  for (const OnnxType& type : kTypes) {
    if (type.number == number) return &type;
  }
  return nullptr;
}

}  // namespace gemmd::client
