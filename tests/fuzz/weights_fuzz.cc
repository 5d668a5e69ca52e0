// Whatever a file of weights says, its tensors lie within it, one apart from another, and one that
// has a form makes an operand of exactly the bytes that the form says.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "client/bytes.h"
#include "client/quantized/quantized_array.h"
#include "client/weights/fnuz.h"
#include "client/weights/layers/layer.h"
#include "client/weights/layers/layer_config.h"
#include "client/weights/npz.h"
#include "client/weights/onnx/onnx.h"
#include "client/weights/shard_index.h"
#include "client/weights/weight_file.h"
#include "client/weights/weight_form.h"

namespace {

using gemmd::client::Bytes;
using gemmd::client::WeightTensor;

void CheckRefusal(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kInvalidArgument) std::abort();
  if (status.message().empty() || status.message().size() > 2000) std::abort();
}

void CheckOperand(const WeightTensor& tensor) {
  const auto form = FormOf(tensor);
  if (!form.ok()) return CheckRefusal(form.status());
  if (form->parts != 0) {
    for (const std::uint64_t index : {std::uint64_t{0}, form->parts - 1}) {
      const WeightTensor matrix = MatrixOf(tensor, index);
      if (!FormOf(matrix).ok() || FormOf(matrix)->parts != 0) std::abort();
      CheckOperand(matrix);
    }
    return;
  }
  const auto operand = OperandOf(tensor);
  if (!operand.ok()) return CheckRefusal(operand.status());
  if (const auto* matrix = std::get_if<gemmd::client::Matrix>(&*operand)) {
    if (!form->element || matrix->bytes().size() != form->size_bytes) std::abort();
    const bool is_decoded = gemmd::client::FindFnuz(tensor.type) != nullptr;
    if (!is_decoded && matrix->bytes() != tensor.bytes.view()) std::abort();
    return;
  }
  const auto& array = std::get<gemmd::client::QuantizedArray>(*operand);
  const auto sent = ToOperand(array, gemmd::client::Side::kA);
  if (!sent.ok() || sent->size_bytes() != form->size_bytes) std::abort();
  const gemmd::QuantizedView view = array.view();
  const std::int64_t last = view.k - 1;
  const double scale = view.scale(view.lines - 1, last);
  if (std::isnan(scale)) std::abort();
  if (scale < 0 && array.format.scaling.type == gemmd::DataType::kFp8E4M3) std::abort();
}

void CheckTensors(const Bytes& file, const std::vector<WeightTensor>& tensors) {
  std::vector<std::pair<const char*, const char*>> places;
  for (const WeightTensor& tensor : tensors) {
    const absl::string_view bytes = tensor.bytes.view();
    if (!bytes.empty()) places.emplace_back(bytes.data(), bytes.data() + bytes.size());
    CheckOperand(tensor);
  }
  std::sort(places.begin(), places.end());
  const char* end = file.view().data();
  for (const auto& [begin, next] : places) {
    if (begin < end) std::abort();
    end = next;
  }
  if (end > file.view().data() + file.view().size()) std::abort();
}

// An ONNX model and a file beside it, of which two tensors may have the same bytes.
void CheckOnnx(const Bytes& bytes_of_file) {
  static const Bytes& text = *new Bytes(std::string(256, 'w'));
  // So that what is decoded is told apart; no pages are given back here.
  static const Bytes& beside = *new Bytes(Bytes::OfMappedFile(text.owner(), text.view()));
  const Bytes file = Bytes::OfMappedFile(bytes_of_file.owner(), bytes_of_file.view());
  const auto open = [](const std::string& location) -> absl::StatusOr<Bytes> {
    if (location.empty() || location[0] == '/' || location == "..") std::abort();
    if (absl::StrContains(location, "../") || absl::EndsWith(location, "/..")) std::abort();
    return beside;
  };
  const auto tensors = gemmd::client::ParseOnnx(file, open);
  if (!tensors.ok()) return CheckRefusal(tensors.status());
  for (const WeightTensor& tensor : *tensors) {
    const absl::string_view bytes = tensor.bytes.view();
    const auto is_in = [bytes](absl::string_view all) {
      return bytes.data() >= all.data() && bytes.data() + bytes.size() <= all.data() + all.size();
    };
    const bool lies = !tensor.bytes.is_mapped_file() || is_in(file.view()) || is_in(beside.view());
    if (!bytes.empty() && !lies) std::abort();
    CheckOperand(tensor);
  }
}

