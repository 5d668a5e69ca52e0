#include "client/load/data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/numbers/float_bits.h"
#include "base/numbers/fp8.h"
#include "base/process/cpu_share.h"
#include "base/sync/thread_loop.h"
#include "client/load/random.h"

namespace gemmd::load {
namespace {

double Draw(Distribution distribution, Random& random) {
  switch (distribution) {
    case Distribution::kUniform:
      return random.Unit();
    case Distribution::kScales: {
      const double value = random.Normal();
      return std::ldexp(value, static_cast<int>(random.Next() % 13) - 6);
    }
    case Distribution::kNormal:
      break;
  }
  return random.Normal();
}

double DrawInt8(Distribution distribution, Random& random) {
  if (distribution == Distribution::kUniform) {
    return static_cast<double>(random.Next() % 256) - 128;
  }
  return std::clamp(std::nearbyint(32 * random.Normal()), -128.0, 127.0);
}

// Calls of Random::Next() for one element.
std::uint64_t CallsOf(Distribution distribution, bool is_integer) {
  if (distribution == Distribution::kUniform) return 1;
  return distribution == Distribution::kScales && !is_integer ? 3 : 2;
}

template <typename Stored>
void Put(Stored value, std::uint64_t index, std::string& bytes) {
  std::memcpy(bytes.data() + index * sizeof value, &value, sizeof value);
}

void Store(DataType type, double value, std::uint64_t index, std::string& bytes) {
  switch (type) {
    case DataType::kF64:
      return Put(value, index, bytes);
    case DataType::kF16:
      return Put(ToF16(static_cast<float>(value)), index, bytes);
    case DataType::kBf16:
      return Put(ToBf16(static_cast<float>(value)), index, bytes);
    case DataType::kInt8:
      return Put(static_cast<std::int8_t>(value), index, bytes);
    case DataType::kFp8E4M3:
      return Put(ToFp8E4M3(static_cast<float>(value)), index, bytes);
    case DataType::kFp8E5M2:
      return Put(ToFp8E5M2(static_cast<float>(value)), index, bytes);
    default:
      return Put(static_cast<float>(value), index, bytes);
  }
}

template <typename Stored>
Stored Get(absl::string_view bytes, std::uint64_t index) {
  Stored value;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

}  // namespace

bool CanGenerate(DataType type) {
  return type == DataType::kF64 || type == DataType::kF32 || type == DataType::kTf32 ||
         type == DataType::kF16 || type == DataType::kBf16 || type == DataType::kInt8 ||
         IsFp8(type);
}

client::Matrix Generate(const client::MatrixFormat& format, const DataSpec& spec,
                        std::uint64_t seed) {
  const std::uint64_t count = format.rows * format.columns;
  std::string bytes(*client::SizeBytes(format), '\0');
  const bool integers = format.type == DataType::kInt8;
  const std::uint64_t calls = CallsOf(spec.distribution, integers);
  const auto fill = [&](std::uint64_t begin, std::uint64_t end) {
    Random random(seed);
    random.Skip(begin * calls);
    for (std::uint64_t i = begin; i < end; ++i) {
      const double value =
          integers ? DrawInt8(spec.distribution, random) : Draw(spec.distribution, random);
      Store(format.type, spec.has_sign ? value : std::abs(value), i, bytes);
    }
  };
  // Weights of a layer take seconds otherwise. Parts of less are not worth a thread.
  constexpr std::uint64_t kLeastPart = 1 << 18;
  const std::uint64_t parts =
      std::clamp<std::uint64_t>(count / kLeastPart, 1, static_cast<std::uint64_t>(UsableCpus()));
  ForEachOnThreads(parts, parts, [&](std::size_t part) {
    fill(count * part / parts, count * (part + 1) / parts);
  });
  Random random(seed);
  random.Skip(count * calls);
  for (std::uint64_t i = 0; spec.nan && i < (count + 999) / 1000; ++i) {
    Store(format.type, std::nan(""), random.Next() % count, bytes);
  }
  return *client::Matrix::Create(format, std::move(bytes));
}

double ElementAt(DataType type, absl::string_view bytes, std::uint64_t index) {
  switch (type) {
    case DataType::kF64:
      return Get<double>(bytes, index);
    case DataType::kF16:
      return FromF16(Get<std::uint16_t>(bytes, index));
    case DataType::kBf16:
      return FromBf16(Get<std::uint16_t>(bytes, index));
    case DataType::kInt8:
      return Get<std::int8_t>(bytes, index);
    case DataType::kFp8E4M3:
      return FromFp8E4M3(Get<std::uint8_t>(bytes, index));
    case DataType::kFp8E5M2:
      return FromFp8E5M2(Get<std::uint8_t>(bytes, index));
    case DataType::kInt32:
      return Get<std::int32_t>(bytes, index);
    default:
      return Get<float>(bytes, index);
  }
}

}  // namespace gemmd::load
