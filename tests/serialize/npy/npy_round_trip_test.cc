// What the writer of npy writes, the reader reads: every dtype, rank, order and byte order; slices, mapping, strings,
// pieces.

#include <cstdint>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/npy/array_format.h"
#include "tensorcask/serialize/npy/npy_reader.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/serialize/npy/npy_writer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/npy/npy_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kDTypes;
using testing::Npy;
using testing::OpenBytes;
using testing::RandomShape;
using testing::RandomSlice;
using testing::RandomTensor;
using testing::StatusIs;
using Code = absl::StatusCode;

TEST(NpyRoundTrip, EveryDTypeRankOrderAndByteOrder) {
  std::mt19937 random(1);
  for (const DType dtype : kDTypes) {
    for (int rank = 0; rank <= 6; ++rank) {
      for (const NpyOrder order : {NpyOrder::kRowMajor, NpyOrder::kColumnMajor}) {
        for (const bool big_endian : {false, true}) {
          const Tensor tensor = RandomTensor(dtype, RandomShape(rank, &random), &random);
          SCOPED_TRACE(absl::StrCat(TensorView(tensor).ToString(), " ", order == NpyOrder::kRowMajor, " ", big_endian));
          NpyFormat format;
          format.order = order;
          format.big_endian = big_endian;
          const std::string bytes = Npy(tensor, format);
          ASSERT_OK_AND_ASSIGN(const NpyReader reader, OpenBytes(bytes));
          EXPECT_EQ(reader.entries()[0].dtype, dtype);
          EXPECT_EQ(reader.entries()[0].data_offset % 64, 0);
          ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read());
          ASSERT_TRUE(Equal(read, tensor));
          ASSERT_OK_AND_ASSIGN(const TensorView view, reader.ReadView());
          ASSERT_TRUE(Equal(view, tensor));
          EXPECT_OK(reader.Verify());
          const TensorSlice slice = RandomSlice(tensor.shape(), &random);
          ASSERT_OK_AND_ASSIGN(const Tensor part, reader.ReadSlice("", slice));
          ASSERT_TRUE(Equal(part, *TensorView(tensor).Slice(slice))) << slice.ToString();
          // Into memory of any strides.
          DimVector axes;
          for (int axis = rank; axis-- > 0;) axes.push_back(axis);
          const DimVector dims = part.shape().dims();
          const DimVector reversed(dims.rbegin(), dims.rend());
          TensorView into = *TensorView(*Tensor::Create(dtype, *TensorShape::Create(reversed))).Permute(axes);
          ASSERT_OK(reader.ReadSliceInto("", slice, &into));
          ASSERT_TRUE(Equal(into, part));
        }
      }
    }
  }
}

// np.save leaves 21 characters for the axis along which an array grows, and then pads to a multiple of 64 bytes, by a
// whole 64 if nothing is missing. With 20 characters the second header would have 128 bytes, with 22 the first 192.
// (The sizes are from NumPy 1.24.)
TEST(NpyRoundTrip, TheHeaderIsAsLongAsThatOfNumPy) {
  for (const bool is_longer : {false, true}) {
    DimVector dims(14, 1);
    dims[1] = is_longer ? 100 : 10;
    const Tensor tensor = *Tensor::Create(DType::kUint8, *TensorShape::Create(dims));
    EXPECT_EQ(Npy(tensor).size(), static_cast<size_t>(dims[1]) + (is_longer ? 192 : 128));
  }
}

TEST(NpyRoundTrip, PreservesColumnMajorViews) {
  const Tensor tensor = Tensor::FromValues<int32_t>({{1, 2, 3}, {4, 5, 6}});
  const TensorView transposed = *TensorView(tensor).Transpose(0, 1);
  NpyFormat format;
  format.order = NpyOrder::kPreserve;
  const std::string bytes = Npy(transposed, format);
  ASSERT_OK_AND_ASSIGN(const NpyReader reader, OpenBytes(bytes));
  EXPECT_TRUE(reader.entries()[0].fortran_order);
  ASSERT_OK_AND_ASSIGN(const TensorView view, reader.ReadView());
  EXPECT_THAT(view.strides(), ElementsAre(1, 3));
  EXPECT_TRUE(Equal(view, transposed));
  const std::string plain_bytes = Npy(tensor, format);
  ASSERT_OK_AND_ASSIGN(const NpyReader plain, OpenBytes(plain_bytes));
  EXPECT_FALSE(plain.entries()[0].fortran_order);
}

