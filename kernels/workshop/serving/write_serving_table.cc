// Writes the table into its page:
//   bazel run --config=opt --config=cpu //kernels/workshop/serving:write_serving_table --
//   "$PWD/kernels/README.md"
#include "kernels/workshop/page_tables/page_tables.h"
#include "kernels/workshop/serving/serving_table.h"

int main(int argc, char** argv) {
  return gemmd::page_tables::WritePage(argc, argv, {{"serving", gemmd::serving::ServingTable()}});
}
