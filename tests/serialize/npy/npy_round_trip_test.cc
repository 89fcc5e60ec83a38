// What the writers write, the readers read: every dtype, rank, order and byte order; slices, mapping, strings, pieces.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/internal/forwarding_file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/npy/npy_format.h"
#include "tensorcask/serialize/npy/npy_reader.h"
#include "tensorcask/serialize/npy/npy_stream.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/serialize/npy/npy_writer.h"
#include "tensorcask/serialize/npy/npz_reader.h"
#include "tensorcask/serialize/npy/npz_writer.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;
using Code = absl::StatusCode;

constexpr DType kDTypes[] = {DType::kBool,    DType::kInt8,    DType::kInt16,     DType::kInt32,      DType::kInt64,
                             DType::kUint8,   DType::kUint16,  DType::kUint32,    DType::kUint64,     DType::kFloat16,
                             DType::kFloat32, DType::kFloat64, DType::kComplex64, DType::kComplex128, DType::kBfloat16};

Tensor RandomTensor(DType dtype, const TensorShape& shape, std::mt19937* random) {
  Tensor tensor = *Tensor::Create(dtype, shape);
  for (char& byte : tensor.mutable_bytes())
    byte = static_cast<char>(dtype == DType::kBool ? (*random)() & 1 : (*random)());
  return tensor;
}

TensorShape RandomShape(int rank, std::mt19937* random) {
  DimVector dims;
  for (int axis = 0; axis < rank; ++axis) dims.push_back((*random)() % 16 == 0 ? 0 : 1 + (*random)() % 5);
  return *TensorShape::Create(dims);
}

std::string Npy(const TensorView& tensor, const NpyFormat& format = {}, const TensorMetadata& metadata = {}) {
  std::string bytes;
  StringSink sink(&bytes);
  EXPECT_OK(EncodeNpy(tensor, format, metadata, &sink));
  return bytes;
}

absl::StatusOr<NpyReader> OpenBytes(const std::string& bytes, const NpyReaderOptions& options = {}) {
  return NpyReader::Open(MakeMemorySource("a.npy", bytes), options);
}

// A part of a tensor of this shape, at random.
TensorSlice RandomSlice(const TensorShape& shape, std::mt19937* random) {
  std::vector<TensorSlice::Extent> extents;
  for (const int64_t dim : shape) {
    TensorSlice::Extent extent;
    if (dim > 0 && (*random)() % 3 != 0) {
      extent.start = (*random)() % dim;
      extent.length = 1 + (*random)() % (dim - extent.start);
    }
    extents.push_back(extent);
  }
  return *TensorSlice::Create(extents);
}

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

TEST(NpyRoundTrip, DTypesThatNumpyLacks) {
  std::mt19937 random(2);
  for (const DType dtype : {DType::kFloat8E4m3fn, DType::kFloat8E5m2, DType::kInt4, DType::kQint32}) {
    const Tensor tensor = RandomTensor(dtype, TensorShape({3, 2}), &random);
    std::string bytes;
    StringSink sink(&bytes);
    EXPECT_THAT(EncodeNpy(tensor, {}, {}, &sink), StatusIs(Code::kUnimplemented, HasSubstr("opaque_dtypes")));
    NpyFormat format;
    format.opaque_dtypes = true;
    bytes = Npy(tensor, format);
    ASSERT_OK_AND_ASSIGN(const NpyReader without, OpenBytes(bytes));
    EXPECT_EQ(without.entries()[0].dtype, DType::kInvalid);
    EXPECT_THAT(without.Read(), StatusIs(Code::kUnimplemented, HasSubstr("opaque_dtype")));
    NpyReaderOptions options;
    options.opaque_dtype = dtype;
    ASSERT_OK_AND_ASSIGN(const NpyReader reader, OpenBytes(bytes, options));
    ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read());
    EXPECT_TRUE(Equal(read, tensor));
  }
  NpyReaderOptions bad;
  bad.opaque_dtype = DType::kBool;
  EXPECT_THAT(OpenBytes("", bad), StatusIs(Code::kInvalidArgument, HasSubstr("opaque_dtype")));
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

