// Writes the model's tables into its page:
//   bazel run --config=opt //kernels/workshop/model:schedule_model --
//   "$PWD/docs/lab/mxfp8-schedule.md"
#include "kernels/workshop/model/page.h"
#include "kernels/workshop/page_tables/page_tables.h"

int main(int argc, char** argv) {
  return gemmd::page_tables::WritePage(argc, argv,
                                       gemmd::model::Tables(gemmd::model::Evaluate({})));
}
