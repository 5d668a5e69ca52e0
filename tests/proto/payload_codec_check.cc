#include "tests/proto/payload_codec_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/message.h"
#include "proto/payload_codec.h"

namespace gemmd::testing {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Puts the data into every one of these.
void FillInRaw(const PayloadViews& payload,
               google::protobuf::RepeatedPtrField<std::string>* contents) {
  for (std::string& each : *contents) each = absl::StrJoin(payload.of(each), "");
}

// Puts the data into every chunk, or every raw content, of the message.
void FillIn(const PayloadViews& payload, Message* message) {
  if (auto* const request = dynamic_cast<inference::ModelInferRequest*>(message)) {
    return FillInRaw(payload, request->mutable_raw_input_contents());
  }
  if (auto* const response = dynamic_cast<inference::ModelInferResponse*>(message)) {
    return FillInRaw(payload, response->mutable_raw_output_contents());
  }
  if (auto* const chunk = dynamic_cast<v1::Chunk*>(message)) {
    const auto pieces = payload.of(*chunk);
    chunk->set_data(absl::StrJoin(pieces, ""));
    return;
  }
  const Reflection& reflection = *message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      FillIn(payload, reflection.MutableMessage(message, field));
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(*message, field); ++i) {
      FillIn(payload, reflection.MutableRepeatedMessage(message, field, i));
    }
  }
}

std::string Serialized(const Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&out);
  }
  return bytes;
}

template <typename M>
std::string Compare(absl::string_view bytes, const std::vector<absl::string_view>& pieces) {
  M expected;
  const bool is_valid = expected.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  M actual;
  PayloadViews payload;
  const bool is_taken = ParseAroundPayload(pieces, &actual, &payload);
  if (is_valid != is_taken) {
    return absl::StrCat("the generated parser ", is_valid ? "takes" : "refuses",
                        " it, the codec does not");
  }
  if (!is_valid) return "";
  FillIn(payload, &actual);
  if (Serialized(expected) == Serialized(actual)) return "";
  return absl::StrCat("generated parser:\n", expected.DebugString(), "codec:\n",
                      actual.DebugString());
}

}  // namespace

std::string WhereTheyDiffer(int message, absl::string_view bytes, std::vector<std::size_t> cuts) {
  std::sort(cuts.begin(), cuts.end());
  std::vector<absl::string_view> pieces;
  std::size_t begin = 0;
  for (std::size_t cut : cuts) {
    if (cut > bytes.size()) break;
    pieces.push_back(bytes.substr(begin, cut - begin));
    begin = cut;
  }
  pieces.push_back(bytes.substr(begin));
  switch (message) {
    case 0:
      return Compare<v1::MatmulRequest>(bytes, pieces);
    case 1:
      return Compare<v1::MatmulResponse>(bytes, pieces);
    case 2:
      return Compare<v1::MatmulStreamRequest>(bytes, pieces);
    case 3:
      return Compare<v1::MatmulStreamResponse>(bytes, pieces);
    case 4:
      return Compare<v1::UploadRequest>(bytes, pieces);
    case 5:
      return Compare<v1::DownloadResponse>(bytes, pieces);
    case 6:
      return Compare<inference::ModelInferRequest>(bytes, pieces);
    case 7:
      return Compare<inference::ModelInferResponse>(bytes, pieces);
    default:
      return Compare<inference::ModelStreamInferResponse>(bytes, pieces);
  }
}

}  // namespace gemmd::testing
