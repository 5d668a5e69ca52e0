// gemmd's client for C++17: the functions of gemmd.h, with values that free themselves and statuses
// instead of codes. Header only, over the C interface, so that a program's compiler, standard
// library and Abseil need not be those of libgemmd.so.
//
//   gemmd::Result<gemmd::Client> client = gemmd::Client::Create({"127.0.0.1:50051"});
//   gemmd::Result<gemmd::Product> d = client->Matmul(gemmd::RowMajor(a, m, k),
//                                                    gemmd::RowMajor(b, k, n));
//
// gemmd.h says what each function takes, returns and refuses; what follows says what differs.
//
// Errors. A function that can fail returns a Status, or a Result: the value or the status. Nothing
// throws but Result::value() and what the standard library throws where memory is short.
//
// Threads. All functions of one Client may be called by many threads at a time.
#ifndef GEMMD_GEMMD_HPP_
#define GEMMD_GEMMD_HPP_

#include <gemmd/gemmd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace gemmd {
// In the names of symbols, so that a later version's are others.
inline namespace cpp_0 {

using Milliseconds = std::chrono::milliseconds;

// ------------------------------------------------------------------ statuses

// The end of a call: OK, or one of gRPC's codes with the server's words or this library's.
class Status {
 public:
  Status() = default;
  Status(gemmd_code code, std::string message) : code_(code), message_(std::move(message)) {}
  // Takes the error over.
  static Status Of(gemmd_code code, gemmd_error* error) {
    Status status(code, gemmd_error_message(error));
    status.field_ = gemmd_error_field(error);
    status.limit_ = gemmd_error_limit(error);
    status.retry_after_ms_ = gemmd_error_retry_after_ms(error);
    gemmd_error_free(error);
    return status;
  }

  bool ok() const { return code_ == GEMMD_OK; }
  gemmd_code code() const { return code_; }
  const std::string& message() const { return message_; }
  // The field that the message is about, "a.rows"; empty where it names none.
  const std::string& field() const { return field_; }
  // The limit that was exceeded, in the field's unit, where the message names one.
  std::optional<std::int64_t> limit() const {
    return limit_ < 0 ? std::nullopt : std::optional<std::int64_t>(limit_);
  }
  // The time after which the server wants a product to be asked for again, where it said so.
  std::optional<Milliseconds> retry_after() const {
    return retry_after_ms_ < 0 ? std::nullopt : std::optional<Milliseconds>(retry_after_ms_);
  }
  // "NOT_FOUND: no such matrix"; "OK".
  std::string ToString() const {
    return ok() ? "OK" : std::string(gemmd_code_name(code_)) + ": " + message_;
  }

 private:
  gemmd_code code_ = GEMMD_OK;
  std::string message_;
  std::string field_;
  std::int64_t limit_ = -1;
  std::int64_t retry_after_ms_ = -1;
};

// Result::value() throws it.
class Error : public std::runtime_error {
 public:
  explicit Error(Status status)
      : std::runtime_error(status.ToString()), status_(std::move(status)) {}
  const Status& status() const { return status_; }

 private:
  Status status_;
};

// A value, or the status that says why there is none.
template <typename T>
class Result {
 public:
  Result(T value) : held_(std::move(value)) {}         // NOLINT: as the value itself
  Result(Status status) : held_(std::move(status)) {}  // NOLINT: REQUIRES: it is not OK

  bool ok() const { return std::holds_alternative<T>(held_); }
  explicit operator bool() const { return ok(); }
  Status status() const { return ok() ? Status() : *std::get_if<Status>(&held_); }

  // Throw Error where there is no value.
  T& value() & { return Checked(), *std::get_if<T>(&held_); }
  const T& value() const& { return Checked(), *std::get_if<T>(&held_); }
  T value() && { return Checked(), std::move(*std::get_if<T>(&held_)); }

  // REQUIRES: ok().
  T& operator*() { return *std::get_if<T>(&held_); }
  const T& operator*() const { return *std::get_if<T>(&held_); }
  T* operator->() { return std::get_if<T>(&held_); }
  const T* operator->() const { return std::get_if<T>(&held_); }

 private:
  void Checked() const {
    if (!ok()) throw Error(*std::get_if<Status>(&held_));
  }

  std::variant<Status, T> held_;
};

namespace detail {

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* handle) const {
    Free(handle);
  }
};
template <typename T, auto Free>
using Handle = std::unique_ptr<T, Freed<Free>>;