// ---- npz ------------------------------------------------------------------------------------------------------------

struct Named {
  std::string name;
  Tensor tensor;
};

std::vector<Named> SomeTensors(std::mt19937* random) {
  std::vector<Named> tensors;
  for (const DType dtype : kDTypes) {
    tensors.push_back({absl::StrCat("layer/", DTypeName(dtype)),
                       RandomTensor(dtype, RandomShape(static_cast<int>((*random)() % 5), random), random)});
  }
  tensors.push_back({"", Tensor::Scalar(1.5f)});
  tensors.push_back({"\xce\xb1\xce\xb2", *Tensor::FromSpan<std::string>(TensorShape({2}), {"x", "yz"})});
  tensors.push_back({"../up", Tensor::Scalar<int64_t>(-1)});
  tensors.push_back({"a.npy", Tensor::FromValues<uint8_t>({1, 2})});
  tensors.push_back({"zeros", *Tensor::Zeros(DType::kFloat32, TensorShape({300, 1000}))});
  return tensors;
}

absl::Status WriteNpz(MemoryFileSystem* files, const std::vector<Named>& tensors, NpzWriterOptions options) {
  options.file_system = files;
  absl::StatusOr<NpzWriter> writer = NpzWriter::Create("a.npz", options);
  if (!writer.ok()) return writer.status();
  for (const Named& named : tensors) {
    if (absl::Status status = writer->Add(named.name, named.tensor); !status.ok()) return status;
  }
  return writer->Finish();
}

NpyReaderOptions In(MemoryFileSystem* files) {
  NpyReaderOptions options;
  options.read.file_system = files;
  return options;
}

TEST(NpzRoundTrip, StoredAndDeflated) {
  std::mt19937 random(3);
  const std::vector<Named> tensors = SomeTensors(&random);
  for (const int level : {0, 1, 9}) {
    for (const uint32_t alignment : {64, 4096}) {
      SCOPED_TRACE(absl::StrCat(level, " ", alignment));
      MemoryFileSystem files;
      NpzWriterOptions options;
      options.deflate_level = level;
      options.format.alignment = alignment;
      ASSERT_OK(WriteNpz(&files, tensors, options));
      const std::string first = *files.Find("a.npz");
      options.overwrite = true;
      ASSERT_OK(WriteNpz(&files, tensors, options));
      EXPECT_EQ(first, *files.Find("a.npz")) << "bytes depend on something else than the input";
      ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open("a.npz", In(&files)));
      ASSERT_EQ(reader.entries().size(), tensors.size());
      ASSERT_OK_AND_ASSIGN(const std::vector<NpyTensor> all, reader.ReadAll(2));
      for (size_t i = 0; i < tensors.size(); ++i) {
        const NpyEntry& entry = reader.entries()[i];
        EXPECT_EQ(entry.name, tensors[i].name);
        EXPECT_EQ(all[i].name, tensors[i].name);
        EXPECT_TRUE(Equal(all[i].tensor, tensors[i].tensor)) << entry.name;
        EXPECT_EQ(entry.deflated, level > 0);
        EXPECT_EQ(entry.data_offset % alignment, 0) << entry.name;
        ASSERT_OK_AND_ASSIGN(const TensorView mapped, reader.Map(entry.name));
        EXPECT_TRUE(Equal(mapped, tensors[i].tensor)) << entry.name;
        const bool is_mapped = mapped.buffer() != nullptr && mapped.buffer()->kind() == TensorBuffer::Kind::kMapped;
        EXPECT_EQ(is_mapped, level == 0 && entry.dtype != DType::kString && mapped.num_elements() > 0) << entry.name;
        const TensorSlice slice = RandomSlice(entry.shape, &random);
        for (const bool verify_whole : {false, true}) {
          ASSERT_OK_AND_ASSIGN(const Tensor part, reader.ReadSlice(entry.name, slice, verify_whole));
          EXPECT_TRUE(Equal(part, *TensorView(tensors[i].tensor).Slice(slice)));
        }
      }
      int damages = 0;
      EXPECT_OK(reader.VerifyAll([&](const NpyDamage&) { ++damages; }));
      EXPECT_EQ(damages, 0);
    }
  }
}

