#include "client/weights/weight_file.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/text/quoted.h"
#include "client/file.h"
#include "client/quantized/safetensors.h"
#include "client/weights/gguf/gguf.h"
#include "client/weights/layers/bitsandbytes_layers.h"
#include "client/weights/layers/comfy_layers.h"
#include "client/weights/layers/hqq_layers.h"
#include "client/weights/layers/layer_config.h"
#include "client/weights/layers/mlx_layers.h"
#include "client/weights/layers/packed_layers.h"
#include "client/weights/layers/quanto_layers.h"
#include "client/weights/layers/scaled_layers.h"
#include "client/weights/layers/torchao_layers.h"
#include "client/weights/npz.h"
#include "client/weights/onnx/onnx.h"
#include "client/weights/safetensors_types.h"
#include "client/weights/shard_index.h"

namespace gemmd::client {
namespace {

// The limit of the safetensors library.
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;
// The names of a suggestion.
constexpr std::size_t kMostLikeNames = 3;

absl::Status Annotate(absl::string_view path, const absl::Status& status) {
  return {status.code(), absl::StrCat(path, ": ", status.message())};
}

Bytes Part(const Bytes& file, std::uint64_t begin, std::uint64_t end) {
  return file.Part(file.view().substr(begin, end - begin));
}

// Bytes of such a tensor; an error where there can be none.
absl::StatusOr<std::uint64_t> SizeOf(const SafetensorsType& type,
                                     const std::vector<std::uint64_t>& shape) {
  std::uint64_t bits = static_cast<std::uint64_t>(type.bits);
  // A dimension of 0 makes it empty, whatever the others would overflow to.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return std::uint64_t{0};
  for (const std::uint64_t dimension : shape) {
    if (__builtin_mul_overflow(bits, dimension, &bits)) {
      return absl::InvalidArgumentError(
          absl::StrCat("has shape ", ShapeText(shape), ", which is 2^61 bytes or more"));
    }
  }
  if (bits % 8 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", bits, " bits, which are no whole bytes"));
  }
  return bits / 8;
}

std::optional<WeightFileKind> KindOf(absl::string_view begin) {
  if (absl::StartsWith(begin, "GGUF")) return WeightFileKind::kGguf;
  if (absl::StartsWith(begin, "PK\3\4")) return WeightFileKind::kNpz;
  if (absl::StartsWith(begin, "{")) return WeightFileKind::kShards;
  const bool has_brace =
      begin.size() > kSafetensorsPreambleBytes && begin[kSafetensorsPreambleBytes] == '{';
  // The upper half of a length that safetensors accepts is 0, which a text of ONNX has not.
  const bool has_length = has_brace && begin.substr(4, 4) == absl::string_view("\0\0\0\0", 4);
  if (!has_length && BeginsAsOnnx(begin)) return WeightFileKind::kOnnx;
  if (has_brace) return WeightFileKind::kSafetensors;
  return std::nullopt;
}

// "NAME[3]" as NAME and 3.
std::optional<std::pair<absl::string_view, std::uint64_t>> SplitIndex(absl::string_view name) {
  const std::size_t bracket = name.rfind('[');
  std::uint64_t index = 0;
  if (bracket == absl::string_view::npos || !absl::ConsumeSuffix(&name, "]")) return std::nullopt;
  if (!absl::SimpleAtoi(name.substr(bracket + 1), &index)) return std::nullopt;
  return std::make_pair(name.substr(0, bracket), index);
}

// Says what else a file may be that somebody took for one of weights.
std::string OtherKind(absl::string_view path, absl::string_view begin) {
  if (absl::EndsWith(path, ".onnx")) {
    return "; an ONNX file begins with its ir_version of 3 or more, and another field of a model";
  }
  if (absl::StartsWith(begin, "\x93NUMPY")) return "; it is a .npy file, which goes as it is";
  if (absl::StartsWith(begin, "\x89HDF")) return "; it is an HDF5 file: save it by safetensors";
  if (absl::StartsWith(begin, "\x80\x02")) return "; it is a pickle: save it by safetensors";
  return "";
}

}  // namespace

absl::string_view Name(WeightFileKind kind) {
  switch (kind) {
    case WeightFileKind::kSafetensors:
      return "safetensors";
    case WeightFileKind::kShards:
      return "safetensors shards";
    case WeightFileKind::kGguf:
      return "GGUF";
    case WeightFileKind::kNpz:
      return "npz";
    case WeightFileKind::kOnnx:
      return "ONNX";
  }
  return "";
}

absl::StatusOr<SafetensorsContent> ParseSafetensors(const Bytes& file) {
  const absl::string_view all = file.view();
  const absl::StatusOr<std::uint64_t> length = ParseSafetensorsPreamble(
      all.substr(0, kSafetensorsPreambleBytes), all.size(), kMostHeaderBytes);
  if (!length.ok()) return length.status();
  const std::uint64_t data = kSafetensorsPreambleBytes + *length;
  const absl::StatusOr<SafetensorsHeader> header =
      ParseSafetensorsHeader(all.substr(kSafetensorsPreambleBytes, *length), all.size() - data);
  if (!header.ok()) return header.status();
  SafetensorsContent content;
  for (const auto& [key, value] : header->metadata) {
    if (absl::StartsWith(key, "gemmd.")) content.is_container = true;
  }
  for (const auto& [name, tensor] : header->tensors) {
    const std::string where = absl::StrCat("tensor ", Quoted(name), " ");
    const SafetensorsType* const type = FindSafetensorsType(tensor.dtype);
    if (type == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(where, "has dtype ", Quoted(tensor.dtype),
                                                     ", which safetensors 0.8 has not"));
    }
    const absl::StatusOr<std::uint64_t> size = SizeOf(*type, tensor.shape);
    if (!size.ok()) return absl::InvalidArgumentError(absl::StrCat(where, size.status().message()));
    if (*size != tensor.end - tensor.begin) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, "of ", tensor.dtype, " and shape ", ShapeText(tensor.shape), " takes ", *size,
          " bytes, but its data_offsets have ", tensor.end - tensor.begin));
    }
    content.tensors.push_back({name, false, tensor.dtype, tensor.shape,
                               Part(file, data + tensor.begin, data + tensor.end), nullptr});
  }
  if (absl::Status s = CheckCovered(*header, all.size() - data); !s.ok()) return s;
  content.metadata = header->metadata;
  return content;
}

