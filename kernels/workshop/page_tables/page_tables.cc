#include "kernels/workshop/page_tables/page_tables.h"

#include <cstddef>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file/write_file.h"

namespace gemmd::page_tables {

absl::StatusOr<std::string> FillPage(const std::string& page,
                                     const std::map<std::string, std::string>& tables) {
  static constexpr char kBegin[] = "<!-- table: ";
  static constexpr char kClose[] = " -->\n";
  static constexpr char kEnd[] = "<!-- end -->\n";
  std::string filled;
  std::size_t at = 0;
  std::map<std::string, std::string> missing = tables;
  for (;;) {
    const std::size_t mark = page.find(kBegin, at);
    if (mark == std::string::npos) break;
    const std::size_t name_at = mark + sizeof(kBegin) - 1;
    const std::size_t close = page.find(kClose, name_at);
    const std::string name =
        page.substr(name_at, close == std::string::npos ? std::string::npos : close - name_at);
    const auto table = tables.find(name);
    if (close == std::string::npos || table == tables.end()) {
      return absl::InvalidArgumentError(absl::StrCat("there is no table \"", name, "\""));
    }
    const std::size_t end = page.find(kEnd, close);
    if (end == std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat("table \"", name, "\" has no end"));
    }
    filled += page.substr(at, close + sizeof(kClose) - 1 - at) + table->second + kEnd;
    at = end + sizeof(kEnd) - 1;
    missing.erase(name);
  }
  if (!missing.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("table \"", missing.begin()->first, "\" is not on the page"));
  }
  return filled + page.substr(at);
}

int WritePage(int argc, char** argv, const std::map<std::string, std::string>& tables) {
  if (argc != 2) {
    std::cerr << "usage: " << argv[0] << " PAGE\n";
    return 2;
  }
  std::ifstream in(argv[1]);
  const std::string page((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (page.empty()) {
    std::cerr << argv[1] << ": cannot be read\n";
    return 1;
  }
  in.close();
  const absl::StatusOr<std::string> filled = FillPage(page, tables);
  absl::Status status = filled.status();
  if (status.ok()) status = WriteFile(argv[1], {*filled});
  if (!status.ok()) std::cerr << argv[1] << ": " << status.message() << "\n";
  return status.ok() ? 0 : 1;
}

}  // namespace gemmd::page_tables
