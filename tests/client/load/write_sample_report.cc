// Writes the page of a simulated sweep to the path given: what the browser test opens.
#include <fstream>

#include "client/load/report/html_report.h"
#include "tests/client/load/sample_report.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::ofstream file(argv[1]);
  file << gemmd::load::HtmlReport(gemmd::testing::SampleReport()) << std::flush;
  return file.good() ? 0 : 1;
}