TEST(NpzRoundTrip, InPieces) {
  std::mt19937 random(4);
  const Tensor tensor = RandomTensor(DType::kFloat32, TensorShape({5, 4, 3}), &random);
  for (const int level : {0, 6}) {
    MemoryFileSystem files;
    NpzWriterOptions options;
    options.file_system = &files;
    options.deflate_level = level;
    ASSERT_OK_AND_ASSIGN(NpzWriter writer, NpzWriter::Create("a.npz", options));
    const auto add = [&](const char* text) {
      const TensorSlice slice = *TensorSlice::Parse(text);
      return writer.AddSlice("w", tensor.shape(), slice, *TensorView(tensor).Slice(slice));
    };
    EXPECT_THAT(add("1,1:-:-"), StatusIs(Code::kInvalidArgument, HasSubstr("the next one is 0")));
    EXPECT_OK(add("0,2:-:-"));
    EXPECT_THAT(writer.Add("v", tensor), StatusIs(Code::kFailedPrecondition, HasSubstr("\"w\" are missing")));
    EXPECT_THAT(writer.Finish(), StatusIs(Code::kFailedPrecondition, HasSubstr("\"w\" are missing")));
    EXPECT_OK(add("2,1:0,3:-"));
    EXPECT_THAT(add("2,2:3,1:-"), StatusIs(Code::kInvalidArgument, HasSubstr("no run of elements")));
    EXPECT_OK(add("2,1:3,1:-"));
    EXPECT_OK(add("3,2:-:-"));
    EXPECT_OK(writer.Add("v", tensor));
    EXPECT_THAT(writer.Add("v", tensor), StatusIs(Code::kAlreadyExists, HasSubstr("\"v\"")));
    EXPECT_THAT(writer.Add(std::string("n\0", 2), tensor), StatusIs(Code::kInvalidArgument, HasSubstr("NUL")));
    ASSERT_OK(writer.Finish());
    EXPECT_THAT(writer.Finish(), StatusIs(Code::kFailedPrecondition, HasSubstr("has finished")));
    ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open("a.npz", In(&files)));
    ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read("w"));
    EXPECT_TRUE(Equal(read, tensor));
  }
}

TEST(NpzStream, GivesTheElementsInOrderAndVerifiesThemAtTheEnd) {
  std::mt19937 random(5);
  const Tensor numbers = RandomTensor(DType::kInt16, TensorShape({300, 1001}), &random);
  for (const int level : {0, 6}) {
    for (const bool big_endian : {false, true}) {
      SCOPED_TRACE(absl::StrCat(level, " ", big_endian));
      MemoryFileSystem files;
      NpzWriterOptions options;
      options.deflate_level = level;
      options.format.big_endian = big_endian;
      ASSERT_OK(WriteNpz(&files, {{"a", numbers}}, options));
      ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open("a.npz", In(&files)));
      ASSERT_OK_AND_ASSIGN(const std::unique_ptr<NpyStream> stream, reader.OpenStream("a"));
      std::string all(numbers.bytes().size(), '\0');
      EXPECT_THAT(stream->Read(absl::MakeSpan(&all[0], 3)),
                  StatusIs(Code::kInvalidArgument, HasSubstr("\"a\": 3 bytes")));
      for (size_t done = 0; done < all.size();) {
        const size_t bytes = std::min<size_t>(all.size() - done, 2 + done * 3 / 4 * 2);
        ASSERT_OK(stream->Read(absl::MakeSpan(&all[done], bytes)));
        done += bytes;
      }
      EXPECT_TRUE(all == numbers.bytes());
      EXPECT_THAT(stream->Read(absl::MakeSpan(&all[0], 2)), StatusIs(Code::kInvalidArgument, HasSubstr("at most 0")));
      EXPECT_OK(stream->Finish());
    }
  }
}