// Calls a function that takes an error last.
template <typename Function, typename... Arguments>
Status Call(Function function, Arguments... arguments) {
  gemmd_error* error = nullptr;
  const gemmd_code code = function(arguments..., &error);
  return code == GEMMD_OK ? Status() : Status::Of(code, error);
}

inline const char* OrNull(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

template <typename T>
constexpr std::int32_t TypeNumber() {
  if constexpr (std::is_same_v<T, double>) return GEMMD_F64;
  if constexpr (std::is_same_v<T, float>) return GEMMD_F32;
  if constexpr (std::is_same_v<T, std::int8_t>) return GEMMD_INT8;
  if constexpr (std::is_same_v<T, std::int32_t>) return GEMMD_INT32;
  return 0;
}

}  // namespace detail

// ------------------------------------------------------------------ matrices

// The types of gemmd.h's arrays.
enum class Type : std::int32_t {
  kF64 = GEMMD_F64,
  kF32 = GEMMD_F32,
  kF16 = GEMMD_F16,
  kBf16 = GEMMD_BF16,
  kInt8 = GEMMD_INT8,
  kInt32 = GEMMD_INT32,
  kFp8E4M3 = GEMMD_FP8_E4M3,
  kFp8E5M2 = GEMMD_FP8_E5M2,
};

// The type of double, float, std::int8_t or std::int32_t.
template <typename T>
constexpr Type TypeOf() {
  constexpr std::int32_t kNumber = detail::TypeNumber<std::remove_cv_t<T>>();
  static_assert(kNumber != 0, "give such elements as void* with their gemmd::Type");
  return static_cast<Type>(kNumber);
}

// A matrix in the caller's memory that is read. Strides count elements; both 0: row-major and
// contiguous. gemmd_array says which ones are taken.
struct Array {
  const void* data = nullptr;
  Type type = Type::kF32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;

  gemmd_array c() const {
    gemmd_array array = GEMMD_ARRAY_INIT;
    array.data = const_cast<void*>(data);
    array.dtype = static_cast<std::int32_t>(type);
    array.rows = rows;
    array.columns = columns;
    array.row_stride = row_stride;
    array.column_stride = column_stride;
    return array;
  }
};

// One that D may be written to.
struct MutableArray {
  void* data = nullptr;
  Type type = Type::kF32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;

  operator Array() const {  // NOLINT: what can be written can be read
    return {data, type, rows, columns, row_stride, column_stride};
  }
  gemmd_array c() const { return Array(*this).c(); }
};

namespace detail {
template <typename T>
using ArrayOf = std::conditional_t<std::is_const_v<T>, Array, MutableArray>;
}  // namespace detail

// A matrix by rows, or by columns as Fortran's are. `stride`: elements from one row or column to
// the next; 0: they touch.
template <typename T>
detail::ArrayOf<T> RowMajor(T* data, std::int64_t rows, std::int64_t columns,
                            std::int64_t stride = 0) {
  return {data, TypeOf<T>(), rows, columns, stride == 0 ? columns : stride, 1};
}
template <typename T>
detail::ArrayOf<T> ColumnMajor(T* data, std::int64_t rows, std::int64_t columns,
                               std::int64_t stride = 0) {
  return {data, TypeOf<T>(), rows, columns, 1, stride == 0 ? rows : stride};
}

// A matrix that stays on the server. Frees this side's handle and copy; there it stays until its
// lease ends.
class Matrix {
 public:
  explicit Matrix(gemmd_matrix* matrix) : matrix_(matrix) {}

  std::string handle() const { return gemmd_matrix_handle(matrix_.get()); }
  std::string digest() const { return gemmd_matrix_digest(matrix_.get()); }
  Type type() const { return static_cast<Type>(gemmd_matrix_dtype(matrix_.get())); }
  std::int64_t rows() const { return gemmd_matrix_rows(matrix_.get()); }
  std::int64_t columns() const { return gemmd_matrix_columns(matrix_.get()); }
  const gemmd_matrix* c() const { return matrix_.get(); }