std::vector<WeightTensor> CombineLayers(std::vector<WeightTensor> tensors,
                                        const LayerConfig& config) {
  TensorsByName by_name;
  for (WeightTensor& tensor : tensors) by_name.emplace(std::string(tensor.name), std::move(tensor));
  if (config.packing) CombinePackedLayers(*config.packing, by_name);
  CombineBitsandbytesLayers(by_name);
  CombineTorchaoLayers(config.metadata, by_name);
  CombineMlxLayers(config, by_name);
  CombineComfyLayers(by_name);
  CombineHqqLayers(by_name);
  CombineQuantoLayers(by_name);
  CombineScaledLayers(config, by_name);
  tensors.clear();
  for (auto& [name, tensor] : by_name) tensors.push_back(std::move(tensor));
  return tensors;
}

absl::StatusOr<std::vector<WeightTensor>> ParseGgufTensors(const Bytes& file) {
  absl::StatusOr<GgufHeader> header = ParseGguf(file.view());
  if (!header.ok()) return header.status();
  std::vector<WeightTensor> tensors;
  for (GgufTensor& tensor : header->tensors) {
    std::string type = tensor.type == nullptr ? absl::StrCat("type ", tensor.type_number)
                                              : std::string(tensor.type->name);
    tensors.push_back({std::move(tensor.name), true, std::move(type), std::move(tensor.shape),
                       Part(file, tensor.begin, tensor.end), nullptr});
  }
  return tensors;
}

