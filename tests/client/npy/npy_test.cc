#include "client/npy/npy.h"

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "client/npy/npy_header.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/npy_bytes.h"
#include "tests/client/testing/temporary_directory.h"

namespace gemmd::client {
namespace {

using ::gemmd::testing::FileBytes;
using ::gemmd::testing::NpyBytes;
using ::gemmd::testing::NpyDictionaryText;
using ::testing::AllOf;
using ::testing::HasSubstr;

class NpyTest : public ::testing::Test {
 protected:
  absl::StatusOr<Matrix> Read(absl::string_view bytes,
                              std::optional<DataType> asked = std::nullopt) {
    return ReadNpy(directory_.File("x.npy", bytes), asked);
  }

  testing::TemporaryDirectory directory_;
};

// Byte for byte what np.save(file, np.float32([[1, 2, 3], [4, 5, 6]])) of NumPy 2.4 wrote.
std::string WrittenByNumPy() {
  std::string file("\x93NUMPY\x01\x00v\x00", 10);
  file += "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  file += std::string(58, ' ') + "\n";
  const float values[] = {1, 2, 3, 4, 5, 6};
  file.append(reinterpret_cast<const char*>(values), sizeof(values));
  return file;
}

TEST_F(NpyTest, ReadsWhatNumPyWrote) {
  const auto matrix = Read(WrittenByNumPy());
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  EXPECT_EQ(ToString(matrix->format()), "2 x 3 f32 row-major");
  float last = 0;
  std::memcpy(&last, matrix->bytes().data() + 20, sizeof(last));
  EXPECT_EQ(last, 6);
}

TEST_F(NpyTest, WritesWhatNumPyWrites) {
  const auto matrix = Read(WrittenByNumPy());
  ASSERT_TRUE(matrix.ok());
  ASSERT_TRUE(WriteNpy(directory_.Path("y.npy"), matrix->view()).ok());
  EXPECT_EQ(FileBytes(directory_.Path("y.npy")), WrittenByNumPy());
}

TEST_F(NpyTest, ReadsEveryVersion) {
  for (const int major : {1, 2, 3}) {
    const auto matrix = Read(NpyBytes(NpyDictionaryText("<f4", "(1, 1)"), "abcd", major));
    ASSERT_TRUE(matrix.ok()) << major << matrix.status();
    EXPECT_EQ(matrix->bytes(), "abcd");
  }
}

TEST_F(NpyTest, ReadsKeysInAnyOrderAndPythonTwosLongs) {
  const auto matrix =
      Read(NpyBytes("{\"shape\": (2L,1L,),'fortran_order':True,  'descr':'|i1'}", "ab"));
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  EXPECT_EQ(ToString(matrix->format()), "2 x 1 int8 column-major");
}

struct TypeCase {
  const char* descr;
  DataType type;
  bool ask;
  const char* written;
};

TEST_F(NpyTest, EveryTypeRoundTrips) {
  const std::vector<TypeCase> cases = {
      {"<f8", DataType::kF64, false, "<f8"},    {"<f4", DataType::kF32, false, "<f4"},
      {"<f4", DataType::kTf32, true, "<f4"},    {"<f2", DataType::kF16, false, "<f2"},
      {"<V2", DataType::kBf16, false, "<V2"},   {"|V2", DataType::kBf16, false, "<V2"},
      {"|i1", DataType::kInt8, false, "|i1"},   {"<i4", DataType::kInt32, false, "<i4"},
      {"|V1", DataType::kFp8E4M3, true, "|V1"}, {"<V1", DataType::kFp8E5M2, true, "|V1"},
      {"<f1", DataType::kFp8E5M2, true, "|V1"},
  };
  for (const TypeCase& row : cases) {
    for (const bool fortran_order : {false, true}) {
      SCOPED_TRACE(row.descr);
      const std::string data(6 * SizeBits(row.type) / 8, 'x');
      const auto matrix =
          Read(NpyBytes(NpyDictionaryText(row.descr, "(2, 3)", fortran_order), data),
               row.ask ? std::make_optional(row.type) : std::nullopt);
      ASSERT_TRUE(matrix.ok()) << matrix.status();
      EXPECT_EQ(matrix->format().type, row.type);
      EXPECT_EQ(matrix->format().order, fortran_order ? Order::kColumnMajor : Order::kRowMajor);
      EXPECT_EQ(matrix->bytes(), data);
      ASSERT_TRUE(WriteNpy(directory_.Path("y.npy"), matrix->view()).ok());
      EXPECT_EQ(FileBytes(directory_.Path("y.npy")),
                NpyBytes(NpyDictionaryText(row.written, "(2, 3)", fortran_order), data));
    }
  }
}

TEST_F(NpyTest, PaddedLinesAreWrittenWithoutTheirPadding) {
  MatrixFormat format{DataType::kInt8, 2, 3, Order::kRowMajor, 5};
  const auto view = MatrixView::Create(format, "abc..def");
  ASSERT_TRUE(view.ok()) << view.status();
  ASSERT_TRUE(WriteNpy(directory_.Path("y.npy"), *view).ok());
  EXPECT_EQ(FileBytes(directory_.Path("y.npy")),
            NpyBytes(NpyDictionaryText("|i1", "(2, 3)"), "abcdef"));
}

TEST_F(NpyTest, ThreeDimensionsAreAStack) {
  const std::string bytes = NpyBytes(NpyDictionaryText("|i1", "(3, 2, 1)"), "abcdef");
  const auto stack = ReadNpyStack(directory_.File("x.npy", bytes));
  ASSERT_TRUE(stack.ok()) << stack.status();
  EXPECT_EQ(ToString(stack->format(), stack->stack()), "3 matrices of 2 x 1 int8 row-major");
  EXPECT_EQ(stack->view(2).bytes(), "ef");
  ASSERT_TRUE(WriteNpyStack(directory_.Path("y.npy"), *stack).ok());
  EXPECT_EQ(FileBytes(directory_.Path("y.npy")), bytes);
  const auto one = ReadNpyStack(
      directory_.File("one.npy", NpyBytes(NpyDictionaryText("|i1", "(1, 2, 1)"), "ab")));
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->stack().count, 1U);
  EXPECT_NE(one->stack().stride, 0U);
  const auto matrix =
      ReadNpyStack(directory_.File("two.npy", NpyBytes(NpyDictionaryText("|i1", "(2, 1)"), "ab")));
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  EXPECT_EQ(matrix->stack().stride, 0U);
  const auto packed = ReadNpyStack(
      directory_.File("p.npy", NpyBytes(NpyDictionaryText("|u1", "(2, 1, 2)"), "\x21\x43\x65\x07")),
      DataType::kFp4E2M1);
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ(ToString(packed->format(), packed->stack()), "2 matrices of 1 x 4 fp4_e2m1 row-major");
  EXPECT_EQ(packed->view(1).bytes(), "\x65\x07");
}

TEST_F(NpyTest, AStackIsWrittenWithoutItsGaps) {
  const MatrixFormat format{DataType::kInt8, 2, 2, Order::kRowMajor, 3};
  const auto stack = Matrix::Create(format, {2, 7}, Bytes("ab.cd..ef.gh"));
  ASSERT_TRUE(stack.ok()) << stack.status();
  ASSERT_TRUE(WriteNpyStack(directory_.Path("y.npy"), *stack).ok());
  EXPECT_EQ(FileBytes(directory_.Path("y.npy")),
            NpyBytes(NpyDictionaryText("|i1", "(2, 2, 2)"), "abcdefgh"));
  const auto turned =
      Matrix::Create({DataType::kInt8, 1, 2, Order::kColumnMajor, 0}, {2, 2}, Bytes("abcd"));
  EXPECT_EQ(WriteNpyStack(directory_.Path("y.npy"), *turned).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(NpyTest, StacksThatAreNoneAreRefused) {
  const std::vector<std::tuple<const char*, bool, const char*>> cases = {
      {"(1, 3, 2, 1)", false, "two dimensions, or three, are accepted; x.reshape(-1, *x.shape"},
      {"(3, 2, 1)", true, "shape (3, 2, 1) in Fortran order: three dimensions are accepted in C"},
      {"(0, 2, 1)", false, "shape (0, 2, 1): at least one matrix is accepted"},
      {"(3, 2, 2)", false, "3 matrices of 2 x 2 int8 row-major takes 12 bytes of data"},
      {"(9223372036854775807, 2, 1)", false, "overflows"},
      {"(3, 4294967296, 4294967296)", false, "rows 4294967296: up to 2147483647"},
  };
  for (const auto& [shape, fortran_order, message] : cases) {
    const auto stack = ReadNpyStack(directory_.File(
        "x.npy", NpyBytes(NpyDictionaryText("|i1", shape, fortran_order), "abcdef")));
    EXPECT_THAT(std::string(stack.status().message()), HasSubstr(message));
  }
}

TEST_F(NpyTest, ElementsBelowEightBitsArePackedOrAByteEach) {
  // As torch has them: two a byte, the even one low.
  const auto packed =
      ReadNpy(directory_.File("p.npy", NpyBytes(NpyDictionaryText("|u1", "(2, 1)"), "\x21\x43")),
              DataType::kFp4E2M1);
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ(ToString(packed->format()), "2 x 2 fp4_e2m1 row-major");
  EXPECT_EQ(packed->bytes(), "\x21\x43");
  // As ml_dtypes saves them; bits above an element's say nothing.
  const auto spread = ReadNpy(
      directory_.File("s.npy", NpyBytes(NpyDictionaryText("<V1", "(3, 1)"), "\xF1\x02\x03")),
      DataType::kFp4E2M1);
  ASSERT_TRUE(spread.ok()) << spread.status();
  EXPECT_EQ(ToString(spread->format()), "3 x 1 fp4_e2m1 row-major");
  EXPECT_EQ(spread->bytes(), "\x21\x03");
  const auto odd =
      ReadNpy(directory_.File("o.npy", NpyBytes(NpyDictionaryText("|u1", "(1, 2)"), "ab")),
              DataType::kFp6E3M2);
  EXPECT_THAT(odd.status().message(),
              HasSubstr("lines of 2 bytes are no whole number of fp6_e3m2"));
}

TEST_F(NpyTest, AVectorIsOneRow) {
  for (const char* shape : {"(3,)", "(1, 3)"}) {
    const auto bias =
        ReadNpyVector(directory_.File("b.npy", NpyBytes(NpyDictionaryText("|i1", shape), "abc")));
    ASSERT_TRUE(bias.ok()) << bias.status();
    EXPECT_EQ(ToString(bias->format()), "1 x 3 int8 row-major");
  }
  const auto column =
      ReadNpyVector(directory_.File("b.npy", NpyBytes(NpyDictionaryText("|i1", "(3, 1)"), "abc")));
  EXPECT_THAT(column.status().message(), HasSubstr("shape (3, 1): (N,) or (1, N) is accepted"));
}

TEST_F(NpyTest, AMissingFileIsNotFound) {
  const auto matrix = ReadNpy(directory_.Path("absent.npy"));
  EXPECT_EQ(matrix.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(matrix.status().message(), HasSubstr("absent.npy"));
}

TEST_F(NpyTest, ADirectoryIsRefused) {
  const auto matrix = ReadNpy(directory_.Path("."));
  EXPECT_THAT(matrix.status().message(), HasSubstr("not a regular file"));
}

struct BadCase {
  const char* what;
  std::string bytes;
  const char* message;
};

TEST_F(NpyTest, EveryMalformedFileIsRefusedByName) {
  const std::string good = WrittenByNumPy();
  const auto with = [](const char* descr, const char* shape, absl::string_view data = "") {
    return NpyBytes(NpyDictionaryText(descr, shape), data);
  };
  std::string unknown_version = good;
  unknown_version[6] = 4;
  std::string unknown_minor_version = good;
  unknown_minor_version[7] = 1;
  std::string long_header = good;
  long_header[8] = '\xFF';
  long_header[9] = '\xFF';
  std::string huge_header = NpyBytes(NpyDictionaryText("<f4", "(1, 1)"), "abcd", 2);
  huge_header[11] = '\x7F';

  const std::vector<BadCase> cases = {
      {"empty", "", "the file is empty"},
      {"another format", "PK\x03\x04 something else", "does not begin with"},
      {"magic alone", good.substr(0, 6), "truncated within its header"},
      {"half a length", good.substr(0, 9), "truncated within its header"},
      {"half a dictionary", good.substr(0, 60), "header length 118 reaches beyond the file of 60"},
      {"header longer than the file", long_header, "header length 65535 reaches beyond"},
      {"header of 2 GiB", huge_header, "at most 1048576 is accepted"},
      {"version 4.0", unknown_version, "version 4.0: 1.0, 2.0 and 3.0 are accepted"},
      {"version 1.1", unknown_minor_version, "version 1.1: 1.0, 2.0 and 3.0 are accepted"},
      {"truncated data", good.substr(0, good.size() - 1),
       "takes 24 bytes of data, but the file has 23"},
      {"trailing bytes", good + "x", "takes 24 bytes of data, but the file has 25"},
      {"a shape bigger than the file", with("<f4", "(100000, 100000)", "abcd"),
       "100000 x 100000 f32 row-major takes 40000000000 bytes"},
      {"0-D", with("<f4", "()", "abcd"), "shape (): two dimensions are accepted"},
      {"1-D", with("<f4", "(1,)", "abcd"), "shape (1,): two dimensions are accepted"},
      {"3-D", with("<f4", "(1, 1, 1)", "abcd"),
       "shape (1, 1, 1): two dimensions are accepted; save each matrix x[i], or x.reshape(-1"},
      {"bytes of no element", with("<f4", "(0, 3)", "abcd"), "0 x 3 f32 row-major takes 0 bytes"},
      {"rows over the limit", with("|i1", "(2147483648, 1)"), "rows 2147483648: up to 2147483647"},
      {"product overflows 64 bits", with("<f8", "(2147483647, 2147483647)"), "overflows"},
      {"dimension overflows 64 bits", with("<f4", "(99999999999999999999, 1)"),
       "shape: expected a dimension that fits 64 bits"},
      {"negative", with("<f4", "(-1, 4)"),
       "shape: expected a dimension that is not negative at '-1"},
      {"shape is no tuple", with("<f4", "4"), "shape: expected ( at '4"},
      {"dimension is a float", with("<f4", "(1.5, 2)"), "shape: expected ) at '.5"},
      {"bytes", with("|S4", "(1, 1)", "abcd"), "descr '|S4' holds strings: accepted are <f8"},
      {"unicode", with("<U1", "(1, 1)", "abcd"), "descr '<U1' holds strings"},
      {"objects", with("|O", "(1, 1)", "abcd"), "descr '|O' holds Python objects"},
      {"big-endian", with(">f4", "(1, 1)", "abcd"), "descr '>f4' is big-endian"},
      {"unsigned", with("|u2", "(1, 1)", "aa"), "descr '|u2': accepted are"},
      {"codes", with("|u1", "(1, 1)", "a"), "descr '|u1' is accepted as codes only"},
      {"no descr", with("", "(1, 1)", "a"), "descr '': accepted are"},
      {"fp8 that is not named", with("|V1", "(1, 1)", "a"),
       "descr '|V1' is one opaque byte: say --type fp8_e4m3"},
      {"structured",
       NpyBytes("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1, 1), }", "abcd"),
       "structured dtype"},
      {"no dictionary", NpyBytes("42", ""), "expected { at '42"},
      {"missing key", NpyBytes("{'descr': '<f4', 'shape': (1, 1)}", "abcd"),
       "no key fortran_order"},
      {"repeated key", NpyBytes("{'descr': '<f4', 'descr': '<f4'}", ""), "key descr comes twice"},
      {"unknown key", NpyBytes("{'colour': 'red'}", ""), "unknown key 'colour'"},
      {"order is no boolean", NpyBytes("{'fortran_order': 1}", ""), "expected True or False at '1"},
      {"string without end", NpyBytes("{'descr': '<f4", ""), "expected a string that ends"},
      {"no comma", NpyBytes("{'descr': '<f4' 'shape': (1, 1)}", ""), "expected } at"},
      {"never closed", NpyBytes("{", ""), "expected a string at ''"},
      {"code after the dictionary",
       NpyBytes(NpyDictionaryText("<f4", "(1, 1)") + "; import os", "abcd"),
       "expected nothing after the dictionary at '; import os"},
      {"binary noise", NpyBytes(std::string("{\0\xff\x01", 4), ""), "expected a string at '\\x00"},
  };
  for (const BadCase& row : cases) {
    SCOPED_TRACE(row.what);
    const auto matrix = Read(row.bytes);
    ASSERT_FALSE(matrix.ok());
    EXPECT_EQ(matrix.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(matrix.status().message()),
                AllOf(HasSubstr("x.npy: "), HasSubstr(row.message)));
  }
}

TEST_F(NpyTest, TheAskedTypeMustAgreeWithTheFile) {
  const auto matrix = Read(WrittenByNumPy(), DataType::kBf16);
  EXPECT_THAT(matrix.status().message(), HasSubstr("descr '<f4' cannot be bf16"));
}

// Every prefix of a good file is refused and none of them crashes the reader.
TEST_F(NpyTest, NoPrefixOfAFileIsAFile) {
  const std::string good = WrittenByNumPy();
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(Read(good.substr(0, size)).ok()) << size;
  }
}

TEST_F(NpyTest, ScalesMayHaveFewerDimensions) {
  struct Row {
    const char* shape;
    const char* bytes;
    bool is_column;
    std::uint64_t rows;
    std::uint64_t columns;
  };
  for (const Row& row :
       {Row{"()", "abcd", true, 1, 1}, Row{"(1,)", "abcd", false, 1, 1},
        Row{"(2,)", "abcdefgh", true, 2, 1}, Row{"(2,)", "abcdefgh", false, 1, 2},
        Row{"(2, 1)", "abcdefgh", true, 2, 1}, Row{"(1, 2)", "abcdefgh", false, 1, 2}}) {
    const std::string path =
        directory_.File("s.npy", NpyBytes(NpyDictionaryText("<f4", row.shape), row.bytes));
    const auto scales = ReadNpyScales(path, row.is_column);
    ASSERT_TRUE(scales.ok()) << scales.status();
    EXPECT_EQ(scales->format().rows, row.rows) << row.shape;
    EXPECT_EQ(scales->format().columns, row.columns) << row.shape;
    EXPECT_EQ(scales->bytes(), row.bytes);
  }
  const std::string across =
      directory_.File("s.npy", NpyBytes(NpyDictionaryText("<f4", "(2, 1)"), "abcdefgh"));
  EXPECT_THAT(ReadNpyScales(across, false).status().message(),
              HasSubstr("shape (2, 1): (), (N,) or (1, N) is accepted"));
}

TEST_F(NpyTest, RawFilesAreExactlyTheirFormat) {
  const MatrixFormat format{DataType::kInt4, 3, 3, Order::kColumnMajor, 0};
  const auto matrix = ReadRaw(directory_.File("raw", "abcde"), format);
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  EXPECT_EQ(ToString(matrix->format()), "3 x 3 int4 column-major");
  EXPECT_THAT(ReadRaw(directory_.File("raw", "abcdef"), format).status().message(),
              HasSubstr("takes 5 bytes of data, but the file has 6"));
  EXPECT_THAT(WriteNpy(directory_.Path("y.npy"), matrix->view()).message(),
              HasSubstr("int4: .npy cannot hold it"));
}

}  // namespace
}  // namespace gemmd::client
