// A program that calls BLAS and knows nothing of gemmd: tests run it with libgemmd_blas.so
// preloaded.
//
//   caller PLAIN_BLAS
//
// opens that BLAS for itself alone, as Python's modules do, and obeys the lines of its standard
// input, each of which it answers by one line:
//
//   products N      N calls of several routines, all results checked: "right N, here H"
//   batches N       N batches, of either interface: "right N, here H"
//   large N SIDE    N calls of dgemm of that side, likewise
//   threads T N     so many at a time on T threads: "right N, here H"
//   bits N          one product N times beside three threads of others: "equal N"
//   edges           calls that are no products: "edges right, refused R"
//   fork N          N products in a child: its answer
//   loaded          "libgemmd yes, threads 7"
//   apart           "threads yes, that take signals 0, names hidden"
//   see PATH        opens one more BLAS, for all: "sees it"
//   until-there N   up to N products, until one was not computed here: "there"
//
// A line "at I" comes before the answer of `products` for each 100 calls.
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "base/sync/thread_loop.h"
#include "tests/client/blas/plain.h"

namespace gemmd::blas {
namespace {

using Counter = long();

Counter* calls_of_plain = nullptr;
Counter* refusals_of_plain = nullptr;

// The function that a program which is linked with a BLAS would call.
template <typename Function>
Function* Called(const char* name) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) {
    std::cerr << "nobody exports " << name << "\n";
    std::exit(1);
  }
  return reinterpret_cast<Function*>(found);
}

// As programs in C declare it, without the lengths that Fortran passes: what is called must leave
// the place behind these arguments alone.
template <typename T, typename Int>
using GemmFunction = void(const char*, const char*, const Int*, const Int*, const Int*, const T*,
                          const T*, const Int*, const T*, const Int*, const T*, T*, const Int*);

template <typename T, typename Int>
void CallGemm(const char* name, const Gemm<T>& gemm) {
  const char op_a = static_cast<char>(gemm.op_a);
  const char op_b = static_cast<char>(gemm.op_b);
  const Int m = static_cast<Int>(gemm.m);
  const Int n = static_cast<Int>(gemm.n);
  const Int k = static_cast<Int>(gemm.k);
  const Int lda = static_cast<Int>(gemm.lda);
  const Int ldb = static_cast<Int>(gemm.ldb);
  const Int ldc = static_cast<Int>(gemm.ldc);
  Called<GemmFunction<T, Int>>(name)(&op_a, &op_b, &m, &n, &k, &gemm.alpha, gemm.a, &lda, gemm.b,
                                     &ldb, &gemm.beta, gemm.c, &ldc);
}

// Row-major, as NumPy calls.
void CallCblas(const Gemm<double>& gemm) {
  const auto word = [](Op op) { return op == Op::kNone ? 111 : op == Op::kTranspose ? 112 : 113; };
  using Function =
      void(int, int, int, std::int64_t, std::int64_t, std::int64_t, double, const double*,
           std::int64_t, const double*, std::int64_t, double, double*, std::int64_t);
  Called<Function>("scipy_cblas_dgemm64_")(101, word(gemm.op_b), word(gemm.op_a), gemm.n, gemm.m,
                                           gemm.k, gemm.alpha, gemm.b, gemm.ldb, gemm.a, gemm.lda,
                                           gemm.beta, gemm.c, gemm.ldc);
}

void CallSyrk(const Rank<double>& rank) {
  using Function =
      void(const char*, const char*, const std::int32_t*, const std::int32_t*, const double*,
           const double*, const std::int32_t*, const double*, double*, const std::int32_t*);
  const char triangle = static_cast<char>(rank.triangle);
  const char op = static_cast<char>(rank.op);
  const auto n = static_cast<std::int32_t>(rank.n);
  const auto k = static_cast<std::int32_t>(rank.k);
  const auto lda = static_cast<std::int32_t>(rank.lda);
  const auto ldc = static_cast<std::int32_t>(rank.ldc);
  Called<Function>("dsyrk_")(&triangle, &op, &n, &k, &rank.alpha, rank.a, &lda, &rank.beta, rank.c,
                             &ldc);
}

