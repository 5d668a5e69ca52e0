#include "client/weights/layers/hqq_layers.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/text/quoted.h"
#include "client/matrix.h"
#include "client/weights/layers/layer_form.h"

namespace gemmd::client {
namespace {

using Shape = std::vector<std::uint64_t>;

constexpr absl::string_view kClosest =
    "; int4-g64-f16-zp is closest: gemm quantize makes it of the f16 or f32 file";

absl::Status Wrong(const std::string& why) { return absl::InvalidArgumentError(why); }

// Planes are looked for behind one prefix.
class Planes {
 public:
  Planes(const TensorsByName& tensors, const std::string& prefix)
      : tensors_(tensors), prefix_(prefix) {}

  const WeightTensor* Find(const char* plane) const {
    return FindTensor(tensors_, absl::StrCat(prefix_, ".", plane));
  }

  absl::StatusOr<const WeightTensor*> Find(const char* plane, absl::string_view type,
                                           const Shape& shape) const {
    const WeightTensor* const tensor = Find(plane);
    if (tensor == nullptr) return Wrong(absl::StrCat("its ", plane, " is missing"));
    const std::string why = WhyNotOf(plane, *tensor, type, shape);
    if (!why.empty()) return Wrong(why);
    return tensor;
  }

  absl::StatusOr<std::uint64_t> Number(const char* plane, std::int32_t least,
                                       std::int32_t most) const {
    const absl::StatusOr<const WeightTensor*> tensor = Find(plane, "I32", {});
    if (!tensor.ok()) return tensor.status();
    std::int32_t number = 0;
    std::memcpy(&number, (*tensor)->bytes.view().data(), sizeof number);
    if (number >= least && number <= most) return static_cast<std::uint64_t>(number);
    const std::string must = least == most       ? absl::StrCat(most, " is read")
                             : most == INT32_MAX ? absl::StrCat("it must be at least ", least)
                                                 : absl::StrCat("it must be ", least, " to ", most);
    return Wrong(absl::StrCat("its ", plane, " is ", number, "; ", must, kClosest));
  }

  // The numbers of "shape".
  absl::StatusOr<Shape> Size() const {
    const absl::StatusOr<const WeightTensor*> tensor = Find("shape", "I64", {2});
    if (!tensor.ok()) return tensor.status();
    Shape size(2);
    std::memcpy(size.data(), (*tensor)->bytes.view().data(), 16);
    for (const std::uint64_t each : size) {
      if (each >= 1 && each <= kMaxDimension) continue;
      return Wrong(absl::StrCat("its shape has ", each, "; a dimension is 1 to ", kMaxDimension));
    }
    return size;
  }

