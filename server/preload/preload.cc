#include "server/preload/preload.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/digest/operand_digest.h"
#include "base/sync/bytes_in_flight.h"
#include "base/sync/mutex.h"
#include "base/sync/thread_loop.h"
#include "base/text/glob.h"
#include "base/text/operand_name.h"
#include "base/text/quoted.h"
#include "client/npy/npy.h"
#include "client/quantized/quantized_file.h"
#include "client/weights/weight_file.h"
#include "client/weights/weight_form.h"
#include "server/observe/log.h"

namespace gemmd {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kOption = "operands.preload";
constexpr std::size_t kMatricesAtOnce = 4;
constexpr std::uint64_t kMostBytesAtOnce = 1 << 30;  // but that one matrix may be larger
constexpr std::uint64_t kPieceBytes = 8 << 20;

absl::Status WithPrefix(absl::string_view prefix, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(prefix, ": ", status.message()));
}

absl::StatusOr<client::InlineOperand> Read(const client::WeightTensor& tensor) {
  absl::StatusOr<client::WeightOperand> made = client::OperandOf(tensor);
  if (!made.ok()) return made.status();
  if (auto* const matrix = std::get_if<client::Matrix>(&*made)) {
    return client::InlineOperand(std::move(*matrix));
  }
  const auto& array = std::get<client::QuantizedArray>(*made);
  return ToOperand(array, SideOf(array.k_axis));
}

PreloadedMatrix MatrixOf(client::WeightTensor tensor, std::string name, std::uint64_t size_bytes) {
  const auto shared = std::make_shared<const client::WeightTensor>(std::move(tensor));
  return {std::move(name), [shared] { return Read(*shared); }, size_bytes,
          [shared] { ReleasePages(*shared); }};
}

PreloadedFile TensorsOf(const client::WeightFile& file) {
  PreloadedFile found{file.path(), {}, 0};
  for (const client::WeightTensor& tensor : file.tensors()) {
    const absl::StatusOr<client::WeightForm> form = FormOf(tensor);
    if (!form.ok()) {
      ++found.left_out;
      Log(Severity::kDebug, "preload_left_out",
          {{"file", file.path()}, {"tensor", tensor.name}, {"why", form.status().message()}});
      continue;
    }
    if (form->parts == 0) {
      found.matrices.push_back(MatrixOf(tensor, tensor.name, form->size_bytes));
    }
    for (std::uint64_t i = 0; i < form->parts; ++i) {
      found.matrices.push_back(MatrixOf(client::MatrixOf(tensor, i),
                                        absl::StrCat(tensor.name, "[", i, "]"),
                                        form->size_bytes / form->parts));
    }
  }
  return found;
}

// A file of one matrix, of which only its bytes say whether it is sound.
PreloadedFile OneMatrix(const std::string& path) {
  PreloadedMatrix matrix;
  matrix.name = fs::path(path).stem().string();
  matrix.forget = [] {};
  if (client::IsQuantizedFile(path)) {
    matrix.read = [path]() -> absl::StatusOr<client::InlineOperand> {
      const absl::StatusOr<client::QuantizedArray> array = client::ReadQuantizedFile(path);
      if (!array.ok()) return array.status();
      return ToOperand(*array, SideOf(array->k_axis));
    };
  } else {
    matrix.read = [path]() -> absl::StatusOr<client::InlineOperand> {
      absl::StatusOr<client::Matrix> read = client::ReadNpy(path);
      if (!read.ok()) return read.status();
      return client::InlineOperand(*std::move(read));
    };
  }
  return {path, {std::move(matrix)}, 0};
}

absl::StatusOr<PreloadedFile> OpenFile(const std::string& path) {
  if (!client::BeginsAsWeights(path)) {
    if (absl::EndsWith(path, ".npy") || client::IsQuantizedFile(path)) return OneMatrix(path);
    return absl::InvalidArgumentError(absl::StrCat(
        path, " is no file of weights: safetensors, its index, GGUF, .npz, ONNX, .npy, .gq"));
  }
  const absl::StatusOr<client::WeightFile> file = client::WeightFile::Open(path);
  if (!file.ok()) return file.status();
  return file->is_container() ? OneMatrix(path) : TensorsOf(*file);
}

bool IsOfWeights(const std::string& path) {
  return absl::EndsWith(path, ".npy") || client::BeginsAsWeights(path) ||
         client::IsQuantizedFile(path);
}