template <typename T>
std::vector<T> Numbers(std::int64_t count, std::int64_t seed) {
  std::vector<T> numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t mixed = (i + 1) * (seed + 3) * 2654435761 % 1000003;
    if constexpr (kIsComplex<T>) {
      numbers.emplace_back(static_cast<Real<T>>(mixed % 7 - 3),
                           static_cast<Real<T>>(mixed / 7 % 5 - 2));
    } else {
      numbers.push_back(static_cast<T>(mixed % 7 - 3));
    }
  }
  return numbers;
}

// A product of that shape by `call`, compared element by element, padding included.
template <typename T, typename Call>
bool IsRight(std::int64_t i, Call call) {
  constexpr Op kOps[] = {Op::kNone, Op::kTranspose, Op::kConjugate};
  Gemm<T> gemm;
  gemm.op_a = kOps[i % 3];
  gemm.op_b = kOps[i / 3 % 3];
  gemm.m = 1 + i * 7 % 19;
  gemm.n = 1 + i * 5 % 17;
  gemm.k = 1 + i * 3 % 23;
  gemm.alpha = T(static_cast<Real<T>>(1 + i % 2));
  gemm.beta = T(static_cast<Real<T>>(i % 3));
  gemm.lda = 2 + (gemm.op_a == Op::kNone ? gemm.m : gemm.k);
  gemm.ldb = 1 + (gemm.op_b == Op::kNone ? gemm.k : gemm.n);
  gemm.ldc = 3 + gemm.m;
  const auto a = Numbers<T>(gemm.lda * 32, i);
  const auto b = Numbers<T>(gemm.ldb * 32, i + 1);
  gemm.a = a.data();
  gemm.b = b.data();
  auto c = Numbers<T>(gemm.ldc * gemm.n, i + 2);
  // It must not be read then.
  if (gemm.beta == T(0)) {
    std::fill(c.begin(), c.end(), T(std::numeric_limits<Real<T>>::quiet_NaN()));
  }
  auto plain = c;
  gemm.c = c.data();
  call(gemm);
  gemm.c = plain.data();
  Plainly(gemm);
  // By bytes: padding has NaN, and -0 is what a sum of such numbers never is.
  return std::memcmp(plain.data(), c.data(), plain.size() * sizeof(T)) == 0;
}

template <typename T>
void CallBatch(const GemmBatch<T>& batch) {
  const Gemm<T>& one = batch.first;
  const auto int_of = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  const std::int32_t m = int_of(one.m), n = int_of(one.n), k = int_of(one.k);
  const std::int32_t lda = int_of(one.lda), ldb = int_of(one.ldb), ldc = int_of(one.ldc);
  const std::int32_t a_stride = int_of(batch.a_stride), b_stride = int_of(batch.b_stride);
  const std::int32_t c_stride = int_of(batch.c_stride), count = int_of(batch.count);
  const char op_a = static_cast<char>(one.op_a);
  const char op_b = static_cast<char>(one.op_b);
  using I = const std::int32_t*;
  using Function = void(const char*, const char*, I, I, I, const T*, const T*, I, I, const T*, I, I,
                        const T*, T*, I, I, I);
  Called<Function>(sizeof(T) == 8 ? "dgemm_batch_strided_" : "sgemm_batch_strided_")(
      &op_a, &op_b, &m, &n, &k, &one.alpha, one.a, &lda, &a_stride, one.b, &ldb, &b_stride,
      &one.beta, one.c, &ldc, &c_stride, &count);
}

// Row-major, of the transposes.
void CallCblasBatch(const GemmBatch<double>& batch) {
  using I = std::int64_t;
  using Function = void(int, int, int, I, I, I, double, const double*, I, I, const double*, I, I,
                        double, double*, I, I, I);
  const auto word = [](Op op) { return op == Op::kNone ? 111 : op == Op::kTranspose ? 112 : 113; };
  const Gemm<double>& one = batch.first;
  Called<Function>("scipy_cblas_dgemm_batch_strided64_")(
      101, word(one.op_b), word(one.op_a), one.n, one.m, one.k, one.alpha, one.b, one.ldb,
      batch.b_stride, one.a, one.lda, batch.a_stride, one.beta, one.c, one.ldc, batch.c_stride,
      batch.count);
}