 private:
  detail::Handle<gemmd_matrix, gemmd_matrix_free> matrix_;
};

// One operand: an array that goes along, or a matrix on the server, by itself or by its name:
// "@weights", a handle, or a digest in hexadecimal. The matrix must outlive the operand.
class Operand {
 public:
  Operand(const Array& array) : array_(array.c()) {}         // NOLINT: as the array itself
  Operand(const MutableArray& array) : array_(array.c()) {}  // NOLINT: likewise
  Operand(const Matrix& matrix) : matrix_(matrix.c()) {}     // NOLINT: likewise
  Operand(std::string name) : name_(std::move(name)) {}      // NOLINT: likewise
  Operand(const char* name) : name_(name) {}                 // NOLINT: likewise

  // Refers to this operand.
  gemmd_operand c() const {
    gemmd_operand operand = GEMMD_OPERAND_INIT;
    if (array_) operand.array = &*array_;
    operand.matrix = matrix_;
    if (name_) operand.name = name_->c_str();
    return operand;
  }

 private:
  std::optional<gemmd_array> array_;
  const gemmd_matrix* matrix_ = nullptr;
  std::optional<std::string> name_;
};

// ------------------------------------------------------------------ products

enum class Activation : std::int32_t {
  kNone = GEMMD_ACTIVATION_NONE,
  kRelu = GEMMD_ACTIVATION_RELU,
  kGeluTanh = GEMMD_ACTIVATION_GELU_TANH,
  kSilu = GEMMD_ACTIVATION_SILU,
};
enum class Determinism : std::int32_t {
  kBatchInvariant = GEMMD_BATCH_INVARIANT,
  kFast = GEMMD_FAST
};
enum class Priority : std::int32_t {
  kNormal = GEMMD_PRIORITY_NORMAL,
  kHigh = GEMMD_PRIORITY_HIGH,
  kLow = GEMMD_PRIORITY_LOW,
};

// Many products of one shape in one request: gemmd_matmul_options' batch_count and strides.
struct Batch {
  std::int64_t count = 1;
  std::int64_t a_stride = 0;
  std::int64_t b_stride = 0;
  std::int64_t c_stride = 0;
  std::int64_t bias_stride = 0;
  std::int64_t d_stride = 0;  // of MatmulOptions::d
};

// gemmd_matmul_options.
struct MatmulOptions {
  double alpha = 1;
  double beta = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  std::optional<Operand> c = std::nullopt;
  std::optional<Operand> bias = std::nullopt;
  Activation activation = Activation::kNone;
  std::optional<Type> output_type = std::nullopt;
  std::optional<Type> accumulate_type = std::nullopt;
  Determinism determinism = Determinism::kBatchInvariant;
  Priority priority = Priority::kNormal;
  std::uint32_t verification_vectors = 0;
  std::string kernel = {};
  Milliseconds timeout{0};  // 0: the client's
  std::optional<MutableArray> d = std::nullopt;
  bool keep_on_server = false;
  Milliseconds lease{0};  // 0: the server's default
  std::optional<Batch> batch = std::nullopt;
};

// A product, a batch of them, or a matrix that Client::Get() brought.
class Product {
 public:
  explicit Product(gemmd_result* result) : result_(result) {}

