// A TensorProto of an ONNX file as a tensor, whose bytes stay where they lie: in raw_data, in
// float_data or double_data, or in a file beside the model. Those of int32_data are decoded.
//
//   TensorProto  dims 1, data_type 2, segment 3, float_data 4, int32_data 5, string_data 6,
//                int64_data 7, name 8, raw_data 9, double_data 10, uint64_data 11,
//                external_data 13: entries of key 1 and value 2, data_location 14: 1 is external
//
// Source: onnx.proto3 of onnx 1.23.2; its docs/ExternalData.md.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/bytes.h"
#include "client/weights/weight_tensor.h"

namespace gemmd::client {

inline constexpr std::size_t kMostOnnxDimensions = 16;
// The values of one int32_data, which are decoded: few matrices are there, but zero points are.
inline constexpr std::uint64_t kMostOnnxEntries = std::uint64_t{1} << 24;
inline constexpr std::size_t kMostOnnxFiles = 4096;

// Maps a file of the model's own folder, or one below it.
using OpenBesideOnnx = std::function<absl::StatusOr<Bytes>(const std::string& location)>;

// Reads the tensors of one model.
class OnnxTensorReader {
 public:
  // Keeps no reference to `open` behind its own life. REQUIRES: `file` outlives it.
  OnnxTensorReader(const Bytes& file, const OpenBesideOnnx& open) : file_(file), open_(open) {}

  // One that has no form for another reason than its type, or whose type safetensors has not, has a
  // layer that says why.
  // INVALID_ARGUMENT names the tensor, the field, its value and the limit: its bytes are not as
  // many as shape and type say, not whole in a file, in two fields or none, or a path leads
  // elsewhere. Else what `open` returns.
  absl::StatusOr<WeightTensor> Read(absl::string_view message);

  // Two tensors may have the same bytes of a file beside the model, but not some of each other's.
  absl::Status CheckApart();

 private:
  struct Fields;
  struct Range {
    std::string location;
    std::uint64_t begin;
    std::uint64_t end;
    std::string name;
  };

  absl::Status ReadFields(absl::string_view message, Fields& fields) const;
  absl::Status FindExternal(absl::string_view where, const Fields& fields, std::uint64_t size,
                            bool has_size, WeightTensor& tensor);
  absl::Status FindTyped(absl::string_view where, const Fields& fields, std::uint64_t size,
                         WeightTensor& tensor) const;
  absl::Status Decode(absl::string_view where, const Fields& fields, std::uint64_t size,
                      WeightTensor& tensor) const;

  const Bytes& file_;
  const OpenBesideOnnx& open_;
  std::map<std::string, Bytes> files_;  // by location
  std::vector<Range> ranges_;
};

// A tensor that is listed with the reason why it is not read.
void GiveReason(std::string why, WeightTensor& tensor);

}  // namespace gemmd::client