// The files of a folder, in the order of their names. An index says what its shards are.
absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const fs::directory_entry& each : fs::directory_iterator(folder, error)) {
    if (each.is_regular_file(error)) files.push_back(each.path().string());
  }
  if (error) return absl::NotFoundError(absl::StrCat(folder, ": ", error.message()));
  std::sort(files.begin(), files.end());
  const auto index = std::find_if(files.begin(), files.end(), [](const std::string& path) {
    return absl::EndsWith(path, ".safetensors.index.json");
  });
  if (index != files.end()) return std::vector<std::string>{*index};
  files.erase(std::remove_if(files.begin(), files.end(),
                             [](const std::string& path) { return !IsOfWeights(path); }),
              files.end());
  if (!files.empty()) return files;
  return absl::InvalidArgumentError(absl::StrCat(folder, " has no file of weights"));
}

struct Asked {
  std::string path;
  std::string pattern = "*";
};

// A path that is there goes before one with a pattern behind its last colon.
Asked ParseAsked(absl::string_view text) {
  std::error_code error;
  const std::size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos || fs::exists(std::string(text), error)) {
    return {std::string(text)};
  }
  return {std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
}

absl::Status OpenAsked(const Asked& asked, std::vector<PreloadedFile>* opened) {
  std::error_code error;
  std::vector<std::string> paths = {asked.path};
  if (!fs::exists(asked.path, error)) {
    return absl::NotFoundError(absl::StrCat(asked.path, ": there is no such file or folder"));
  }
  if (fs::is_directory(asked.path, error)) {
    absl::StatusOr<std::vector<std::string>> files = FilesOf(asked.path);
    if (!files.ok()) return files.status();
    paths = *std::move(files);
  }
  std::size_t matrices = 0;
  for (const std::string& path : paths) {
    absl::StatusOr<PreloadedFile> file = OpenFile(path);
    if (!file.ok()) return file.status();
    auto& found = file->matrices;
    found.erase(std::remove_if(found.begin(), found.end(),
                               [&](const PreloadedMatrix& each) {
                                 return !MatchesGlob(asked.pattern, each.name);
                               }),
                found.end());
    matrices += found.size();
    if (!found.empty()) opened->push_back(*std::move(file));
  }
  if (matrices != 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(asked.path, " has no matrix with a name like ", Quoted(asked.pattern)));
}

PlaneSpec SpecOf(const client::Matrix& matrix) {
  const client::MatrixFormat& format = matrix.format();
  return {format.type, format.rows, format.columns, format.order, format.leading_dimension};
}

OperandPlanes<const client::Matrix*> PlanesOf(const client::InlineOperand& operand) {
  const auto find = [](const std::optional<client::Matrix>& plane) {
    return plane.has_value() ? &*plane : nullptr;
  };
  OperandPlanes<const client::Matrix*> planes{};
  planes[PlaneName::kData] = &operand.data;
  planes[PlaneName::kScales] = find(operand.scales);
  planes[PlaneName::kZeroPoints] = find(operand.zero_points);
  planes[PlaneName::kTensorScale] = find(operand.tensor_scale);
  planes[PlaneName::kOffsets] = find(operand.offsets);
  return planes;
}

absl::StatusOr<OperandForm> FormOf(const OperandPlanes<const client::Matrix*>& planes,
                                   const client::InlineOperand& operand,
                                   const RequestLimits& limits) {
  OperandSpec spec;
  spec.data = SpecOf(*planes[PlaneName::kData]);
  for (const auto& [name, to] : {std::pair{PlaneName::kScales, &spec.scales},
                                 std::pair{PlaneName::kZeroPoints, &spec.zero_points},
                                 std::pair{PlaneName::kTensorScale, &spec.tensor_scale},
                                 std::pair{PlaneName::kOffsets, &spec.offsets}}) {
    if (planes[name] != nullptr) *to = SpecOf(*planes[name]);
  }
  spec.blocks = operand.blocks;
  spec.k_order = operand.k_order;
  return ValidateUpload(spec, limits, "the matrix");
}

Sha256Digest DigestOf(const OperandForm& form, const OperandPlanes<const client::Matrix*>& planes) {
  OperandPlanes<std::vector<Sha256Digest>> chunks;
  for (const PlaneName each : kPlaneNames) {
    if (planes[each] == nullptr) continue;
    chunks[each] = ChunkDigests(planes[each]->bytes());
  }
  return gemmd::DigestOf(form, chunks);
}

absl::Status Send(const OperandPlanes<const client::Matrix*>& planes,
                  OperandStore::UploadStream* upload) {
  for (const PlaneName each : kPlaneNames) {
    if (planes[each] == nullptr) continue;
    const absl::string_view bytes = planes[each]->bytes();
    for (std::uint64_t at = 0; at < bytes.size() && !upload->resident(); at += kPieceBytes) {
      const absl::string_view piece = bytes.substr(at, kPieceBytes);
      const absl::StatusOr<bool> received = upload->Receive({each, at, {&piece, 1}});
      if (!received.ok()) return received.status();
    }
  }
  return upload->End();
}

