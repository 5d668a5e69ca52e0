#include "server/options/reload.h"

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace gemmd {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

void Copy(const Message& from, const FieldDescriptor* field, Message* to) {
  const auto* reflection = from.GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
    reflection->SetInt64(to, field, reflection->GetInt64(from, field));
  } else {
    reflection->SetString(to, field, reflection->GetString(from, field));
  }
}

void Take(const Message& read, Message* config) {
  const auto* type = read.GetDescriptor();
  const auto* reflection = read.GetReflection();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Take(reflection->GetMessage(read, field), reflection->MutableMessage(config, field));
    } else if (field->options().GetExtension(config::reloads)) {
      Copy(read, field, config);
    }
  }
}

}  // namespace

void TakeReloading(const config::ServerConfig& read, config::ServerConfig* config) {
  Take(read, config);
}

}  // namespace gemmd