// A batch by `call`, compared as a product is, gaps included.
template <typename T, typename Call>
bool IsRightBatch(std::int64_t i, Call call) {
  GemmBatch<T> batch;
  batch.count = 2 + i % 5;
  Gemm<T>& one = batch.first;
  one.op_a = i % 2 == 0 ? Op::kNone : Op::kTranspose;
  one.op_b = i / 2 % 2 == 0 ? Op::kNone : Op::kTranspose;
  one.m = 1 + i * 7 % 11;
  one.n = 1 + i * 5 % 13;
  one.k = 1 + i * 3 % 9;
  one.alpha = T(1 + i % 3);
  one.beta = T(i % 2);
  one.lda = 1 + (one.op_a == Op::kNone ? one.m : one.k);
  one.ldb = 2 + (one.op_b == Op::kNone ? one.k : one.n);
  one.ldc = one.m;
  batch.a_stride = i % 4 == 3 ? 0 : one.lda * 16 + 1;
  batch.b_stride = one.ldb * 16;
  batch.c_stride = one.ldc * one.n + i % 3;
  const auto a = Numbers<T>(batch.count * (one.lda * 16 + 1), i);
  const auto b = Numbers<T>(batch.count * one.ldb * 16, i + 1);
  auto c = Numbers<T>(batch.count * batch.c_stride, i + 2);
  auto plain = c;
  one.a = a.data();
  one.b = b.data();
  one.c = c.data();
  call(batch);
  one.c = plain.data();
  for (std::int64_t k = 0; k < batch.count; ++k) Plainly(batch.At(k));
  return plain == c;
}

void Batches(std::int64_t count) {
  std::int64_t right = 0;
  calls_of_plain();
  for (std::int64_t i = 0; i < count; ++i) {
    bool is_right = false;
    if (i % 3 == 0) is_right = IsRightBatch<float>(i, CallBatch<float>);
    if (i % 3 == 1) is_right = IsRightBatch<double>(i, CallBatch<double>);
    if (i % 3 == 2) is_right = IsRightBatch<double>(i, CallCblasBatch);
    if (is_right) ++right;
  }
  std::cout << "right " << right << ", here " << calls_of_plain() << '\n';
}

// Row-major, of the transpose.
void CallCblasSyrk(const Rank<double>& rank) {
  using Function = void(int, int, int, std::int64_t, std::int64_t, double, const double*,
                        std::int64_t, double, double*, std::int64_t);
  Called<Function>("scipy_cblas_dsyrk64_")(
      101, rank.triangle == Triangle::kUpper ? 122 : 121, rank.op == Op::kNone ? 112 : 111, rank.n,
      rank.k, rank.alpha, rank.a, rank.lda, rank.beta, rank.c, rank.ldc);
}

bool IsRightRank(std::int64_t i) {
  const std::int64_t n = 1 + i % 13;
  const std::int64_t k = 1 + i % 7;
  const Op op = i / 2 % 2 == 0 ? Op::kNone : Op::kTranspose;
  const auto a = Numbers<double>(n * k, i);
  auto c = Numbers<double>(n * n, i + 1);
  auto plain = c;
  Rank<double> rank{false,    i % 2 == 0 ? Triangle::kUpper : Triangle::kLower,
                    op,       n,
                    k,        1,
                    a.data(), op == Op::kNone ? n : k,
                    1,        c.data(),
                    n};
  if (i % 3 == 0) {
    CallCblasSyrk(rank);
  } else {
    CallSyrk(rank);
  }
  rank.c = plain.data();
  Plainly(rank);
  return plain == c;
}

bool IsRight(std::int64_t i) {
  switch (i % 7) {
    case 0:
      return IsRight<float>(
          i / 7, [](const auto& gemm) { CallGemm<float, std::int32_t>("sgemm_", gemm); });
    case 1:
      return IsRight<double>(
          i / 7, [](const auto& gemm) { CallGemm<double, std::int32_t>("dgemm_", gemm); });
    case 2:
      return IsRight<std::complex<float>>(i / 7, [](const auto& gemm) {
        CallGemm<std::complex<float>, std::int32_t>("cgemm_", gemm);
      });
    case 3:
      return IsRight<std::complex<double>>(i / 7, [](const auto& gemm) {
        CallGemm<std::complex<double>, std::int32_t>("zgemm_", gemm);
      });
    case 4:
      return IsRight<float>(
          i / 7, [](const auto& gemm) { CallGemm<float, std::int64_t>("scipy_sgemm_64_", gemm); });
    case 5:
      return IsRight<double>(i / 7, CallCblas);
    default:
      return IsRightRank(i / 7);
  }
}