  // D in this product's memory, which lives as long as it does; of a batch the first result, which
  // the others follow, rows * columns elements each. FAILED_PRECONDITION: it went to
  // MatmulOptions::d, or stays on the server.
  Result<Array> array() const {
    gemmd_array array = GEMMD_ARRAY_INIT;
    if (Status s = detail::Call(gemmd_result_array, result_.get(), &array); !s.ok()) return s;
    return Array{array.data,       static_cast<Type>(array.dtype),
                 array.rows,       array.columns,
                 array.row_stride, array.column_stride};
  }
  // D's elements; null where they are not here, or of another type than T.
  template <typename T>
  const T* data() const {
    const Result<Array> d = array();
    return d.ok() && d->type == TypeOf<T>() ? static_cast<const T*>(d->data) : nullptr;
  }
  // D that stays on the server. FAILED_PRECONDITION: it does not.
  Result<Matrix> matrix() const {
    gemmd_matrix* matrix = nullptr;
    if (Status s = detail::Call(gemmd_result_matrix, result_.get(), &matrix); !s.ok()) return s;
    return Matrix(matrix);
  }
  // Its strings live as long as the product. FAILED_PRECONDITION: of Get().
  Result<gemmd_receipt> receipt() const {
    gemmd_receipt receipt = GEMMD_RECEIPT_INIT;
    if (Status s = detail::Call(gemmd_result_receipt, result_.get(), &receipt); !s.ok()) return s;
    return receipt;
  }
  // Empty of Get().
  std::string receipt_json() const {
    const char* const json = gemmd_result_receipt_json(result_.get());
    return json == nullptr ? "" : json;
  }

 private:
  detail::Handle<gemmd_result, gemmd_result_free> result_;
};

// A product under way; it goes on without this handle.
class PendingProduct {
 public:
  explicit PendingProduct(gemmd_call* call) : call_(call) {}
  // Ends it with CANCELLED, unless its end is already on its way.
  void Cancel() { gemmd_call_cancel(call_.get()); }

 private:
  detail::Handle<gemmd_call, gemmd_call_free> call_;
};

// ------------------------------------------------------------------ files of weights

// A matrix of a file, in the form that a server takes.
class Tensor {
 public:
  explicit Tensor(gemmd_tensor* tensor) : tensor_(tensor) {}

  std::string form() const { return gemmd_tensor_form(tensor_.get()); }
  std::int64_t rows() const { return gemmd_tensor_rows(tensor_.get()); }
  std::int64_t columns() const { return gemmd_tensor_columns(tensor_.get()); }
  // GEMMD_PLANE_DATA and so on, in this tensor's memory. NOT_FOUND: it has no such plane.
  Result<gemmd_plane> plane(std::int32_t plane) const {
    gemmd_plane described = GEMMD_PLANE_INIT;
    if (Status s = detail::Call(gemmd_tensor_plane, tensor_.get(), plane, &described); !s.ok()) {
      return s;
    }
    return described;
  }
  const gemmd_tensor* c() const { return tensor_.get(); }

 private:
  detail::Handle<gemmd_tensor, gemmd_tensor_free> tensor_;
};

// A file of weights as other programs write them; tensors outlive it.
class WeightFile {
 public:
  static Result<WeightFile> Open(const std::string& path) {
    gemmd_weights* weights = nullptr;
    if (Status s = detail::Call(gemmd_weights_open, path.c_str(), &weights); !s.ok()) return s;
    return WeightFile(weights);
  }

  std::string kind() const { return gemmd_weights_kind(weights_.get()); }
  std::int64_t size() const { return gemmd_weights_count(weights_.get()); }
  // The index is 0 to size() - 1. Its strings and its shape live as long as the file is open.
  Result<gemmd_tensor_info> info(std::int64_t index) const {
    gemmd_tensor_info info = GEMMD_TENSOR_INFO_INIT;
    if (Status s = detail::Call(gemmd_weights_info, weights_.get(), index, &info); !s.ok()) {
      return s;
    }
    return info;
  }
  Result<Tensor> Read(const std::string& name) const {
    gemmd_tensor* tensor = nullptr;
    Status s = detail::Call(gemmd_weights_read, weights_.get(), name.c_str(), &tensor);
    if (!s.ok()) return s;
    return Tensor(tensor);
  }

 private:
  explicit WeightFile(gemmd_weights* weights) : weights_(weights) {}

  detail::Handle<gemmd_weights, gemmd_weights_free> weights_;
};

// ------------------------------------------------------------------ clients

// gemmd_client_options. Empty texts are the defaults.
struct ClientOptions {
  std::string target = {};  // host:port, dns:///host:port or unix:path; several with commas
  std::string token = {};
  std::string tenant = {};
  bool tls = false;
  std::string root_certificates = {};  // PEM, as the next two
  std::string client_certificate = {};
  std::string client_key = {};
  std::string server_name = {};
  Milliseconds retry_patience{0};  // 0: 10 s; -1: a call is never tried again
  Milliseconds timeout{0};         // 0: none
  bool affinity_header = false;    // calls about a matrix with a digest say it to proxies
};

