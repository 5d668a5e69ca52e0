// The landing transposition in the emulator: every byte of the destination, on whole and
// ragged shapes.
#include "kernels/landing/transpose.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/emulator/session.h"

namespace gemmd {
namespace {

struct Shape {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t more_rows;     // of the destination, beyond columns
  std::int64_t more_columns;  // of the destination, beyond rows
};

constexpr Shape kShapes[] = {{1, 1, 0, 0},    {128, 128, 0, 0},  {33, 65, 0, 0},  {1, 300, 4, 15},
                             {130, 3, 13, 2}, {1100, 130, 0, 4}, {77, 131, 13, 3}};

std::int64_t Aligned(std::int64_t elements, int element_bytes) {
  const std::int64_t unit = 16 / element_bytes;
  return (elements + unit - 1) / unit * unit;
}

// Host memory that is aligned as a device's is.
class Bytes {
 public:
  explicit Bytes(std::size_t size) : storage_(size + 16), size_(size) {}
  unsigned char* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    return storage_.data() + (16 - address % 16) % 16;
  }
  std::size_t size() const { return size_; }

 private:
  std::vector<unsigned char> storage_;
  std::size_t size_;
};

struct Case {
  Case(int bytes, const Shape& shape)
      : from(static_cast<std::size_t>(shape.rows * Aligned(shape.columns, bytes) * bytes)),
        to(static_cast<std::size_t>(
            (shape.columns + shape.more_rows) *
            (Aligned(shape.rows + shape.more_columns, bytes) * bytes + 16))) {
    std::mt19937 generator(7);
    for (std::size_t i = 0; i < from.size(); ++i) {
      from.data()[i] = static_cast<unsigned char>(generator());
    }
    std::memset(to.data(), 0xA5, to.size());
    t.element_bytes = bytes;
    t.rows = shape.rows;
    t.columns = shape.columns;
    t.from = from.data();
    t.from_leading_dimension = Aligned(shape.columns, bytes);
    t.to = to.data();
    t.padded_rows = shape.columns + shape.more_rows;
    t.padded_columns = shape.rows + shape.more_columns;
    t.to_leading_dimension = Aligned(t.padded_columns, bytes) + 16 / bytes;
  }

  Bytes from;
  Bytes to;
  Transposition t;
};

class Transpose : public ::testing::TestWithParam<std::tuple<int, Shape>> {};

TEST_P(Transpose, MovesEveryElementAndZeroesThePadding) {
  const auto& [bytes, shape] = GetParam();
  Case c(bytes, shape);
  emulator::Session session;
  session.options.count_bank_conflicts = true;
  LaunchTarget target;
  target.emulator = &session;
  const absl::Status status = LaunchTranspose(c.t, target);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(session.report.statistics.extra_wavefronts(), 0u);
  const auto size = static_cast<std::size_t>(bytes);
  const std::vector<unsigned char> zero(size, 0);
  // The rest of a word beyond the padded extent is zero too, and nothing lies beyond it.
  const std::int64_t word = bytes < 4 ? 4 / bytes : 1;
  const std::int64_t written = (c.t.padded_columns + word - 1) / word * word;
  const std::vector<unsigned char> poison(size, 0xA5);
  for (std::int64_t line = 0; line < c.t.padded_rows; ++line) {
    for (std::int64_t i = 0; i < c.t.to_leading_dimension; ++i) {
      const unsigned char* actual = c.to.data() + (line * c.t.to_leading_dimension + i) * bytes;
      const unsigned char* expected =
          i >= written ? poison.data()
          : line < shape.columns && i < shape.rows
              ? c.from.data() + (i * c.t.from_leading_dimension + line) * bytes
              : zero.data();
      ASSERT_EQ(std::memcmp(actual, expected, size), 0) << line << ", " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllSizes, Transpose,
                         ::testing::Combine(::testing::Values(1, 2, 4, 8),
                                            ::testing::ValuesIn(kShapes)));

TEST(TransposeRefusal, NamesTheFieldAndTheValue) {
  emulator::Session session;
  LaunchTarget target;
  target.emulator = &session;
  const auto message = [&target](auto change) {
    Case c(1, {8, 16, 0, 0});
    change(&c.t);
    const absl::Status status = LaunchTranspose(c.t, target);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(message([](Transposition* t) { t->element_bytes = 3; }),
            "element_bytes is 3; it must be 1, 2, 4 or 8");
  EXPECT_EQ(
      message([](Transposition* t) { t->from_leading_dimension = 24; }),
      "from_leading_dimension is 24; it must be at least columns, and a multiple of 16 bytes");
  EXPECT_EQ(message([](Transposition* t) { t->padded_rows = 15; }),
            "padded_rows is 15; it must be at least columns, which become rows");
  EXPECT_EQ(message([](Transposition* t) { t->padded_columns = 7; }),
            "padded_columns is 7; it must be at least rows, which become columns");
  EXPECT_EQ(message([](Transposition* t) { t->to_leading_dimension = 0; }),
            "to_leading_dimension is 0; it must be at least padded_columns, and a multiple of 16 "
            "bytes");
  EXPECT_EQ(message([](Transposition* t) { t->from = nullptr; }),
            "from and to must be aligned to 16 bytes, and not null");
}

}  // namespace
}  // namespace gemmd