 private:
  const TensorsByName& tensors_;
  const std::string& prefix_;
};

absl::Status CheckPacking(const Planes& planes, std::uint64_t bits) {
  const std::string read = absl::StrCat(bits, "bit_u8");
  const absl::StatusOr<const WeightTensor*> packing = planes.Find("packing", "U8", {read.size()});
  if (!packing.ok()) return packing.status();
  const absl::string_view text = (*packing)->bytes.view();
  if (text == read) return absl::OkStatus();
  return Wrong(absl::StrCat("its packing is ", Quoted(text), ", and ", read, " is read"));
}

absl::StatusOr<DataType> TypeOfScales(const WeightTensor* scales) {
  if (scales == nullptr) {
    return Wrong(
        absl::StrCat("its scale is missing: scales that are quantized are not read", kClosest));
  }
  if (scales->type == "F16") return DataType::kF16;
  if (scales->type == "BF16") return DataType::kBf16;
  if (scales->type == "F32") return DataType::kF32;
  return Wrong(absl::StrCat("its scale is ", scales->type, "; it must be F16, BF16 or F32"));
}

// Codes of a byte each lie as they are; else the n / c lines of places that are c apart share
// bytes, the first in the highest bits.
Plane CodesOf(const Bytes& bytes, int bits, std::uint64_t n, std::uint64_t k) {
  Plane codes = PlaneOfLines(bytes, bits, k);
  codes.line.step = k * 8;
  codes.k.step = 8;
  const std::uint64_t in_byte = 8 / static_cast<std::uint64_t>(bits);
  if (in_byte == 1) return codes;
  codes.line.per_word = in_byte;
  codes.line.words = n / in_byte;
  for (std::uint64_t i = in_byte; i-- > 0;) {
    codes.line.places.push_back(static_cast<std::uint16_t>(i));
  }
  return codes;
}

absl::Status ReadLayer(const Planes& planes, Shape& size, Layer& layer) {
  const absl::StatusOr<Shape> said = planes.Size();
  if (!said.ok()) return said.status();
  size = *said;
  const auto [n, k] = std::pair(size[0], size[1]);
  const absl::StatusOr<std::uint64_t> bits = planes.Number("nbits", 1, 8);
  if (!bits.ok()) return bits.status();
  if (*bits != 1 && *bits != 2 && *bits != 4 && *bits != 8) {
    return Wrong(absl::StrCat("its nbits is ", *bits, "; 1, 2, 4 and 8 are read", kClosest));
  }
  const absl::StatusOr<std::uint64_t> axis = planes.Number("axis", 1, 1);
  if (!axis.ok()) return axis.status();
  const absl::StatusOr<std::uint64_t> group = planes.Number("group_size", 1, INT32_MAX);
  if (!group.ok()) return group.status();
  if (absl::Status s = CheckPacking(planes, *bits); !s.ok()) return s;
  const std::uint64_t in_byte = 8 / *bits;
  if (k % *group != 0 || n % in_byte != 0) {
    return Wrong(absl::StrCat("its shape is ", ShapeText(size), ", and its groups have ", *group,
                              ": N must be a multiple of ", in_byte, ", and K of that", kClosest));
  }
  const std::uint64_t groups = k / *group;
  const auto codes = planes.Find("W_q", "U8", {n / in_byte * groups, *group});
  if (!codes.ok()) return codes.status();
  const WeightTensor* const scales = planes.Find("scale");
  const absl::StatusOr<DataType> type = TypeOfScales(scales);
  if (!type.ok()) return type.status();
  const std::string why = WhyNotOf("scale", *scales, scales->type, {n * groups, 1});
  if (!why.empty()) return Wrong(why);
  const auto zeros = planes.Find("zero", scales->type, {n * groups, 1});
  if (!zeros.ok()) return zeros.status();
  layer.element = *bits == 8 ? DataType::kUint8 : DataType::kUint4;
  layer.codes = CodesOf((*codes)->bytes, static_cast<int>(*bits), n, k);
  layer.block = {1, *group};
  layer.scale_type = *type;
  const int width = SizeBits(*type);
  layer.scales = PlaneOfLines(scales->bytes, width, groups);
  layer.offsets =
      Offsets{PlaneOfLines((*zeros)->bytes, width, groups), *type, OffsetKind::kZeroPoints};
  FindForm(n, k, layer);
  return absl::OkStatus();
}

void Combine(const std::string& prefix, TensorsByName& tensors) {
  const std::string name = prefix + ".weight";
  const std::string codes_name = prefix + ".W_q";
  if (FindTensor(tensors, name) != nullptr) return;
  Shape size = FindTensor(tensors, codes_name)->shape;
  Layer layer;
  layer.type = "HQQ";
  const absl::Status status = ReadLayer(Planes(tensors, prefix), size, layer);
  if (!status.ok()) layer.why = std::string(status.message());
  std::vector<std::string> planes = {codes_name};
  for (const char* plane : {"scale",
                            "zero",
                            "shape",
                            "nbits",
                            "group_size",
                            "axis",
                            "packing",
                            "unpack_view_dtype",
                            "view_as_float",
                            "compute_dtype",
                            "quant_scale",
                            "quant_zero",
                            "offload_meta",
                            "encoded_state_dict",
                            "scale_q",
                            "zero_q",
                            "stores_quant_config",
                            "channel_wise",
                            "optimize",
                            "round_zero"}) {
    planes.push_back(absl::StrCat(prefix, ".", plane));
  }
  Replace(planes, name, std::move(size), std::move(layer), tensors);
}

}  // namespace

bool IsNameOfHqq(absl::string_view name) { return absl::EndsWith(name, ".W_q"); }

void CombineHqqLayers(TensorsByName& tensors) {
  for (const std::string& prefix : NamesBefore(tensors, ".W_q")) Combine(prefix, tensors);
}

}  // namespace gemmd::client
