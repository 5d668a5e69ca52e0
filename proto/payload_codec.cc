#include "proto/payload_codec.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "google/protobuf/wire_format_lite.h"

namespace gemmd {
namespace {

using google::protobuf::internal::WireFormatLite;

// Where a message has data: a field that is a message with `fields`, or (none) the data itself.
struct PayloadField {
  int number;
  absl::Span<const PayloadField> fields;
};

constexpr PayloadField kChunk[] = {{v1::Chunk::kDataFieldNumber, {}}};
constexpr PayloadField kMatmulRequest[] = {{v1::MatmulRequest::kPayloadFieldNumber, kChunk}};
constexpr PayloadField kMatmulResponse[] = {{v1::MatmulResponse::kPayloadFieldNumber, kChunk}};
constexpr PayloadField kBegin[] = {{v1::MatmulStreamRequest::Begin::kPayloadFieldNumber, kChunk}};
constexpr PayloadField kBegins[] = {{v1::MatmulStreamRequest::Batch::kBeginsFieldNumber, kBegin}};
constexpr PayloadField kStreamRequest[] = {{v1::MatmulStreamRequest::kBeginFieldNumber, kBegin},
                                           {v1::MatmulStreamRequest::kBatchFieldNumber, kBegins},
                                           {v1::MatmulStreamRequest::kChunkFieldNumber, kChunk}};
constexpr PayloadField kFinished[] = {
    {v1::MatmulStreamResponse::Finished::kPayloadFieldNumber, kChunk}};
constexpr PayloadField kFinishedBatch[] = {
    {v1::MatmulStreamResponse::Batch::kFinishedFieldNumber, kFinished}};
constexpr PayloadField kStreamResponse[] = {
    {v1::MatmulStreamResponse::kFinishedFieldNumber, kFinished},
    {v1::MatmulStreamResponse::kBatchFieldNumber, kFinishedBatch},
    {v1::MatmulStreamResponse::kChunkFieldNumber, kChunk}};
constexpr PayloadField kUploadRequest[] = {{v1::UploadRequest::kChunkFieldNumber, kChunk}};
constexpr PayloadField kDownloadResponse[] = {{v1::DownloadResponse::kChunkFieldNumber, kChunk}};
constexpr PayloadField kInferRequest[] = {
    {inference::ModelInferRequest::kRawInputContentsFieldNumber, {}}};
constexpr PayloadField kInferResponse[] = {
    {inference::ModelInferResponse::kRawOutputContentsFieldNumber, {}}};
constexpr PayloadField kStreamInferResponse[] = {
    {inference::ModelStreamInferResponse::kInferResponseFieldNumber, kInferResponse}};

// A message's bytes, read forward.
class Reader {
 public:
  explicit Reader(absl::Span<const absl::string_view> pieces) : pieces_(pieces) {
    for (absl::string_view piece : pieces) left_ += piece.size();
  }

  std::uint64_t left() const { return left_; }

  // Hands over the next bytes, piece by piece. False, with nothing read: there are fewer.
  template <typename Take>
  bool Read(std::uint64_t bytes, Take take) {
    if (bytes > left_) return false;
    left_ -= bytes;
    while (bytes > 0) {
      const absl::string_view piece = pieces_[index_].substr(offset_, bytes);
      if (!piece.empty()) take(piece);
      bytes -= piece.size();
      offset_ += piece.size();
      if (offset_ == pieces_[index_].size()) {
        ++index_;
        offset_ = 0;
      }
    }
    return true;
  }

  bool Append(std::uint64_t bytes, std::string* to) {
    return Read(bytes, [to](absl::string_view piece) { to->append(piece.data(), piece.size()); });
  }

  // Appends the bytes of a varint as they are. False: it ends after `max_bytes` or never.
  bool AppendVarint(int max_bytes, std::string* to, std::uint64_t* value) {
    *value = 0;
    for (int i = 0; i < max_bytes; ++i) {
      if (!Append(1, to)) return false;
      const auto byte = static_cast<unsigned char>(to->back());
      *value |= static_cast<std::uint64_t>(byte & 0x7F) << (7 * i);
      if (byte < 0x80) return true;
    }
    return false;
  }

