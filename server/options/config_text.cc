#include "server/options/config_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "google/protobuf/text_format.h"

namespace gemmd {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

bool IsGroup(const FieldDescriptor* field) {
  return field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
}

std::string ValueText(const Message& message, const FieldDescriptor* field) {
  constexpr int kSingular = -1;
  std::string text;
  TextFormat::PrintFieldValueToString(message, field, kSingular, &text);
  return text;
}

void AppendFields(const Message& message, const std::string& indent, std::string* text) {
  const auto* type = message.GetDescriptor();
  const auto* reflection = message.GetReflection();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    if (IsGroup(field)) {
      absl::StrAppend(text, indent, field->name(), " {\n");
      AppendFields(reflection->GetMessage(message, field), indent + "  ", text);
      absl::StrAppend(text, indent, "}\n");
    } else {
      absl::StrAppend(text, indent, field->name(), ": ", ValueText(message, field),
                      reflection->HasField(message, field) ? "\n" : "  # default\n");
    }
  }
}

void AppendDiffering(const Message& before, const Message& after,
                     std::vector<const FieldDescriptor*> path, std::vector<std::string>* flags) {
  const auto* type = before.GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    path.push_back(field);
    if (IsGroup(field)) {
      AppendDiffering(before.GetReflection()->GetMessage(before, field),
                      after.GetReflection()->GetMessage(after, field), path, flags);
    } else if (ValueText(before, field) != ValueText(after, field)) {
      flags->push_back(FlagName(path));
    }
    path.pop_back();
  }
}

}  // namespace

std::string FlagName(const std::vector<const FieldDescriptor*>& path) {
  std::vector<std::string> names;
  names.reserve(path.size());
  for (const FieldDescriptor* field : path) names.push_back(field->name());
  return absl::StrCat("--", absl::StrReplaceAll(absl::StrJoin(names, "."), {{"_", "-"}}));
}

std::string ConfigText(const config::ServerConfig& config) {
  std::string text;
  AppendFields(config, "", &text);
  return text;
}

std::vector<std::string> DifferingFlags(const config::ServerConfig& before,
                                        const config::ServerConfig& after) {
  std::vector<std::string> flags;
  AppendDiffering(before, after, {}, &flags);
  return flags;
}

}  // namespace gemmd
