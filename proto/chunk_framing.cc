#include "proto/chunk_framing.h"

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/wire_format_lite.h"

namespace gemmd {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

std::uint32_t BytesTag(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

}  // namespace

std::string ChunkPrefix(int payload_field, const v1::Chunk& head, std::uint64_t data_bytes) {
  const std::uint32_t data_tag = BytesTag(v1::Chunk::kDataFieldNumber);
  // `data` has the highest field number, so a serializer writes it last too.
  const std::string fields = head.SerializeAsString();
  const std::uint64_t chunk_bytes = fields.size() + CodedOutputStream::VarintSize32(data_tag) +
                                    CodedOutputStream::VarintSize64(data_bytes) + data_bytes;
  std::string prefix;
  {
    google::protobuf::io::StringOutputStream stream(&prefix);
    CodedOutputStream out(&stream);
    out.WriteTag(BytesTag(payload_field));
    out.WriteVarint64(chunk_bytes);
    out.WriteString(fields);
    out.WriteTag(data_tag);
    out.WriteVarint64(data_bytes);
  }
  return prefix;
}

std::string FieldPrefix(int field, std::uint64_t content_bytes) {
  std::string prefix;
  {
    google::protobuf::io::StringOutputStream stream(&prefix);
    CodedOutputStream out(&stream);
    out.WriteTag(BytesTag(field));
    out.WriteVarint64(content_bytes);
  }
  return prefix;
}

}  // namespace gemmd