 private:
  const absl::Span<const absl::string_view> pieces_;
  std::size_t index_ = 0;
  std::size_t offset_ = 0;  // in pieces_[index_]
  std::uint64_t left_ = 0;
};

constexpr int kMaxVarint32Bytes = 5;
constexpr int kMaxVarint64Bytes = 10;

void AppendVarint(std::uint64_t value, std::string* to) {
  for (; value >= 0x80; value >>= 7) to->push_back(static_cast<char>(value | 0x80));
  to->push_back(static_cast<char>(value));
}

}  // namespace

class PayloadParser {
 public:
  PayloadParser(absl::Span<const absl::string_view> pieces, PayloadViews* payload)
      : reader_(pieces), payload_(payload) {}

  bool Parse(absl::Span<const PayloadField> fields, google::protobuf::MessageLite* message,
             bool are_chunks = true) {
    *payload_ = PayloadViews();
    payload_->are_chunks_ = are_chunks;
    std::string around;
    if (!CopyAround(reader_.left(), fields, &around)) return false;
    payload_->other_bytes_ = around.size();
    return around.size() <= payload_->most_other_bytes() && message->ParseFromString(around);
  }

 private:
  using Fields = absl::Span<const PayloadField>;

  // Copies a message of that many bytes, except data. False: not a message, which the
  // generated parser would find too; what is only copied it is left to judge.
  bool CopyAround(std::uint64_t bytes, Fields fields, std::string* to) {
    if (bytes > reader_.left()) return false;
    const std::uint64_t end = reader_.left() - bytes;
    std::vector<std::uint32_t> groups;  // unknown ones that we are in, by number
    while (reader_.left() > end) {
      const std::size_t start = to->size();
      std::uint64_t wide_tag = 0;
      if (!reader_.AppendVarint(kMaxVarint32Bytes, to, &wide_tag)) return false;
      const auto tag = static_cast<std::uint32_t>(wide_tag);
      const auto number = static_cast<std::uint32_t>(WireFormatLite::GetTagFieldNumber(tag));
      std::uint64_t ignored = 0;
      switch (tag & 7U) {
        case WireFormatLite::WIRETYPE_VARINT:
          if (!reader_.AppendVarint(kMaxVarint64Bytes, to, &ignored)) return false;
          break;
        case WireFormatLite::WIRETYPE_FIXED64:
          if (!reader_.Append(sizeof(std::uint64_t), to)) return false;
          break;
        case WireFormatLite::WIRETYPE_FIXED32:
          if (!reader_.Append(sizeof(std::uint32_t), to)) return false;
          break;
        case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
          if (!CopyField(tag, groups.empty() ? Find(fields, number) : nullptr, start, to)) {
            return false;
          }
          break;
        case WireFormatLite::WIRETYPE_START_GROUP:
          groups.push_back(number);
          break;
        case WireFormatLite::WIRETYPE_END_GROUP:
          if (groups.empty() || groups.back() != number) return false;
          groups.pop_back();
          break;
        default:
          return false;
      }
    }
    // Past the end: the last field reached out of this message.
    return reader_.left() == end && groups.empty();
  }

  // The rest of a field with a length, whose tag was copied to `start`. Null: not one of ours.
  bool CopyField(std::uint32_t tag, const PayloadField* field, std::size_t start, std::string* to) {
    std::uint64_t length = 0;
    if (!reader_.AppendVarint(kMaxVarint32Bytes, to, &length)) return false;
    if (field == nullptr) return reader_.Append(length, to);
    // Ours gets another content, and so another length.
    to->resize(start);
    AppendVarint(tag, to);
    std::string content;
    if (field->fields.empty()) {
      if (!MarkData(length, &content)) return false;
    } else if (!CopyAround(length, field->fields, &content)) {
      return false;
    }
    AppendVarint(content.size(), to);
    to->append(content);
    return true;
  }