// Those of the gemms alone were computed here: a rank update computes parts of its diagonal here
// wherever its products go.
bool IsGemm(std::int64_t i) { return i % 7 != 6; }

void Products(std::int64_t count, bool tells) {
  std::int64_t right = 0;
  long here = 0;
  calls_of_plain();
  for (std::int64_t i = 0; i < count; ++i) {
    if (tells && i % 100 == 0) std::cout << "at " << i << '\n';
    if (IsRight(i)) ++right;
    const long calls = calls_of_plain();
    if (IsGemm(i)) here += calls;
  }
  std::cout << "right " << right << ", here " << here << '\n';
}

void Threads(int threads, std::int64_t count) {
  std::atomic<std::int64_t> right = 0;
  calls_of_plain();
  {
    JoinedThreads running;
    for (int t = 0; t < threads; ++t) {
      const bool has_started = running.Start([&, t] {
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t place = 6 * (i + t);  // every kind of gemm, and no rank update
          if (IsRight(place / 6 * 7 + place % 6)) ++right;
        }
      });
      if (!has_started) std::cout << "the system gives no thread, ";
    }
  }
  std::cout << "right " << right << ", here " << calls_of_plain() << '\n';
}

// A product whose elements are no small integers, so that the order of its sums shows.
std::vector<double> Uneven(const std::vector<double>& a, const std::vector<double>& b, int side) {
  std::vector<double> c(a.size());
  CallGemm<double, std::int32_t>(
      "dgemm_", Gemm<double>{Op::kNone, Op::kTranspose, side, side, side, 1, a.data(), side,
                             b.data(), side, 0, c.data(), side});
  return c;
}

void Bits(int count) {
  constexpr int kSide = 150;
  std::vector<double> a;
  for (int i = 0; i < kSide * kSide; ++i) a.push_back(1 / (3.0 + i * 7919 % 10007));
  const std::vector<double> first = Uneven(a, a, kSide);
  std::atomic<bool> is_over = false;
  JoinedThreads others;
  for (int t = 0; t < 3; ++t) {
    const bool has_started = others.Start([&, t] {
      for (int i = 0; !is_over; ++i) Uneven(a, a, 20 + 13 * ((i + t) % 10));
    });
    if (!has_started) std::cout << "the system gives no thread, ";
  }
  int equal = 0;
  for (int i = 0; i < count; ++i) {
    if (Uneven(a, a, kSide) == first) ++equal;
  }
  is_over = true;
  std::cout << "equal " << equal << '\n';
}

// The side may be large, so that all elements are ones.
void Large(int count, int side) {
  const std::vector<double> ones(static_cast<std::size_t>(side) * static_cast<std::size_t>(side),
                                 1);
  int right = 0;
  calls_of_plain();
  for (int i = 0; i < count; ++i) {
    std::vector<double> c(ones.size(), 2);
    CallGemm<double, std::int32_t>(
        "dgemm_", Gemm<double>{Op::kNone, Op::kNone, side, side, side, 1, ones.data(), side,
                               ones.data(), side, 1, c.data(), side});
    if (std::all_of(c.begin(), c.end(), [side](double x) { return x == side + 2; })) ++right;
  }
  std::cout << "right " << right << ", here " << calls_of_plain() << '\n';
}

void UntilThere(int most) {
  for (int i = 0; i < most; ++i) {
    calls_of_plain();
    const double x = 3;
    double c = 1;
    CallGemm<double, std::int32_t>(
        "dgemm_", Gemm<double>{Op::kNone, Op::kNone, 1, 1, 1, 1, &x, 1, &x, 1, 2, &c, 1});
    if (c != 11) break;
    if (calls_of_plain() == 0) {
      std::cout << "there" << '\n';
      return;
    }
  }
  std::cout << "never there" << '\n';
}

