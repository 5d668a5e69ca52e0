// Writes the model's tables into its page:
//   bazel run --config=opt //kernels/workshop/model:schedule_model --
//   "$PWD/docs/lab/mxfp8-schedule.md"
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "absl/status/statusor.h"
#include "base/file/write_file.h"
#include "kernels/workshop/model/page.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: schedule_model PAGE\n";
    return 2;
  }
  std::ifstream in(argv[1]);
  const std::string page((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (page.empty()) {
    std::cerr << argv[1] << ": cannot be read\n";
    return 1;
  }
  in.close();
  const absl::StatusOr<std::string> filled =
      gemmd::model::FillPage(page, gemmd::model::Tables(gemmd::model::Evaluate({})));
  if (!filled.ok()) {
    std::cerr << argv[1] << ": " << filled.status().message() << "\n";
    return 1;
  }
  const absl::Status written = gemmd::WriteFile(argv[1], {*filled});
  if (!written.ok()) std::cerr << written.message() << "\n";
  return written.ok() ? 0 : 1;
}