  bool MarkData(std::uint64_t bytes, std::string* mark) {
    const auto index = static_cast<std::uint32_t>(payload_->data_.size());
    const std::size_t first = payload_->pieces_.size();
    if (!reader_.Read(bytes,
                      [this](absl::string_view piece) { payload_->pieces_.push_back(piece); })) {
      return false;
    }
    payload_->data_.emplace_back(first, payload_->pieces_.size() - first);
    mark->assign(reinterpret_cast<const char*>(&index), sizeof(index));
    return true;
  }

  static const PayloadField* Find(Fields fields, std::uint32_t number) {
    const auto found = std::find_if(fields.begin(), fields.end(), [number](const auto& field) {
      return static_cast<std::uint32_t>(field.number) == number;
    });
    return found == fields.end() ? nullptr : &*found;
  }

  Reader reader_;
  PayloadViews* const payload_;
};

std::uint64_t PayloadViews::data_bytes() const {
  std::uint64_t bytes = 0;
  for (const absl::string_view piece : pieces_) bytes += piece.size();
  return bytes;
}

std::uint64_t PayloadViews::most_other_bytes() const {
  constexpr std::uint64_t kMebibyte = 1 << 20;
  return kMebibyte + (are_chunks_ ? data_bytes() / 4 : 0);
}

absl::Span<const absl::string_view> PayloadViews::of(const std::string& mark) const {
  std::uint32_t index = 0;
  if (mark.size() != sizeof(index)) return {};  // the chunk has no data field
  std::memcpy(&index, mark.data(), sizeof(index));
  const auto [first, count] = data_[index];
  return absl::MakeConstSpan(pieces_).subspan(first, count);
}

bool ParseAroundPayload(absl::Span<const absl::string_view> pieces, v1::MatmulRequest* message,
                        PayloadViews* payload) {
  return PayloadParser(pieces, payload).Parse(kMatmulRequest, message);
}
bool ParseAroundPayload(absl::Span<const absl::string_view> pieces, v1::MatmulResponse* message,
                        PayloadViews* payload) {
  return PayloadParser(pieces, payload).Parse(kMatmulResponse, message);
}
bool ParseAroundPayload(absl::Span<const absl::string_view> pieces,
                        v1::MatmulStreamRequest* message, PayloadViews* payload) {
  return PayloadParser(pieces, payload).Parse(kStreamRequest, message);
}
bool ParseAroundPayload(absl::Span<const absl::string_view> pieces,
                        v1::MatmulStreamResponse* message, PayloadViews* payload) {
  return PayloadParser(pieces, payload).Parse(kStreamResponse, message);
}
bool ParseAroundPayload(absl::Span<const absl::string_view> pieces, v1::UploadRequest* message,
                        PayloadViews* payload) {
  return PayloadParser(pieces, payload).Parse(kUploadRequest, message);
}
bool ParseAroundPayload(absl::Span<const absl::string_view> pieces, v1::DownloadResponse* message,
                        PayloadViews* payload) {
  return PayloadParser(pieces, payload).Parse(kDownloadResponse, message);
}
bool ParseAroundPayload(absl::Span<const absl::string_view> pieces,
                        inference::ModelInferRequest* message, PayloadViews* payload) {
  return PayloadParser(pieces, payload).Parse(kInferRequest, message, false);
}
bool ParseAroundPayload(absl::Span<const absl::string_view> pieces,
                        inference::ModelInferResponse* message, PayloadViews* payload) {
  return PayloadParser(pieces, payload).Parse(kInferResponse, message, false);
}
bool ParseAroundPayload(absl::Span<const absl::string_view> pieces,
                        inference::ModelStreamInferResponse* message, PayloadViews* payload) {
  return PayloadParser(pieces, payload).Parse(kStreamInferResponse, message, false);
}

}  // namespace gemmd