namespace {

absl::StatusOr<Bytes> MapFile(const std::string& path) {
  const absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return file.status();
  return file->Map();
}

// With its last slash.
std::string FolderOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

// Programs write what they say of tensors in one shard, or the same in all. Where two differ about
// one, nothing is said.
void AddMetadata(const FileMetadata& of_shard, FileMetadata& metadata) {
  for (const auto& [key, text] : of_shard) {
    std::string& said = metadata.emplace(key, text).first->second;
    if (said != text) said.clear();
  }
}

// Every shard must have what the index says is in it; what else it has is not the index's.
absl::StatusOr<SafetensorsContent> OpenShards(const std::string& path, const ShardIndex& index) {
  const std::string folder = FolderOf(path);
  std::map<std::string, std::map<std::string, WeightTensor>> shards;
  SafetensorsContent all;
  for (const auto& [name, shard] : index.shard_of) {
    auto found = shards.find(shard);
    if (found == shards.end()) {
      const absl::StatusOr<Bytes> bytes = MapFile(folder + shard);
      if (!bytes.ok()) return Annotate(path, bytes.status());
      absl::StatusOr<SafetensorsContent> content = ParseSafetensors(*bytes);
      if (!content.ok()) return Annotate(folder + shard, content.status());
      AddMetadata(content->metadata, all.metadata);
      found = shards.emplace(shard, std::map<std::string, WeightTensor>()).first;
      for (WeightTensor& tensor : content->tensors) {
        found->second.emplace(tensor.name, std::move(tensor));
      }
    }
    const auto tensor = found->second.find(name);
    if (tensor == found->second.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": weight_map's ", Quoted(name), " is not in ", Quoted(shard)));
    }
    all.tensors.push_back(std::move(tensor->second));
  }
  return all;
}

// The text of a small file; absent: there is none.
absl::StatusOr<std::optional<std::string>> ReadConfig(const std::string& path) {
  const absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (absl::IsNotFound(file.status())) return std::optional<std::string>();
  if (!file.ok()) return file.status();
  if (file->size_bytes() > kMostConfigBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": has ", file->size_bytes(), " bytes; at most ", kMostConfigBytes, " are accepted"));
  }
  absl::StatusOr<std::string> text = file->Read(0, file->size_bytes());
  if (!text.ok()) return text.status();
  return std::optional<std::string>(*std::move(text));
}

// Reads the first file that speaks of layers; a default where none does.
absl::StatusOr<LayerConfig> FindConfig(const std::string& folder, bool has_packed) {
  for (const ConfigFile& each : kConfigFiles) {
    if (each.is_for_packed && !has_packed) continue;
    const std::string path = absl::StrCat(folder, each.name);
    const absl::StatusOr<std::optional<std::string>> text = ReadConfig(path);
    if (!text.ok()) return text.status();
    if (!*text) continue;
    absl::StatusOr<std::optional<LayerConfig>> config = ParseLayerConfig(**text, each);
    if (!config.ok()) return Annotate(path, config.status());
    if (*config) return **std::move(config);
  }
  return LayerConfig();
}

// Files beside it matter where tensors are the planes of layers.
absl::StatusOr<std::vector<WeightTensor>> WithLayers(const std::string& path,
                                                     SafetensorsContent content) {
  const auto any = [&tensors = content.tensors](const auto& matches) {
    return std::any_of(tensors.begin(), tensors.end(), matches);
  };
  const bool has_packed =
      any([](const WeightTensor& tensor) { return absl::EndsWith(tensor.name, ".qweight"); });
  const bool has_scales = any([](const WeightTensor& tensor) {
    return IsNameOfScales(tensor.name) || IsNameOfBitsandbytes(tensor.name) ||
           IsNameOfTorchao(tensor.name) || IsNameOfHqq(tensor.name) ||
           IsNameOfQuanto(tensor.name) || IsNameOfComfy(tensor.name) || IsNameOfMlx(tensor.name);
  });
  if (!has_packed && !has_scales) return std::move(content.tensors);
  absl::StatusOr<LayerConfig> config = FindConfig(FolderOf(path), has_packed);
  if (!config.ok()) return config.status();
  config->metadata = std::move(content.metadata);
  return CombineLayers(std::move(content.tensors), *config);
}

}  // namespace

WeightFile::WeightFile(std::string path, WeightFileKind kind)
    : path_(std::move(path)), kind_(kind) {}

void WeightFile::Take(std::vector<WeightTensor> tensors) {
  tensors_ = std::move(tensors);
  for (std::size_t i = 0; i < tensors_.size(); ++i) places_.emplace(tensors_[i].name, i);
}