// Calls without a product, and such as this machine's BLAS refuses, go to it as they are.
void Edges() {
  const double x = 3;
  int right = 0;
  refusals_of_plain();
  const Gemm<double> good{Op::kNone, Op::kNone, 1, 1, 1, 1, &x, 1, &x, 1, 2, nullptr, 1};
  const auto gives = [&right, &good](double wanted, auto change) {
    double c = 5;
    Gemm<double> gemm = good;
    gemm.c = &c;
    change(gemm);
    CallGemm<double, std::int32_t>("dgemm_", gemm);
    if (c == wanted) ++right;
  };
  gives(19, [](Gemm<double>&) {});
  gives(10, [](Gemm<double>& gemm) { gemm.k = 0; });
  gives(10, [](Gemm<double>& gemm) { gemm.alpha = 0; });
  gives(5, [](Gemm<double>& gemm) { gemm.m = 0; });
  gives(5, [](Gemm<double>& gemm) { gemm.n = -1; });
  gives(5, [](Gemm<double>& gemm) { gemm.lda = 0; });
  gives(5, [](Gemm<double>& gemm) { gemm.ldc = 0; });
  std::cout << "edges right " << right << ", refused " << refusals_of_plain() << '\n';
}

int ThreadCount() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word && word != "Threads:") {
  }
  int threads = 0;
  status >> threads;
  return threads;
}

void Loaded() {
  std::ifstream maps("/proc/self/maps");
  std::stringstream text;
  text << maps.rdbuf();
  const bool has = text.str().find("libgemmd.so") != std::string::npos;
  std::cout << "libgemmd " << (has ? "yes" : "no") << ", threads " << ThreadCount() << '\n';
}

// Signals are the program's, and so are names: nothing of libgemmd is to be found by others.
void Apart() {
  int threads = 0;
  int quiet = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(getpid())) continue;
    std::ifstream status(task.path() / "status");
    std::string word;
    while (status >> word && word != "SigBlk:") {
    }
    unsigned long long blocked = 0;
    status >> std::hex >> blocked;
    ++threads;
    if ((blocked >> (SIGALRM - 1) & 1) != 0) ++quiet;
  }
  std::cout << "threads " << (threads > 0 ? "yes" : "no") << ", that take signals "
            << threads - quiet << ", names "
            << (dlsym(RTLD_DEFAULT, "gemmd_version") == nullptr ? "hidden" : "seen") << '\n';
}

void Fork(std::int64_t count) {
  const pid_t child = fork();
  if (child == 0) {
    Products(count, false);
    std::exit(0);  // with what runs at an exit
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) std::cout << "the child ended with " << status << '\n';
}

void See(const std::string& path) {
  const bool is_open = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr;
  std::cout << (is_open ? "sees it" : dlerror()) << '\n';
}

bool Obey(const std::string& line) {
  std::istringstream words(line);
  std::string command;
  words >> command;
  if (command == "see") {
    std::string path;
    words >> path;
    See(path);
    return true;
  }
  std::int64_t first = 0;
  std::int64_t second = 0;
  words >> first >> second;
  if (command == "products") {
    Products(first, true);
  } else if (command == "batches") {
    Batches(first);
  } else if (command == "large") {
    Large(static_cast<int>(first), static_cast<int>(second));
  } else if (command == "threads") {
    Threads(static_cast<int>(first), second);
  } else if (command == "bits") {
    Bits(static_cast<int>(first));
  } else if (command == "edges") {
    Edges();
  } else if (command == "fork") {
    Fork(first);
  } else if (command == "loaded") {
    Loaded();
  } else if (command == "apart") {
    Apart();
  } else if (command == "until-there") {
    UntilThere(static_cast<int>(first));
  } else {
    return false;
  }
  return true;
}

}  // namespace
}  // namespace gemmd::blas

int main(int argc, char** argv) {
  std::cout << std::unitbuf;  // each answer is awaited
  void* const plain = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (plain == nullptr) {
    std::cerr << "usage: caller PLAIN_BLAS\n";
    return 2;
  }
  using gemmd::blas::Counter;
  gemmd::blas::calls_of_plain = reinterpret_cast<Counter*>(dlsym(plain, "plain_calls"));
  gemmd::blas::refusals_of_plain = reinterpret_cast<Counter*>(dlsym(plain, "plain_refusals"));
  for (std::string line; std::getline(std::cin, line);) {
    if (!gemmd::blas::Obey(line)) {
      std::cerr << "no command: " << line << "\n";
      return 2;
    }
  }
  return 0;
}
