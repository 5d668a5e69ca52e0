#include "client/cli/files/weights_source.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/sync/mutex.h"
#include "base/text/quoted.h"

namespace gemmd::cli {
namespace {

// Experts of a model are fewer; convolutions, whose matrices are tiny, are stacks of more.
constexpr std::uint64_t kMostPutOfAStack = 1024;

bool IsThere(const std::string& path) {
  struct stat info;
  return path == "-" || ::stat(path.c_str(), &info) == 0;
}

// Where a mapped file has been cut, touching what is gone raises SIGBUS, which nobody can return
// from to any use.
void EndWhereAFileIsCut(int /*signal*/) {
  constexpr absl::string_view kLine =
      "gemm: a file of weights was cut, or could not be read, while it was in use\n";
  if (::write(STDERR_FILENO, kLine.data(), kLine.size()) < 0) ::_exit(1);
  ::_exit(static_cast<int>(ExitCode::kFile));
}

Failure Refused(const WeightsPath& path, absl::string_view name, absl::string_view why) {
  return FileFailure(
      absl::InvalidArgumentError(absl::StrCat(path.file, ": tensor ", Quoted(name), ": ", why)));
}

// Returns whether its elements are those of the mapped file, and not decoded ones.
bool SharesFile(const client::WeightOperand& operand) {
  const auto* const matrix = std::get_if<client::Matrix>(&operand);
  if (matrix != nullptr) return matrix->shared_bytes().is_mapped_file();
  return std::get<client::QuantizedArray>(operand).codes.is_mapped_file();
}

Outcome FindTensor(const WeightsPath& path, const client::WeightFile& file,
                   std::optional<client::WeightTensor>& tensor) {
  if (path.tensor) {
    absl::StatusOr<client::WeightTensor> found = file.Find(*path.tensor);
    if (!found.ok()) return FileFailure(found.status());
    tensor = *std::move(found);
    return std::nullopt;
  }
  std::size_t matrices = 0;
  for (const client::WeightTensor& each : file.tensors()) {
    if (each.shape.size() != 2) continue;
    ++matrices;
    tensor = each;
  }
  if (matrices == 1) return std::nullopt;
  return FileFailure(absl::InvalidArgumentError(absl::StrCat(
      path.file, ": has ", matrices, " matrices among ", file.tensors().size(),
      " tensors; say which one: ", path.file, ":NAME (gemm weights lists their names)")));
}

}  // namespace

std::optional<WeightsPath> FindWeights(const std::string& path) {
  WeightsPath found{path, std::nullopt};
  for (std::size_t colon = path.size(); !IsThere(found.file);) {
    if (colon == 0) return std::nullopt;
    colon = path.rfind(':', colon - 1);
    if (colon == std::string::npos) return std::nullopt;
    found = {path.substr(0, colon), path.substr(colon + 1)};
  }
  // The name alone makes it a container: the reader of these says what is wrong with it.
  if (absl::EndsWith(found.file, ".gq") || !client::BeginsAsWeights(found.file)) {
    return std::nullopt;
  }
  std::shared_ptr<const client::WeightFile> file;
  if (!OpenWeights(found.file, file) && file->is_container()) return std::nullopt;
  return found;
}

Outcome OpenWeights(const std::string& path, std::shared_ptr<const client::WeightFile>& file) {
  static Mutex mutex;
  static std::shared_ptr<const client::WeightFile>& last =
      *new std::shared_ptr<const client::WeightFile>;
  const MutexLock lock(mutex);
  std::signal(SIGBUS, EndWhereAFileIsCut);
  if (last == nullptr || last->path() != path) {
    absl::StatusOr<client::WeightFile> opened = client::WeightFile::Open(path);
    if (!opened.ok()) return FileFailure(opened.status());
    last = std::make_shared<const client::WeightFile>(*std::move(opened));
  }
  file = last;
  return std::nullopt;
}

bool IsQuantized(const WeightsPath& path) {
  std::shared_ptr<const client::WeightFile> file;
  std::optional<client::WeightTensor> tensor;
  if (OpenWeights(path.file, file) || FindTensor(path, *file, tensor)) return false;
  const absl::StatusOr<client::WeightForm> form = FormOf(*tensor);
  return form.ok() && !form->element;
}

Outcome ReadWeight(const WeightsPath& path, std::optional<client::WeightOperand>& operand) {
  std::shared_ptr<const client::WeightFile> file;
  if (Outcome failure = OpenWeights(path.file, file)) return failure;
  std::optional<client::WeightTensor> tensor;
  if (Outcome failure = FindTensor(path, *file, tensor)) return failure;
  absl::StatusOr<client::WeightOperand> made = OperandOf(*tensor);
  if (!made.ok()) return Refused(path, tensor->name, made.status().message());
  if (!SharesFile(*made)) ReleasePages(*tensor);
  operand = *std::move(made);
  return std::nullopt;
}

void ReleaseWeight(const WeightsPath& path) {
  std::shared_ptr<const client::WeightFile> file;
  std::optional<client::WeightTensor> tensor;
  if (OpenWeights(path.file, file) || FindTensor(path, *file, tensor)) return;
  ReleasePages(*tensor);
}

Outcome ListWeights(const std::string& path, const std::string& prefix, WeightsNames& names) {
  const std::optional<WeightsPath> found = FindWeights(path);
  if (!found) {
    return UsageFailure(absl::StrCat(
        "--all: ", path, " is no file of weights: safetensors, its index, GGUF, .npz, or ONNX"));
  }
  if (found->tensor) {
    return UsageFailure(absl::StrCat("--all: ", path, " names one tensor; give ", found->file));
  }
  std::shared_ptr<const client::WeightFile> file;
  if (Outcome failure = OpenWeights(found->file, file)) return failure;
  for (const client::WeightTensor& tensor : file->tensors()) {
    if (!absl::StartsWith(tensor.name, prefix)) continue;
    const absl::StatusOr<client::WeightForm> form = FormOf(tensor);
    const std::uint64_t file_bytes = FileBytes(tensor);
    const bool is_shared = form.ok() && form->element && form->size_bytes == file_bytes;
    const std::uint64_t read_bytes = is_shared ? 0 : file_bytes;
    if (!form.ok()) {
      names.refused.emplace_back(tensor.name, std::string(form.status().message()));
    } else if (form->parts > kMostPutOfAStack) {
      names.refused.emplace_back(
          tensor.name,
          absl::StrCat("it is a stack of ", form->parts, " matrices; --all puts those of at most ",
                       kMostPutOfAStack, "; put one by its index, NAME[0]"));
    } else if (form->parts != 0) {
      for (std::uint64_t i = 0; i < form->parts; ++i) {
        names.with_form.push_back({absl::StrCat(tensor.name, "[", i, "]"),
                                   form->size_bytes / form->parts, read_bytes / form->parts});
      }
    } else {
      names.with_form.push_back({tensor.name, form->size_bytes, read_bytes});
    }
  }
  return std::nullopt;
}

}  // namespace gemmd::cli