// Client::Info() gives it; json is gemmd.v1.ServerInfoResponse.
struct ServerInfo {
  std::string version;
  std::string json;
};

class Client {
 public:
  static Result<Client> Create(const ClientOptions& options = {}) {
    gemmd_client_options given = GEMMD_CLIENT_OPTIONS_INIT;
    given.target = detail::OrNull(options.target);
    given.token = detail::OrNull(options.token);
    given.tenant = detail::OrNull(options.tenant);
    given.tls = options.tls;
    given.root_certificates = detail::OrNull(options.root_certificates);
    given.client_certificate = detail::OrNull(options.client_certificate);
    given.client_key = detail::OrNull(options.client_key);
    given.server_name = detail::OrNull(options.server_name);
    given.retry_patience_ms = options.retry_patience.count();
    given.timeout_ms = options.timeout.count();
    given.affinity_header = options.affinity_header;
    gemmd_client* client = nullptr;
    if (Status s = detail::Call(gemmd_client_new, &given, &client); !s.ok()) return s;
    return Client(client);
  }

  // The end of a client cancels what is under way and waits for its callbacks. Danger: in a
  // callback it would wait for itself, so there it leaves the client's memory behind.

  Result<Product> Matmul(const Operand& a, const Operand& b, const MatmulOptions& options = {}) {
    gemmd_result* result = nullptr;
    const Given given(a, b, options);
    Status s =
        detail::Call(gemmd_matmul, client_.get(), &given.a, &given.b, &given.options, &result);
    if (!s.ok()) return s;
    return Product(result);
  }

  // Asks what the product would take there; elements of arrays are not read.
  Result<gemmd_estimated> Estimate(const Operand& a, const Operand& b,
                                   const MatmulOptions& options = {}) {
    gemmd_estimated estimated = GEMMD_ESTIMATED_INIT;
    const Given given(a, b, options);
    Status s = detail::Call(gemmd_estimate, client_.get(), &given.a, &given.b, &given.options,
                            std::int64_t{options.timeout.count()}, &estimated);
    if (!s.ok()) return s;
    return estimated;
  }

  // Where it returns a value, `done` runs once, on a thread of the library's or here. It must not
  // wait, nor throw, which ends the program. Memory of arrays, `d` among them, must stay until
  // then.
  using Done = std::function<void(Result<Product>)>;
  Result<PendingProduct> MatmulAsync(const Operand& a, const Operand& b,
                                     const MatmulOptions& options, Done done) {
    gemmd_call* call = nullptr;
    const Given given(a, b, options);
    auto kept = std::make_unique<Done>(std::move(done));
    Status s = detail::Call(gemmd_matmul_async, client_.get(), &given.a, &given.b, &given.options,
                            &Client::Tell, static_cast<void*>(kept.get()), &call);
    if (!s.ok()) return s;
    static_cast<void>(kept.release());  // Tell()'s by now, which may have run
    return PendingProduct(call);
  }

