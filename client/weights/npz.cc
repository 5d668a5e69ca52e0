#include "client/weights/npz.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <unordered_set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/text/quoted.h"
#include "client/npy/npy_header.h"
#include "client/quantized/safetensors.h"

namespace gemmd::client {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kCentralHeader = 0x02014b50;
constexpr std::uint32_t kEndRecord = 0x06054b50;
constexpr std::uint32_t kEndRecord64 = 0x06064b50;
constexpr std::uint32_t kEndLocator64 = 0x07064b50;
constexpr std::uint64_t kLocalBytes = 30;
constexpr std::uint64_t kCentralBytes = 46;
constexpr std::uint64_t kEndBytes = 22;
constexpr std::uint64_t kEndBytes64 = 56;
constexpr std::uint64_t kLocatorBytes = 20;
constexpr std::uint64_t kMostCommentBytes = 65535;
constexpr std::uint32_t kIsIn64Bits = 0xffffffff;
constexpr std::uint16_t kExtra64 = 1;
constexpr std::uint16_t kEncrypted = 1;

absl::Status Refused(absl::string_view where, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(where, " ", why));
}

// REQUIRES: these bytes are there.
template <typename T>
T Load(absl::string_view bytes, std::uint64_t offset) {
  T value = 0;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// Returns whether a record of that many bytes begins there with its signature.
bool IsRecord(absl::string_view file, std::uint64_t offset, std::uint64_t bytes,
              std::uint32_t signature) {
  return offset <= file.size() && bytes <= file.size() - offset &&
         Load<std::uint32_t>(file, offset) == signature;
}

struct Directory {
  std::uint64_t entries = 0;
  std::uint64_t begin = 0;
};

struct Member {
  std::string name;
  std::uint64_t begin = 0;  // of its bytes in the file
  std::uint64_t size = 0;
};

absl::StatusOr<Directory> FindDirectory(absl::string_view file) {
  const std::uint64_t most = std::min<std::uint64_t>(file.size(), kEndBytes + kMostCommentBytes);
  for (std::uint64_t back = kEndBytes; back <= most; ++back) {
    const std::uint64_t end = file.size() - back;
    if (!IsRecord(file, end, kEndBytes, kEndRecord)) continue;
    if (Load<std::uint16_t>(file, end + 20) != back - kEndBytes) continue;
    if (Load<std::uint16_t>(file, end + 4) != 0) return Refused("the archive", "spans disks");
    const Directory directory{Load<std::uint16_t>(file, end + 10),
                              Load<std::uint32_t>(file, end + 16)};
    const bool has_64 =
        end >= kLocatorBytes && IsRecord(file, end - kLocatorBytes, kLocatorBytes, kEndLocator64);
    if (!has_64) return directory;
    const auto at = Load<std::uint64_t>(file, end - kLocatorBytes + 8);
    if (!IsRecord(file, at, kEndBytes64, kEndRecord64)) {
      return Refused("the archive", absl::StrCat("has no end record of 64 bits at byte ", at,
                                                 " of ", file.size()));
    }
    return Directory{Load<std::uint64_t>(file, at + 32), Load<std::uint64_t>(file, at + 48)};
  }
  return Refused("the file",
                 "begins as a zip archive and has no end record of one: it may have been cut");
}

// Takes the next number of 64 bits of the extra field of kind 1 for one that does not fit 32.
absl::Status Widen(absl::string_view where, absl::string_view extra, std::uint64_t& next,
                   std::uint64_t& value) {
  if (value != kIsIn64Bits) return absl::OkStatus();
  if (extra.size() < next + sizeof value) {
    return Refused(where, "says that its extra field has 64 bits of a size, which it has not");
  }
  value = Load<std::uint64_t>(extra, next);
  next += sizeof value;
  return absl::OkStatus();
}

// The extra field's part of kind 1; empty: there is none.
absl::string_view FindExtra64(absl::string_view extra) {
  while (extra.size() >= 4) {
    const auto kind = Load<std::uint16_t>(extra, 0);
    const auto size = std::min<std::uint64_t>(Load<std::uint16_t>(extra, 2), extra.size() - 4);
    if (kind == kExtra64) return extra.substr(4, size);
    extra.remove_prefix(4 + size);
  }
  return "";
}

class Reader {
 public:
  explicit Reader(absl::string_view file) : file_(file) {}

  absl::StatusOr<std::vector<Member>> Read() {
    const absl::StatusOr<Directory> directory = FindDirectory(file_);
    if (!directory.ok()) return directory.status();
    if (directory->entries > kMostSafetensorsTensors) {
      return Refused("the number of members",
                     absl::StrCat("is ", directory->entries, "; at most ", kMostSafetensorsTensors,
                                  " are accepted"));
    }
    std::uint64_t offset = directory->begin;
    std::vector<Member> members;
    for (std::uint64_t i = 0; i < directory->entries; ++i) {
      absl::StatusOr<Member> member = ReadEntry(i, offset);
      if (!member.ok()) return member.status();
      members.push_back(*std::move(member));
    }
    if (absl::Status s = CheckApart(members); !s.ok()) return s;
    return members;
  }

 private:
  // The entry of the directory there, and moves to the one behind it.
  absl::StatusOr<Member> ReadEntry(std::uint64_t index, std::uint64_t& offset) {
    const std::string number = absl::StrCat("member ", index);
    if (!IsRecord(file_, offset, kCentralBytes, kCentralHeader)) {
      return Refused(number, absl::StrCat("has no header in the directory at byte ", offset, " of ",
                                          file_.size()));
    }
    const absl::string_view header = file_.substr(offset);
    const std::uint64_t name_bytes = Load<std::uint16_t>(header, 28);
    const std::uint64_t extra_bytes = Load<std::uint16_t>(header, 30);
    const std::uint64_t comment_bytes = Load<std::uint16_t>(header, 32);
    if (name_bytes + extra_bytes + comment_bytes > header.size() - kCentralBytes) {
      return Refused(number, "has a name, extra field and comment beyond the end of the file");
    }
    Member member;
    member.name = std::string(header.substr(kCentralBytes, name_bytes));
    const std::string where = absl::StrCat("member ", Quoted(member.name));
    if (!names_.insert(member.name).second) return Refused(where, "comes twice");
    if ((Load<std::uint16_t>(header, 8) & kEncrypted) != 0) return Refused(where, "is encrypted");
    if (const auto method = Load<std::uint16_t>(header, 10); method != 0) {
      return Refused(where, absl::StrCat("is compressed, by method ", method,
                                         "; np.savez stores arrays as they are, and these are "
                                         "read: np.savez_compressed does not"));
    }
    std::uint64_t stored = Load<std::uint32_t>(header, 20);
    member.size = Load<std::uint32_t>(header, 24);
    std::uint64_t local = Load<std::uint32_t>(header, 42);
    const absl::string_view extra =
        FindExtra64(header.substr(kCentralBytes + name_bytes, extra_bytes));
    std::uint64_t next = 0;
    for (std::uint64_t* const value : {&member.size, &stored, &local}) {
      if (absl::Status s = Widen(where, extra, next, *value); !s.ok()) return s;
    }
    if (stored != member.size) {
      return Refused(where, absl::StrCat("is stored in ", stored, " bytes and has ", member.size));
    }
    if (absl::Status s = FindBytes(where, local, member); !s.ok()) return s;
    offset += kCentralBytes + name_bytes + extra_bytes + comment_bytes;
    return member;
  }

  absl::Status FindBytes(absl::string_view where, std::uint64_t local, Member& member) const {
    if (!IsRecord(file_, local, kLocalBytes, kLocalHeader)) {
      return Refused(where, absl::StrCat("has no header at byte ", local, " of ", file_.size()));
    }
    const absl::string_view header = file_.substr(local);
    const std::uint64_t before =
        kLocalBytes + Load<std::uint16_t>(header, 26) + Load<std::uint16_t>(header, 28);
    if (before > header.size() || member.size > header.size() - before) {
      return Refused(where, absl::StrCat("has ", member.size, " bytes from byte ", local + before,
                                         " on of ", file_.size(), " that the file has"));
    }
    member.begin = local + before;
    return absl::OkStatus();
  }

  static absl::Status CheckApart(std::vector<Member> members) {
    std::sort(members.begin(), members.end(),
              [](const Member& x, const Member& y) { return x.begin < y.begin; });
    for (std::size_t i = 1; i < members.size(); ++i) {
      if (members[i].begin >= members[i - 1].begin + members[i - 1].size) continue;
      return Refused(absl::StrCat("member ", Quoted(members[i].name)),
                     absl::StrCat("begins at byte ", members[i].begin, ", within member ",
                                  Quoted(members[i - 1].name)));
    }
    return absl::OkStatus();
  }

  absl::string_view file_;
  std::unordered_set<std::string> names_;
};

struct Descr {
  absl::string_view numpy;
  absl::string_view type;  // as safetensors names it
  std::uint64_t bytes;
};
// ml_dtypes' bfloat16 is two opaque bytes (client/npy/npy_type.h).
constexpr Descr kDescrs[] = {
    {"<f8", "F64", 8},  {"<f4", "F32", 4}, {"<f2", "F16", 2}, {"<V2", "BF16", 2},
    {"|V2", "BF16", 2}, {"|i1", "I8", 1},  {"|u1", "U8", 1},  {"|b1", "BOOL", 1},
    {"<i2", "I16", 2},  {"<u2", "U16", 2}, {"<i4", "I32", 4}, {"<u4", "U32", 4},
    {"<i8", "I64", 8},  {"<u8", "U64", 8}, {"<c8", "C64", 8},
};

// The bytes that the shape takes; 2^64 - 1 where they are more than that.
std::uint64_t SizeOf(std::uint64_t bytes, const std::vector<std::uint64_t>& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  for (const std::uint64_t dimension : shape) {
    if (__builtin_mul_overflow(bytes, dimension, &bytes)) return ~std::uint64_t{0};
  }
  return bytes;
}

// One whose type is not of the table has its dtype as its type, and no form.
absl::StatusOr<WeightTensor> TensorOf(const Bytes& file, const Member& member) {
  const std::string where = absl::StrCat("member ", Quoted(member.name));
  if (!absl::EndsWith(member.name, ".npy")) {
    return Refused(where,
                   "is no .npy file, of which np.savez makes archives; of torch.save's archives, "
                   "save the tensors by safetensors");
  }
  const absl::string_view bytes = file.view().substr(member.begin, member.size);
  const absl::StatusOr<NpyPreamble> preamble = ParseNpyPreamble(bytes.substr(0, kNpyPreambleBytes));
  if (!preamble.ok()) return Refused(where + ":", preamble.status().message());
  const std::uint64_t data = preamble->dictionary_offset + preamble->dictionary_bytes;
  if (data > bytes.size()) {
    return Refused(where, absl::StrCat("has a header of ", data, " bytes in ", bytes.size()));
  }
  absl::StatusOr<NpyDictionary> header =
      ParseNpyDictionary(bytes.substr(preamble->dictionary_offset, preamble->dictionary_bytes));
  if (!header.ok()) return Refused(where + ":", header.status().message());
  WeightTensor tensor;
  tensor.name = std::string(absl::StripSuffix(member.name, ".npy"));
  tensor.type = header->descr;
  tensor.shape = header->shape;
  tensor.is_column_major = header->fortran_order && header->shape.size() > 1;
  tensor.bytes = file.Part(bytes.substr(data));
  for (const Descr& each : kDescrs) {
    if (each.numpy != header->descr) continue;
    tensor.type = std::string(each.type);
    const std::uint64_t size = SizeOf(each.bytes, header->shape);
    if (size == bytes.size() - data) continue;
    return Refused(where, absl::StrCat("of ", header->descr, " and shape ",
                                       FormatShape(header->shape), " takes ", size,
                                       " bytes behind its header, and has ", bytes.size() - data));
  }
  return tensor;
}

}  // namespace

absl::StatusOr<std::vector<WeightTensor>> ParseNpz(const Bytes& file) {
  const absl::StatusOr<std::vector<Member>> members = Reader(file.view()).Read();
  if (!members.ok()) return members.status();
  std::vector<WeightTensor> tensors;
  for (const Member& member : *members) {
    absl::StatusOr<WeightTensor> tensor = TensorOf(file, member);
    if (!tensor.ok()) return tensor.status();
    tensors.push_back(*std::move(tensor));
  }
  return tensors;
}

}  // namespace gemmd::client