TEST(NpzStream, DamageIsAnErrorAtTheEndAtLatest) {
  std::mt19937 random(6);
  const Tensor numbers = RandomTensor(DType::kInt32, TensorShape({5000}), &random);
  for (const int level : {0, 6}) {
    MemoryFileSystem files;
    NpzWriterOptions options;
    options.deflate_level = level;
    ASSERT_OK(WriteNpz(&files, {{"a", numbers}}, options));
    const std::string whole = *files.Find("a.npz");
    for (size_t at = 2000; at + 2000 < whole.size(); at += 997) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 4);
      ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open(MakeMemorySource("a.npz", damaged)));
      ASSERT_OK_AND_ASSIGN(const std::unique_ptr<NpyStream> stream, reader.OpenStream("a"));
      std::string all(numbers.bytes().size(), '\0');
      absl::Status status = stream->Read(absl::MakeSpan(&all[0], all.size()));
      if (status.ok()) status = stream->Finish();
      EXPECT_THAT(status, StatusIs(Code::kDataLoss, HasSubstr("a.npz: tensor \"a\""))) << level << " " << at;
    }
  }
}

TEST(NpzStream, RefusesWhatItCannotReadInOrder) {
  MemoryFileSystem files;
  NpzWriterOptions options;
  options.format.order = NpyOrder::kColumnMajor;
  ASSERT_OK(WriteNpz(&files,
                     {{"columns", *Tensor::Zeros(DType::kFloat32, TensorShape({2, 3}))},
                      {"text", *Tensor::FromSpan<std::string>(TensorShape({1}), {"x"})}},
                     options));
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open("a.npz", In(&files)));
  for (const char* const name : {"columns", "text"}) {
    EXPECT_THAT(reader.OpenStream(name).status(), StatusIs(Code::kUnimplemented, HasSubstr("row-major order"))) << name;
  }
  EXPECT_THAT(reader.OpenStream("none").status(), StatusIs(Code::kNotFound));
}

// Remembers how much room files reserve.
class ReservationsFileSystem final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;
  IoResult Reserve(IoResult /*handle*/, uint64_t size_bytes) override {
    reserved.push_back(size_bytes);
    return 0;
  }

  std::vector<uint64_t> reserved;
};

// On a file system in memory, room that is reserved and not used takes as long as room that is used.
TEST(NpzWriter, ReservesWhatALargeMemberNeeds) {
  MemoryFileSystem memory;
  ReservationsFileSystem files(&memory);
  NpzWriterOptions options;
  options.file_system = &files;
  ASSERT_OK_AND_ASSIGN(NpzWriter writer, NpzWriter::Create("w.npz", options));
  const Tensor large = *Tensor::Zeros(DType::kInt8, TensorShape({40 << 20}));
  for (const char* const name : {"a", "b"}) ASSERT_OK(writer.Add(name, large));
  ASSERT_OK(writer.Finish());
  constexpr uint64_t kMargin = uint64_t{65} << 10;
  ASSERT_GE(files.reserved.size(), 2u);
  for (size_t i = 0; i < files.reserved.size(); ++i) {
    EXPECT_LE(files.reserved[i], std::min<uint64_t>(i + 1, 2) * large.bytes().size() + kMargin) << i;
  }
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open("w.npz", In(&memory)));
  for (const char* const name : {"a", "b"}) EXPECT_TRUE(Equal(*reader.Read(name), large));
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
              StatusIs(Code::kInvalidArgument, HasSubstr("the memory given is int32 [4]")));
  EXPECT_THAT(reader.Read("x"), StatusIs(Code::kNotFound, HasSubstr("no tensor \"x\"")));
}

// ---- Damage ---------------------------------------------------------------------------------------------------------

struct SmallFile {
  const char* name;
  bool is_npz;
  std::string bytes;
};

