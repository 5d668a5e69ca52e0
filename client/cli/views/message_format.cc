#include "client/cli/views/message_format.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/text/duration.h"
#include "base/text/quoted.h"
#include "client/names.h"
#include "google/protobuf/descriptor.h"

namespace gemmd::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using nlohmann::ordered_json;

bool IsDuration(const FieldDescriptor& field) {
  return field.message_type() == google::protobuf::Duration::descriptor();
}

ordered_json MessageJson(const FieldDescriptor& field, const Message& message) {
  if (!IsDuration(field)) return ToJson(message);
  google::protobuf::Duration duration;
  duration.CopyFrom(message);
  return Seconds(duration);
}

// Both accessors of a field, single and repeated, under one name.
class Value {
 public:
  // `index` is below 0 for a field that is not repeated.
  Value(const Message& message, const FieldDescriptor& field, int index)
      : message_(message), reflection_(*message.GetReflection()), field_(field), index_(index) {}

  ordered_json Json() const {
    switch (field_.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return Get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32);
      case FieldDescriptor::CPPTYPE_INT64:
        return Get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64);
      case FieldDescriptor::CPPTYPE_UINT32:
        return Get(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32);
      case FieldDescriptor::CPPTYPE_UINT64:
        return Get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return Get(&Reflection::GetDouble, &Reflection::GetRepeatedDouble);
      case FieldDescriptor::CPPTYPE_FLOAT:
        return Get(&Reflection::GetFloat, &Reflection::GetRepeatedFloat);
      case FieldDescriptor::CPPTYPE_BOOL:
        return Get(&Reflection::GetBool, &Reflection::GetRepeatedBool);
      case FieldDescriptor::CPPTYPE_ENUM:
        return absl::AsciiStrToLower(
            Get(&Reflection::GetEnum, &Reflection::GetRepeatedEnum)->name());
      case FieldDescriptor::CPPTYPE_STRING: {
        std::string text = Get(&Reflection::GetString, &Reflection::GetRepeatedString);
        if (field_.type() == FieldDescriptor::TYPE_BYTES) return absl::BytesToHexString(text);
        return text;
      }
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return MessageJson(field_, index_ < 0
                                       ? reflection_.GetMessage(message_, &field_)
                                       : reflection_.GetRepeatedMessage(message_, &field_, index_));
    }
    return nullptr;
  }

 private:
  template <typename Result>
  Result Get(Result (Reflection::*single)(const Message&, const FieldDescriptor*) const,
             Result (Reflection::*repeated)(const Message&, const FieldDescriptor*, int)
                 const) const {
    return index_ < 0 ? (reflection_.*single)(message_, &field_)
                      : (reflection_.*repeated)(message_, &field_, index_);
  }

  const Message& message_;
  const Reflection& reflection_;
  const FieldDescriptor& field_;
  const int index_;
};

// A map is an object, any other repeated field an array.
ordered_json RepeatedJson(const Message& message, const FieldDescriptor& field) {
  const int size = message.GetReflection()->FieldSize(message, &field);
  ordered_json result = field.is_map() ? ordered_json::object() : ordered_json::array();
  for (int i = 0; i < size; ++i) {
    if (!field.is_map()) {
      result.push_back(Value(message, field, i).Json());
      continue;
    }
    const Message& entry = message.GetReflection()->GetRepeatedMessage(message, &field, i);
    const ordered_json key = Value(entry, *field.message_type()->map_key(), -1).Json();
    result[key.is_string() ? key.get<std::string>() : key.dump()] =
        Value(entry, *field.message_type()->map_value(), -1).Json();
  }
  return result;
}

}  // namespace

ordered_json ToJson(const Message& message) {
  ordered_json result = ordered_json::object();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (field.is_repeated()) {
      result[field.name()] = RepeatedJson(message, field);
    } else if (!is_message || message.GetReflection()->HasField(message, &field)) {
      const bool is_duration = is_message && IsDuration(field);
      result[absl::StrCat(field.name(), is_duration ? "_s" : "")] =
          Value(message, field, -1).Json();
    }
  }
  return result;
}

std::string Word(absl::string_view enumerator) {
  return client::OptionName(absl::AsciiStrToLower(enumerator));
}

double Seconds(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) + duration.nanos() * 1e-9;
}

std::string Human(const google::protobuf::Duration& duration) {
  return DurationText(absl::Seconds(duration.seconds()));
}

std::string Shown(absl::string_view name) {
  const bool is_plain =
      name.size() <= kMostQuotedBytes && std::all_of(name.begin(), name.end(), [](char each) {
        return absl::ascii_isprint(static_cast<unsigned char>(each));
      });
  return is_plain ? std::string(name) : Quoted(name);
}

std::string HumanBytes(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  while (value >= 1024) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? absl::StrCat(bytes, " B") : absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string Microseconds(double us) { return absl::StrFormat("%.1f", us); }

}  // namespace gemmd::cli