void CheckLayersOf(const std::vector<WeightTensor>& tensors,
                   const gemmd::client::LayerConfig& config) {
  for (const WeightTensor& tensor : CombineLayers(tensors, config)) {
    if (tensor.layer != nullptr) CheckOperand(tensor);
  }
}

// As each kind of layer, whatever the tensors are.
void CheckLayers(const std::vector<WeightTensor>& tensors,
                 const gemmd::client::FileMetadata& metadata) {
  using gemmd::client::Packing;
  for (const auto packing : {Packing::kGptq, Packing::kGptqV2, Packing::kGptqPlanar, Packing::kAwq,
                             Packing::kAwqGemv, Packing::kAwqGemvFast}) {
    for (const std::uint64_t group_size : {0, 32, 128}) {
      for (const std::uint64_t bits : {2, 3, 4, 7, 8}) {
        gemmd::client::LayerConfig config;
        config.packing = gemmd::client::PackingConfig{packing, bits, group_size, ""};
        CheckLayersOf(tensors, config);
      }
    }
  }
  gemmd::client::LayerConfig config;
  config.metadata = metadata;
  CheckLayersOf(tensors, config);
  config.blocks = {{1, 32}, {64, 128}, {1, 3}};
  CheckLayersOf(tensors, config);
  config.bits = {4};
  CheckLayersOf(tensors, config);
}

void CheckConfig(absl::string_view text) {
  for (const gemmd::client::ConfigFile& file : gemmd::client::kConfigFiles) {
    const auto config = ParseLayerConfig(text, file);
    if (!config.ok()) {
      CheckRefusal(config.status());
      continue;
    }
    if (!*config) continue;
    const auto& packing = (*config)->packing;
    if (packing && (packing->bits < 2 || packing->bits > 8)) std::abort();
    for (const gemmd::client::BlockShape& block : (*config)->blocks) {
      if (block.lines == 0 || block.k == 0) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A copy, whose end an address sanitizer guards.
  const Bytes file(std::string(reinterpret_cast<const char*>(data), size));
  if (absl::StartsWith(file.view(), "GGUF")) {
    const auto tensors = gemmd::client::ParseGgufTensors(file);
    if (!tensors.ok()) {
      CheckRefusal(tensors.status());
    } else {
      CheckTensors(file, *tensors);
    }
    return 0;
  }
  if (gemmd::client::BeginsAsOnnx(file.view().substr(0, gemmd::client::kOnnxPreambleBytes))) {
    CheckOnnx(file);
    return 0;
  }
  if (absl::StartsWith(file.view(), "PK")) {
    const auto tensors = gemmd::client::ParseNpz(file);
    if (!tensors.ok()) {
      CheckRefusal(tensors.status());
    } else {
      CheckTensors(file, *tensors);
    }
    return 0;
  }
  if (absl::StartsWith(file.view(), "{")) {
    CheckConfig(file.view());
    const auto index = gemmd::client::ParseShardIndex(file.view());
    if (!index.ok()) {
      CheckRefusal(index.status());
      return 0;
    }
    for (const auto& [name, shard] : index->shard_of) {
      if (shard.empty() || shard == ".." || shard == "-" || absl::StrContains(shard, "/")) {
        std::abort();
      }
    }
    return 0;
  }
  const auto content = gemmd::client::ParseSafetensors(file);
  if (!content.ok()) {
    CheckRefusal(content.status());
  } else {
    CheckTensors(file, content->tensors);
    CheckLayers(content->tensors, content->metadata);
  }
  return 0;
}
