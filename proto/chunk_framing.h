// Writing a message around payload that stays where it is, instead of through a
// protobuf string.
#pragma once

#include <cstdint>
#include <string>

#include "gemmd/v1/gemm.pb.h"

namespace gemmd {

// Returns the bytes before a chunk's data on the wire, for a chunk that is field `payload_field` of
// its message: tag and length of the chunk, its other fields, tag and length of the data. Whatever
// precedes it in the message, this and then the data make the field whole. REQUIRES: head.data() is
// empty.
std::string ChunkPrefix(int payload_field, const v1::Chunk& head, std::uint64_t data_bytes);

// Returns the bytes before the content of a field that is a message, or bytes: tag and length.
std::string FieldPrefix(int field, std::uint64_t content_bytes);

}  // namespace gemmd