// Three small files of each format.
std::vector<SmallFile> SmallFiles() {
  std::mt19937 random(5);
  const Tensor floats = RandomTensor(DType::kFloat32, TensorShape({2, 3}), &random);
  const Tensor bools = RandomTensor(DType::kBool, TensorShape({5}), &random);
  const Tensor strings = *Tensor::FromSpan<std::string>(TensorShape({2}), {"ab", "c"});
  NpyFormat column_major;
  column_major.order = NpyOrder::kColumnMajor;
  column_major.big_endian = true;
  NpyFormat unicode;
  unicode.strings = NpyStrings::kUnicode;
  std::vector<SmallFile> small = {{"floats", false, Npy(floats)},
                                  {"column major", false, Npy(floats, column_major)},
                                  {"unicode", false, Npy(strings, unicode)}};
  for (const int level : {0, 6}) {
    const std::vector<std::vector<Named>> sets = {
        {{"w", floats}}, {{"a", floats}, {"b", bools}}, {{"s", strings}, {"\xc3\xa4", Tensor::Scalar<int8_t>(3)}}};
    for (const std::vector<Named>& tensors : sets) {
      MemoryFileSystem files;
      NpzWriterOptions options;
      options.deflate_level = level;
      EXPECT_OK(WriteNpz(&files, tensors, options));
      small.push_back({level == 0 ? "stored" : "deflated", true, *files.Find("a.npz")});
    }
  }
  return small;
}

// What a reader gives of a file: all tensors, or an error. Everything that can be called is called.
template <typename Reader>
absl::StatusOr<std::vector<NpyTensor>> Everything(const std::string& bytes) {
  absl::StatusOr<Reader> reader = Reader::Open(MakeMemorySource("file", bytes));
  if (!reader.ok()) return reader.status();
  absl::StatusOr<std::vector<NpyTensor>> all = reader->ReadAll();
  int damages = 0;
  EXPECT_OK(reader->VerifyAll([&](const NpyDamage& damage) {
    EXPECT_FALSE(damage.status.ok());
    ++damages;
  }));
  bool is_readable = true;
  for (const NpyEntry& entry : reader->entries()) {
    is_readable = is_readable && entry.readable.ok();
    (void)reader->Map(entry.name);
    (void)reader->ReadView(entry.name);
  }
  if (is_readable && !absl::IsResourceExhausted(all.status())) {
    EXPECT_EQ(all.ok(), damages == 0) << all.status();
  }
  return all;
}

absl::StatusOr<std::vector<NpyTensor>> Everything(const SmallFile& file, const std::string& bytes) {
  return file.is_npz ? Everything<NpzReader>(bytes) : Everything<NpyReader>(bytes);
}

TEST(NpyDamageTest, EveryCutIsRefused) {
  for (const SmallFile& file : SmallFiles()) {
    ASSERT_OK(Everything(file, file.bytes));
    for (size_t length = 0; length < file.bytes.size(); ++length) {
      const auto read = Everything(file, file.bytes.substr(0, length));
      EXPECT_FALSE(read.ok()) << file.name << " cut at " << length;
    }
    EXPECT_FALSE(Everything(file, absl::StrCat(file.bytes, "x")).ok()) << file.name;
    EXPECT_FALSE(Everything(file, absl::StrCat("x", file.bytes)).ok()) << file.name;
  }
}

// A changed byte of an npz file is noticed wherever a checksum or a second copy covers it. What remains are bytes
// without meaning for tensors: times, versions, attributes.
TEST(NpyDamageTest, EveryChangedByteIsRefusedOrHarmless) {
  for (const SmallFile& file : SmallFiles()) {
    const std::vector<NpyTensor> good = *Everything(file, file.bytes);
    int accepted = 0;
    for (size_t at = 0; at < file.bytes.size(); ++at) {
      for (const int change : {0x01, 0x80, 0xff}) {
        std::string bytes = file.bytes;
        bytes[at] = static_cast<char>(bytes[at] ^ change);
        const auto read = Everything(file, bytes);
        if (!read.ok() || !file.is_npz) continue;
        ++accepted;
        ASSERT_EQ(read->size(), good.size()) << file.name << " " << at;
        for (size_t i = 0; i < good.size(); ++i) {
          EXPECT_TRUE((*read)[i].name == good[i].name && Equal((*read)[i].tensor, good[i].tensor))
              << file.name << " changed at " << at;
        }
      }
    }
    EXPECT_LT(accepted, 3 * 160) << file.name;
  }
}

}  // namespace
}  // namespace tensorcask
