// The kernels that serve, by device, type and size: the table of kernels/README.md, asked of
// selection itself.
#pragma once

#include <string>

namespace gemmd::serving {

// In Markdown: a row for each device and type, a column for each number of rows of A. N and K are
// 4096, the operands row-major, and the request says nothing else.
std::string ServingTable();

}  // namespace gemmd::serving
