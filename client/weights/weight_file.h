// Files of weights as other programs write them. A file's bytes say what it is: safetensors, the
// index of safetensors shards, GGUF, .npz or ONNX. Tensors of safetensors may make layers, as their
// names, a config.json beside them and the file's metadata say (layers/), and those of ONNX, as its
// nodes say (onnx_layers.h).
//
// A file is believed about nothing: each tensor's type, shape and bytes must agree, lie whole
// within the file and not within another's. Errors begin with the path of the file that is wrong
// and name the field, its value and the limit.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/bytes.h"
#include "client/weights/layers/layer_config.h"
#include "client/weights/weight_tensor.h"

namespace gemmd::client {

enum class WeightFileKind : std::uint8_t { kSafetensors, kShards, kGguf, kNpz, kOnnx };

absl::string_view Name(WeightFileKind kind);

class WeightFile {
 public:
  // Maps the file, all shards of an index, and the files beside it in which an ONNX model has its
  // data. Reads the headers alone. Danger: as of InputFile::Map(), as long as this or one of its
  // tensors lives.
  //
  // INVALID_ARGUMENT: it is none of these files, or one that is not sound.
  static absl::StatusOr<WeightFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  WeightFileKind kind() const { return kind_; }
  // Returns whether it is one that `gemm quantize` wrote: its metadata has our keys.
  bool is_container() const { return is_container_; }
  // In the order of their names; those of GGUF and .npz in the file's.
  const std::vector<WeightTensor>& tensors() const { return tensors_; }
  // "NAME[3]" is a matrix of a stack. NOT_FOUND, with names that are like it.
  absl::StatusOr<WeightTensor> Find(absl::string_view name) const;

 private:
  WeightFile(std::string path, WeightFileKind kind);
  void Take(std::vector<WeightTensor> tensors);

  std::string path_;
  WeightFileKind kind_;
  bool is_container_ = false;
  std::vector<WeightTensor> tensors_;
  std::unordered_map<std::string, std::size_t> places_;  // of tensors, by name
};

// Returns whether the file begins as one of these; false for what cannot be opened.
bool BeginsAsWeights(const std::string& path);

// A safetensors file in memory, as Open() reads it; `owner` keeps the bytes.
struct SafetensorsContent {
  bool is_container = false;
  FileMetadata metadata;
  std::vector<WeightTensor> tensors;
};
absl::StatusOr<SafetensorsContent> ParseSafetensors(const Bytes& file);
absl::StatusOr<std::vector<WeightTensor>> ParseGgufTensors(const Bytes& file);

// Puts a tensor in the place of those that make a layer.
std::vector<WeightTensor> CombineLayers(std::vector<WeightTensor> tensors,
                                        const LayerConfig& config);

}  // namespace gemmd::client