TEST(NpyRoundTrip, Strings) {
  const Tensor strings =
      *Tensor::FromSpan<std::string>(TensorShape({2, 2}), {"", "gr\xc3\xbc\xc3\x9f", "a", "\xf0\x9f\x99\x82"});
  for (const NpyOrder order : {NpyOrder::kRowMajor, NpyOrder::kColumnMajor}) {
    for (const NpyStrings form : {NpyStrings::kBytes, NpyStrings::kUnicode}) {
      for (const bool big_endian : {false, true}) {
        NpyFormat format;
        format.order = order;
        format.strings = form;
        format.big_endian = big_endian;
        const std::string bytes = Npy(strings, format);
        ASSERT_OK_AND_ASSIGN(const NpyReader reader, OpenBytes(bytes));
        EXPECT_EQ(reader.entries()[0].descr, form == NpyStrings::kBytes ? "|S6" : big_endian ? ">U4" : "<U4");
        ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read());
        EXPECT_TRUE(Equal(read, strings));
        ASSERT_OK_AND_ASSIGN(const Tensor part, reader.ReadSlice("", *TensorSlice::Parse("1,1:-")));
        EXPECT_TRUE(Equal(part, *TensorView(strings).Slice(0, 1, 2)));
        ASSERT_OK_AND_ASSIGN(const TensorView mapped, reader.Map());
        EXPECT_TRUE(Equal(mapped, strings));
      }
    }
  }
  std::string bytes;
  StringSink sink(&bytes);
  const Tensor ends_in_nul = *Tensor::FromSpan<std::string>(TensorShape({1}), {std::string("a\0", 2)});
  EXPECT_THAT(EncodeNpy(ends_in_nul, {}, {}, &sink), StatusIs(Code::kInvalidArgument, HasSubstr("ends in a NUL byte")));
  NpyFormat unicode;
  unicode.strings = NpyStrings::kUnicode;
  const Tensor no_utf8 = *Tensor::FromSpan<std::string>(TensorShape({1}), {"\xff"});
  EXPECT_THAT(EncodeNpy(no_utf8, unicode, {}, &sink), StatusIs(Code::kInvalidArgument, HasSubstr("not UTF-8")));
}

TEST(NpyRoundTrip, NoMoreAxesThanNumPyReads) {
  for (const int rank : {kMaxNpyRank, kMaxNpyRank + 1}) {
    const Tensor tensor = *Tensor::Create(DType::kInt8, *TensorShape::Create(std::vector<int64_t>(rank, 1)));
    std::string bytes;
    StringSink sink(&bytes);
    const absl::Status status = EncodeNpy(tensor, {}, {}, &sink);
    if (rank == kMaxNpyRank) {
      EXPECT_OK(status);
    } else {
      EXPECT_THAT(status, StatusIs(Code::kInvalidArgument, HasSubstr("65 axes; NumPy reads arrays of at most 64")));
      EXPECT_TRUE(bytes.empty());
    }
  }
}

TEST(NpyRoundTrip, DTypesThatNumpyLacks) {
  std::mt19937 random(2);
  for (const DType dtype : {DType::kFloat8E4m3fn, DType::kFloat8E5m2, DType::kInt4, DType::kQint32}) {
    const Tensor tensor = RandomTensor(dtype, TensorShape({3, 2}), &random);
    std::string bytes;
    StringSink sink(&bytes);
    EXPECT_THAT(EncodeNpy(tensor, {}, {}, &sink), StatusIs(Code::kUnimplemented, HasSubstr("store_opaquely")));
    NpyFormat format;
    format.store_opaquely = true;
    bytes = Npy(tensor, format);
    ASSERT_OK_AND_ASSIGN(const NpyReader without, OpenBytes(bytes));
    EXPECT_EQ(without.entries()[0].dtype, DType::kInvalid);
    EXPECT_THAT(without.Read(), StatusIs(Code::kUnimplemented, HasSubstr("dtype_of_opaque_elements")));
    NpyReaderOptions options;
    options.dtype_of_opaque_elements = dtype;
    ASSERT_OK_AND_ASSIGN(const NpyReader reader, OpenBytes(bytes, options));
    ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read());
    EXPECT_TRUE(Equal(read, tensor));
  }
  NpyReaderOptions bad;
  bad.dtype_of_opaque_elements = DType::kBool;
  EXPECT_THAT(OpenBytes("", bad), StatusIs(Code::kInvalidArgument, HasSubstr("dtype_of_opaque_elements")));
}