  // Uploads what the server does not have of an array, of which a copy is kept.
  Result<Matrix> Put(const Array& array, Milliseconds lease = {}, Milliseconds timeout = {}) {
    const gemmd_array given = array.c();
    gemmd_matrix* matrix = nullptr;
    Status s = detail::Call(gemmd_put, client_.get(), &given, std::int64_t{lease.count()},
                            std::int64_t{timeout.count()}, &matrix);
    if (!s.ok()) return s;
    return Matrix(matrix);
  }
  // Without a copy: the matrix keeps the tensor's memory.
  Result<Matrix> Put(const Tensor& tensor, Milliseconds lease = {}, Milliseconds timeout = {}) {
    gemmd_matrix* matrix = nullptr;
    Status s = detail::Call(gemmd_put_tensor, client_.get(), tensor.c(),
                            std::int64_t{lease.count()}, std::int64_t{timeout.count()}, &matrix);
    if (!s.ok()) return s;
    return Matrix(matrix);
  }
  Result<Product> Get(const Operand& operand, Milliseconds timeout = {}) {
    const gemmd_operand given = operand.c();
    gemmd_result* result = nullptr;
    Status s =
        detail::Call(gemmd_get, client_.get(), &given, std::int64_t{timeout.count()}, &result);
    if (!s.ok()) return s;
    return Product(result);
  }
  Status SetName(const Operand& operand, const std::string& name, bool replace = false,
                 Milliseconds timeout = {}) {
    const gemmd_operand given = operand.c();
    return detail::Call(gemmd_set_name, client_.get(), &given, name.c_str(), replace,
                        std::int64_t{timeout.count()});
  }
  Status Release(const Operand& operand, Milliseconds timeout = {}) {
    const gemmd_operand given = operand.c();
    return detail::Call(gemmd_release, client_.get(), &given, std::int64_t{timeout.count()});
  }
  Result<ServerInfo> Info(Milliseconds timeout = {}) {
    gemmd_server_info* told = nullptr;
    Status s =
        detail::Call(gemmd_server_info_get, client_.get(), std::int64_t{timeout.count()}, &told);
    if (!s.ok()) return s;
    const detail::Handle<gemmd_server_info, gemmd_server_info_free> info(told);
    return ServerInfo{gemmd_server_info_version(told), gemmd_server_info_json(told)};
  }

 private:
  struct Free {
    void operator()(gemmd_client* client) const { gemmd_client_free(client, nullptr); }
  };

  // The arguments of one product, for as long as the call takes to read them.
  struct Given {
    Given(const Operand& a_operand, const Operand& b_operand, const MatmulOptions& given)
        : a(a_operand.c()), b(b_operand.c()) {
      options.alpha = given.alpha;
      options.beta = given.beta;
      options.transpose_a = given.transpose_a;
      options.transpose_b = given.transpose_b;
      if (given.c) options.c = &(c = given.c->c());
      if (given.bias) options.bias = &(bias = given.bias->c());
      options.activation = static_cast<std::int32_t>(given.activation);
      if (given.output_type) options.output_type = static_cast<std::int32_t>(*given.output_type);
      if (given.accumulate_type) {
        options.accumulate_type = static_cast<std::int32_t>(*given.accumulate_type);
      }
      options.determinism = static_cast<std::int32_t>(given.determinism);
      options.priority = static_cast<std::int32_t>(given.priority);
      options.verification_vectors = given.verification_vectors;
      options.kernel = detail::OrNull(given.kernel);
      options.timeout_ms = given.timeout.count();
      if (given.d) options.d = &(d = given.d->c());
      options.keep_on_server = given.keep_on_server;
      options.lease_ms = given.lease.count();
      if (given.batch) Set(*given.batch);
    }
    Given(const Given&) = delete;
    Given& operator=(const Given&) = delete;

    void Set(const Batch& batch) {
      options.batch_count = batch.count;
      options.a_batch_stride = batch.a_stride;
      options.b_batch_stride = batch.b_stride;
      options.c_batch_stride = batch.c_stride;
      options.bias_batch_stride = batch.bias_stride;
      options.d_batch_stride = batch.d_stride;
    }

    gemmd_operand a;
    gemmd_operand b;
    gemmd_operand c = GEMMD_OPERAND_INIT;
    gemmd_operand bias = GEMMD_OPERAND_INIT;
    gemmd_array d = GEMMD_ARRAY_INIT;
    gemmd_matmul_options options = GEMMD_MATMUL_OPTIONS_INIT;
  };

  explicit Client(gemmd_client* client) : client_(client) {}

  static void Tell(void* context, gemmd_result* result, gemmd_error* error) noexcept {
    const std::unique_ptr<Done> done(static_cast<Done*>(context));
    if (error == nullptr && result != nullptr) {
      (*done)(Product(result));
    } else if (error != nullptr) {
      (*done)(Status::Of(gemmd_error_code(error), error));
    } else {
      (*done)(Status(GEMMD_RESOURCE_EXHAUSTED, "this process has no memory for it"));
    }
  }

  std::unique_ptr<gemmd_client, Free> client_;
};

}  // namespace cpp_0
}  // namespace gemmd

#endif  // GEMMD_GEMMD_HPP_