absl::StatusOr<WeightFile> WeightFile::Open(const std::string& path) {
  const absl::StatusOr<Bytes> bytes = MapFile(path);
  if (!bytes.ok()) return bytes.status();
  const absl::string_view begin = bytes->view().substr(0, kOnnxPreambleBytes);
  const std::optional<WeightFileKind> kind = KindOf(begin);
  if (!kind) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": begins with ", Quoted(begin.substr(0, 9)),
        "; safetensors, their index.json, GGUF, .npz and ONNX are read", OtherKind(path, begin)));
  }
  WeightFile file(path, *kind);
  switch (*kind) {
    case WeightFileKind::kSafetensors: {
      absl::StatusOr<SafetensorsContent> content = ParseSafetensors(*bytes);
      if (!content.ok()) return Annotate(path, content.status());
      file.is_container_ = content->is_container;
      absl::StatusOr<std::vector<WeightTensor>> tensors = WithLayers(path, *std::move(content));
      if (!tensors.ok()) return tensors.status();
      file.Take(*std::move(tensors));
      break;
    }
    case WeightFileKind::kShards: {
      const absl::StatusOr<ShardIndex> index = ParseShardIndex(bytes->view());
      if (!index.ok()) return Annotate(path, index.status());
      absl::StatusOr<SafetensorsContent> content = OpenShards(path, *index);
      if (!content.ok()) return content.status();
      absl::StatusOr<std::vector<WeightTensor>> tensors = WithLayers(path, *std::move(content));
      if (!tensors.ok()) return tensors.status();
      file.Take(*std::move(tensors));
      break;
    }
    case WeightFileKind::kOnnx: {
      const OpenBesideOnnx open = [folder = FolderOf(path)](const std::string& location) {
        return MapFile(folder + location);
      };
      absl::StatusOr<std::vector<WeightTensor>> tensors = ParseOnnx(*bytes, open);
      if (!tensors.ok()) return Annotate(path, tensors.status());
      file.Take(*std::move(tensors));
      break;
    }
    case WeightFileKind::kGguf:
    case WeightFileKind::kNpz: {
      absl::StatusOr<std::vector<WeightTensor>> tensors =
          *kind == WeightFileKind::kGguf ? ParseGgufTensors(*bytes) : ParseNpz(*bytes);
      if (!tensors.ok()) return Annotate(path, tensors.status());
      file.Take(*std::move(tensors));
      break;
    }
  }
  return file;
}

absl::StatusOr<WeightTensor> WeightFile::Find(absl::string_view name) const {
  const auto place = places_.find(std::string(name));
  if (place != places_.end()) return tensors_[place->second];
  if (std::optional<std::pair<absl::string_view, std::uint64_t>> of_stack = SplitIndex(name)) {
    const auto stack = places_.find(std::string(of_stack->first));
    if (stack != places_.end() && IsStack(tensors_[stack->second])) {
      const WeightTensor& tensor = tensors_[stack->second];
      if (of_stack->second < tensor.shape[0]) return MatrixOf(tensor, of_stack->second);
      return absl::NotFoundError(absl::StrCat(path_, ": ", Quoted(tensor.name), " has shape ",
                                              ShapeText(tensor.shape), "; there is no matrix ",
                                              of_stack->second));
    }
  }
  std::vector<std::string> like;
  for (const WeightTensor& tensor : tensors_) {
    const bool is_like = !name.empty() && (absl::StrContains(tensor.name, name) ||
                                           absl::StrContains(name, tensor.name));
    if (is_like && like.size() < kMostLikeNames) like.push_back(Quoted(tensor.name));
  }
  const std::string hint = like.empty() ? "gemm weights lists its names"
                                        : absl::StrCat("like it are ", absl::StrJoin(like, ", "));
  return absl::NotFoundError(absl::StrCat(path_, ": has no tensor ", Quoted(name), " among ",
                                          tensors_.size(), "; ", hint));
}

bool BeginsAsWeights(const std::string& path) {
  const absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return false;
  const absl::StatusOr<std::string> begin =
      file->Read(0, std::min<std::uint64_t>(file->size_bytes(), kOnnxPreambleBytes));
  return begin.ok() && KindOf(*begin).has_value();
}

}  // namespace gemmd::client