TEST(NpyRoundTrip, TimesKeepTheirUnit) {
  const Tensor days = Tensor::FromValues<int64_t>({18262, 18808});
  TensorMetadata metadata;
  metadata.attributes[kNpyDescrAttribute] = "<M8[D]";
  const std::string bytes = Npy(days, {}, metadata);
  ASSERT_OK_AND_ASSIGN(const NpyReader reader, OpenBytes(bytes));
  const NpyEntry& entry = reader.entries()[0];
  EXPECT_EQ(entry.descr, "<M8[D]");
  EXPECT_EQ(entry.dtype, DType::kInt64);
  EXPECT_EQ(entry.metadata, metadata);
  ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read());
  EXPECT_TRUE(Equal(read, days));
  metadata.attributes[kNpyDescrAttribute] = "<M8[D]'";
  std::string out;
  StringSink sink(&out);
  EXPECT_THAT(EncodeNpy(days, {}, metadata, &sink), StatusIs(Code::kInvalidArgument, HasSubstr("npy.descr")));
}

TEST(NpyRoundTrip, TextStaysText) {
  const auto strings = [](const std::string& last) { return Tensor::FromValues<std::string>({"a", last}); };
  TensorMetadata metadata;
  metadata.attributes[kNpyDescrAttribute] = "<U1";
  const struct {
    Tensor tensor;
    std::string descr;
  } rows[] = {{strings("\xe2\x82\xac\xc3\xa9"), "<U2"}, {strings("\xff\xfe"), "|S2"}, {strings("\xed\xa0\x80"), "|S3"}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.descr);
    const std::string bytes = Npy(row.tensor, {}, metadata);
    ASSERT_OK_AND_ASSIGN(const NpyReader reader, OpenBytes(bytes));
    EXPECT_EQ(reader.entries()[0].descr, row.descr);
    EXPECT_EQ(reader.entries()[0].metadata.attributes.count(kNpyDescrAttribute), row.descr[1] == 'U' ? 1u : 0u);
    ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read());
    EXPECT_TRUE(Equal(read, row.tensor));
  }
}

TEST(NpyWriter, WholeInPiecesOrNotAtAll) {
  const Tensor tensor = Tensor::FromValues<int32_t>({{1, 2}, {3, 4}});
  MemoryFileSystem files;
  NpyWriterOptions options;
  options.file_system = &files;
  {
    ASSERT_OK_AND_ASSIGN(NpyWriter writer, NpyWriter::Create("a.npy", options));
    EXPECT_THAT(writer.Finish(), StatusIs(Code::kFailedPrecondition, HasSubstr("no array")));
    EXPECT_OK(writer.AddSlice(tensor.shape(), *TensorSlice::Parse("0,1:-"), *tensor.Slice(0, 1)));
    EXPECT_THAT(writer.Finish(), StatusIs(Code::kFailedPrecondition, HasSubstr("pieces of the array are missing")));
  }
  EXPECT_THAT(files.Paths(), ElementsAre());
  ASSERT_OK_AND_ASSIGN(NpyWriter writer, NpyWriter::Create("a.npy", options));
  EXPECT_OK(writer.AddSlice(tensor.shape(), *TensorSlice::Parse("0,1:-"), *tensor.Slice(0, 1)));
  EXPECT_OK(writer.AddSlice(tensor.shape(), *TensorSlice::Parse("1,1:-"), *tensor.Slice(1, 2)));
  EXPECT_THAT(writer.Add(tensor), StatusIs(Code::kFailedPrecondition, HasSubstr("one array")));
  EXPECT_OK(writer.Finish());
  EXPECT_EQ(*files.Find("a.npy"), Npy(tensor));
  EXPECT_THAT(WriteNpy("a.npy", tensor, options), StatusIs(Code::kAlreadyExists, HasSubstr("a.npy")));
  NpyReaderOptions parallel;
  parallel.read.file_system = &files;
  parallel.read.strategy = ReadStrategy::kParallel;
  ASSERT_OK_AND_ASSIGN(const NpyReader reader, NpyReader::Open("a.npy", parallel));
  Tensor into = *Tensor::Create(DType::kInt32, TensorShape({2, 2}));
  EXPECT_OK(reader.ReadInto("", &into));
  EXPECT_TRUE(Equal(into, tensor));
  Tensor other = *Tensor::Create(DType::kInt32, TensorShape({4}));
  EXPECT_THAT(reader.ReadInto("", &other),
              StatusIs(Code::kInvalidArgument, HasSubstr("the tensor to fill is int32 [4]")));
  EXPECT_THAT(reader.Read("x"), StatusIs(Code::kNotFound, HasSubstr("no tensor \"x\"")));
}

}  // namespace
}  // namespace tensorcask