// Puts one matrix. With `replace` another one may have its name, and goes. Returns its bytes.
absl::StatusOr<std::uint64_t> Put(const PreloadedMatrix& matrix, const Tenant& tenant,
                                  const RequestLimits& limits, OperandStore* store, bool replace) {
  if (absl::Status s = CheckOperandName("its name", matrix.name); !s.ok()) return s;
  const absl::StatusOr<client::InlineOperand> operand = matrix.read();
  if (!operand.ok()) return operand.status();
  const OperandPlanes<const client::Matrix*> planes = PlanesOf(*operand);
  const absl::StatusOr<OperandForm> form = FormOf(planes, *operand, limits);
  if (!form.ok()) return form.status();
  const auto upload = store->BeginUpload(tenant, DigestOf(*form, planes), *form, std::nullopt);
  if (!upload.ok()) return upload.status();
  if (absl::Status s = Send(planes, upload->get()); !s.ok()) return s;
  const OperandKey key{(*upload)->info().handle, {}};
  if (absl::Status s = store->Pin(tenant, key); !s.ok()) return s;
  const auto named = store->SetName(tenant, key, matrix.name, replace);
  if (!named.ok()) return named.status();
  if (!named->replaced_handle.empty() && replace) {
    const OperandKey old{named->replaced_handle, {}};
    const absl::StatusOr<StoredInfo> info = store->Get(tenant, old);
    // It may be gone already.
    if (info.ok() && info->names.empty()) store->Release(tenant, old).IgnoreError();
  }
  return form->size_bytes();
}

absl::Status PreloadFile(const PreloadedFile& file, const Tenant& tenant,
                         const RequestLimits& limits, OperandStore* store,
                         const std::function<bool()>& is_stopped) {
  Log(Severity::kInfo, "preloading", {{"file", file.path}, {"matrices", file.matrices.size()}});
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<bool> has_failed{false};
  Mutex mutex;
  absl::Status status;
  BytesInFlight in_flight(kMostBytesAtOnce);
  ForEachOnThreads(file.matrices.size(), kMatricesAtOnce, [&](std::size_t i) {
    if (has_failed) return;
    const PreloadedMatrix& matrix = file.matrices[i];
    in_flight.Enter(matrix.size_bytes);
    const absl::StatusOr<std::uint64_t> put = is_stopped()
                                                  ? absl::CancelledError("the server is to stop")
                                                  : Put(matrix, tenant, limits, store, false);
    matrix.forget();
    in_flight.Leave(matrix.size_bytes);
    if (put.ok()) {
      bytes += *put;
      return;
    }
    const MutexLock lock(mutex);
    status.Update(WithPrefix(absl::StrCat(file.path, ": ", Quoted(matrix.name)), put.status()));
    has_failed = true;
  });
  if (!status.ok()) return status;
  Log(Severity::kInfo, "preloaded",
      {{"file", file.path},
       {"matrices", file.matrices.size()},
       {"bytes", bytes.load()},
       {"left_out", file.left_out}});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<PreloadedFile>> OpenPreload(absl::string_view option) {
  std::vector<PreloadedFile> opened;
  for (const absl::string_view text : absl::StrSplit(option, ',', absl::SkipEmpty())) {
    const absl::Status status = OpenAsked(ParseAsked(text), &opened);
    if (!status.ok()) return WithPrefix(kOption, status);
  }
  return opened;
}

absl::StatusOr<Tenant> PreloadTenant(const std::string& name, const Policy& policy) {
  if (!policy.is_open()) return policy.TenantOf(name);
  const absl::StatusOr<Tenant> tenant = Tenant::Named(name);
  if (!tenant.ok()) return WithPrefix(absl::StrCat(kOption, "_tenant"), tenant.status());
  return tenant;
}

absl::Status Preload(const std::vector<PreloadedFile>& files, const Tenant& tenant,
                     const RequestLimits& limits, OperandStore* store,
                     const std::function<bool()>& is_stopped) {
  for (const PreloadedFile& file : files) {
    const absl::Status status = PreloadFile(file, tenant, limits, store, is_stopped);
    if (!status.ok()) return WithPrefix(kOption, status);
  }
  return absl::OkStatus();
}

absl::Status PutAgain(const PreloadedFile& file, const PreloadedMatrix& matrix,
                      const Tenant& tenant, const RequestLimits& limits, OperandStore* store) {
  const absl::Status status = Put(matrix, tenant, limits, store, true).status();
  matrix.forget();
  if (status.ok()) return status;
  return WithPrefix(absl::StrCat(file.path, ": ", Quoted(matrix.name)), status);
}

}  // namespace gemmd
