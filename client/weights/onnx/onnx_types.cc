#include "client/weights/onnx/onnx_types.h"

namespace gemmd::client {
namespace {

constexpr OnnxType kTypes[] = {
    {1, 4, "F32", 32, 0},     {2, 5, "U8", 8, 1},           {3, 5, "I8", 8, 1},
    {4, 5, "U16", 16, 2},     {5, 5, "I16", 16, 2},         {6, 5, "I32", 32, 4},
    {7, 7, "I64", 64, 0},     {8, 6, "STRING", 0, 0},       {9, 5, "BOOL", 8, 1},
    {10, 5, "F16", 16, 2},    {11, 10, "F64", 64, 0},       {12, 11, "U32", 32, 0},
    {13, 11, "U64", 64, 0},   {14, 4, "C64", 64, 0},        {15, 10, "C128", 128, 0},
    {16, 5, "BF16", 16, 2},   {17, 5, "F8_E4M3", 8, 1},     {18, 5, "F8_E4M3FNUZ", 8, 1},
    {19, 5, "F8_E5M2", 8, 1}, {20, 5, "F8_E5M2FNUZ", 8, 1}, {21, 5, "U4", 4, 1},
    {22, 5, "I4", 4, 1},      {23, 5, "F4", 4, 1},          {24, 5, "F8_E8M0", 8, 1},
    {25, 5, "U2", 2, 1},      {26, 5, "I2", 2, 1},          {27, 5, "F6_E2M3", 0, 0},
    {28, 5, "F6_E3M2", 0, 0},
};

}  // namespace

const OnnxType* FindOnnxType(std::uint64_t number) {
  for (const OnnxType& type : kTypes) {
    if (type.number == number) return &type;
  }
  return nullptr;
}

}  // namespace gemmd::client
