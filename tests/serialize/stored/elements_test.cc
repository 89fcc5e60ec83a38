// Elements of any dtype, order, byte order and packing, read in every way, beside the tensor that they were made of.

#include "tensorcask/serialize/stored/elements.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/stored/packed_elements.h"
#include "tensorcask/serialize/stored/stored_tensor.h"
#include "tensorcask/tensor/base/checksum.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/simulated_device.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::stored {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Random = std::mt19937_64;

int64_t Below(Random* random, int64_t end) { return static_cast<int64_t>((*random)() % static_cast<uint64_t>(end)); }

constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kInt32,      DType::kUint8,    DType::kInt16,
                             DType::kBool,    DType::kInt64,   DType::kComplex64,  DType::kBfloat16, DType::kComplex128,
                             DType::kUint4,   DType::kInt8,    DType::kFloat4E2m1, DType::kUint64};

std::string BytesOf(const TensorView& view) {
  const Tensor dense = view.Clone().value().ToTensor().value();
  return std::string(dense.bytes());
}

// A file with the elements of one tensor, and what they are.
struct Sample {
  StoredTensor stored;
  TensorView tensor;
  std::string file;  // with other bytes around the elements
};

// Sets the bytes of the file, and the checksum.
void Store(std::string elements, Random* random, Sample* sample) {
  sample->stored.stored_bytes = elements.size();
  sample->stored.offset = static_cast<uint64_t>(Below(random, 40));
  sample->stored.checksum = {ChecksumKind::kCrc32c, ExtendChecksum(ChecksumKind::kCrc32c, 0, elements)};
  sample->file = std::string(sample->stored.offset, 'x') + std::move(elements) + "yy";
}

TensorShape RandomShape(Random* random) {
  TensorShape shape;
  for (int64_t rank = Below(random, 5); rank > 0; --rank) {
    shape.AddDim(Below(random, 12) == 0 ? 0 : 1 + Below(random, 9)).IgnoreError();
  }
  return shape;
}

Sample RandomSample(Random* random) {
  Sample sample;
  const DType dtype = kDTypes[Below(random, std::size(kDTypes))];
  Layout layout = Layout::RowMajor(RandomShape(random));
  Tensor raw = Tensor::Create(dtype, TensorShape::Create(layout.dims()).value()).value();
  for (char& byte : raw.mutable_bytes()) byte = static_cast<char>((*random)() % (dtype == DType::kBool ? 2 : 256));
  const bool packs = dtype == DType::kUint4 || dtype == DType::kFloat4E2m1;
  if (packs) {
    for (char& byte : raw.mutable_bytes()) byte = static_cast<char>(byte & 15);
  }
  sample.stored.dtype = dtype;
  std::string elements(raw.bytes());
  if (packs && raw.num_elements() % 2 == 0 && Below(random, 2) == 0) {
    sample.stored.packed_bits = 4;
    elements.clear();
    ElementPacker(4).Pack(raw.bytes(), &elements);
  } else {
    if (Below(random, 2) == 0) {
      std::vector<int64_t> axes(static_cast<size_t>(layout.rank()));
      for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
      std::shuffle(axes.begin(), axes.end(), *random);
      layout = layout.Permute(axes).value();
      for (const int64_t axis : axes) {
        if (Below(random, 3) == 0) layout = layout.Flip({axis}).value();
      }
      sample.stored.layout = layout;
    }
    const size_t item_bytes = ElementSize(dtype) / (IsComplex(dtype) ? 2 : 1);
    sample.stored.big_endian = Below(random, 3) == 0;
    if (sample.stored.big_endian && item_bytes > 1 && !elements.empty()) {
      SwapBytes(&elements[0], elements.size() / item_bytes, item_bytes);
    }
  }
  sample.stored.shape = TensorShape::Create(layout.dims()).value();
  sample.tensor = TensorView::Create(raw.buffer(), dtype, layout).value();
  Store(std::move(elements), random, &sample);
  return sample;
}

TensorSlice RandomSlice(const TensorShape& shape, Random* random) {
  std::vector<TensorSlice::Extent> extents(static_cast<size_t>(shape.rank()));
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (Below(random, 3) == 0 || shape.dim(axis) == 0) continue;  // all of it
    const int64_t start = Below(random, shape.dim(axis));
    extents[static_cast<size_t>(axis)] = {start, 1 + Below(random, shape.dim(axis) - start)};
  }
  return TensorSlice::Create(extents).value();
}

// A view of this shape that is not contiguous, in memory of its own.
TensorView StridedMemory(DType dtype, const TensorShape& shape, Random* random) {
  DimVector dims = shape.dims();
  for (int64_t& dim : dims) dim += Below(random, 3);
  TensorView view = Tensor::Zeros(dtype, TensorShape::Create(dims).value()).value();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    view = view.Narrow(axis, view.dims()[static_cast<size_t>(axis)] - shape.dim(axis), shape.dim(axis)).value();
    if (Below(random, 3) == 0) view = view.Flip({axis}).value();
  }
  return view;
}

class File {
 public:
  File(const std::string& bytes, ReadStrategy strategy) {
    files_.Put("/f", bytes);
    ReadOptions options;
    options.file_system = &files_;
    options.strategy = strategy;
    source_ = OpenFileSource("/f", options).value();
  }
  const ByteSource& operator*() const { return *source_; }

 private:
  MemoryFileSystem files_;
  std::shared_ptr<const ByteSource> source_;
};

TEST(Elements, AreThoseOfTheTensorHoweverTheyAreStoredAndRead) {
  int mapped = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(seed);
    const Sample sample = RandomSample(&random);
    const StoredTensor& stored = sample.stored;
    const std::string wanted = BytesOf(sample.tensor);
    ElementOptions options;
    options.verify = true;
    options.strategy = static_cast<ReadStrategy>(Below(&random, 3));
    options.num_threads = 2;
    const File file(sample.file, options.strategy);

    const Tensor whole = ReadElements(*file, stored, options).value();
    EXPECT_EQ(whole.dtype(), stored.dtype);
    EXPECT_EQ(whole.shape(), stored.shape);
    EXPECT_EQ(whole.bytes(), wanted);
    const TensorView as_stored = ReadElementsAsStored(*file, stored, options).value();
    EXPECT_EQ(BytesOf(as_stored), wanted);
    EXPECT_EQ(as_stored.layout(), stored.layout.value_or(Layout::RowMajor(stored.shape)));
    TensorView memory = StridedMemory(stored.dtype, stored.shape, &random);
    EXPECT_EQ(ReadElementsInto(*file, stored, options, &memory), absl::OkStatus());
    EXPECT_EQ(BytesOf(memory), wanted);
    EXPECT_EQ(VerifyElements(*file, stored, options), absl::OkStatus());
    if (CanMap(stored)) {
      const absl::StatusOr<Tensor> map = MapElements(*file, stored, options);
      EXPECT_EQ(map.ok() ? std::string(map->bytes()) : wanted, wanted);
      mapped += map.ok() ? 1 : 0;
    }

    const TensorSlice slice = RandomSlice(stored.shape, &random);
    const std::string part = BytesOf(sample.tensor.Slice(slice).value());
    const Tensor sliced = ReadSliceOfElements(*file, stored, slice, options).value();
    EXPECT_EQ(sliced.shape(), slice.Apply(stored.shape).value());
    EXPECT_EQ(sliced.bytes(), part);
    EXPECT_GE(SliceMemory(stored, slice, sliced.shape()), part.size());
    TensorView target = StridedMemory(stored.dtype, sliced.shape(), &random);
    EXPECT_EQ(ReadSliceOfElementsInto(*file, stored, slice, options, &target), absl::OkStatus());
    EXPECT_EQ(BytesOf(target), part);
  }
  EXPECT_GT(mapped, 100);
}

TEST(Elements, GoToADevice) {
  const ::tensorcask::testing::SimulatedDevice device(1);
  int read = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(seed);
    Sample sample = RandomSample(&random);
    const std::shared_ptr<const ByteSource> file = MakeMemorySource("f", sample.file);
    ElementOptions options;
    options.verify = true;
    const auto on_device = [&](const TensorShape& shape) {
      return Tensor::Create(sample.stored.dtype, shape, device.cache).value();
    };
    TensorView whole = on_device(sample.stored.shape);
    ASSERT_EQ(ReadElementsInto(*file, sample.stored, options, &whole), absl::OkStatus());
    EXPECT_EQ(BytesOf(::tensorcask::testing::OnHost(whole)), BytesOf(sample.tensor));
    if (whole.rank() > 1) {
      std::vector<int64_t> reversed;
      std::vector<int64_t> axes;
      for (int axis = whole.rank() - 1; axis >= 0; --axis) {
        reversed.push_back(whole.dim(axis));
        axes.push_back(axis);
      }
      TensorView transposed = on_device(TensorShape::Create(reversed).value());
      transposed = transposed.Permute(axes).value();
      ASSERT_EQ(ReadElementsInto(*file, sample.stored, options, &transposed), absl::OkStatus());
      EXPECT_EQ(BytesOf(::tensorcask::testing::OnHost(transposed)), BytesOf(sample.tensor));
    }
    const TensorSlice slice = RandomSlice(sample.stored.shape, &random);
    TensorView part = on_device(slice.Apply(sample.stored.shape).value());
    ASSERT_EQ(ReadSliceOfElementsInto(*file, sample.stored, slice, options, &part), absl::OkStatus());
    EXPECT_EQ(BytesOf(::tensorcask::testing::OnHost(part)), BytesOf(sample.tensor.Slice(slice).value()));
    if (whole.num_elements() == 0) continue;
    ++read;
    sample.stored.checksum.value ^= 1;
    EXPECT_THAT(ReadElementsInto(*file, sample.stored, options, &whole),
                StatusIs(Code::kDataLoss, HasSubstr("its checksum is ")));
  }
  EXPECT_GT(read, 100);
}

TEST(Elements, AWrongByteIsFoundByAllThatReadsAllBytes) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(seed);
    Sample sample = RandomSample(&random);
    if (sample.stored.stored_bytes == 0) continue;
    const uint64_t at = sample.stored.offset + static_cast<uint64_t>(Below(&random, sample.stored.stored_bytes));
    sample.file[at] = static_cast<char>(sample.file[at] ^ (sample.stored.dtype == DType::kBool ? 1 : 64));
    ElementOptions options;
    options.verify = true;
    options.strategy = static_cast<ReadStrategy>(Below(&random, 3));
    const File file(sample.file, options.strategy);
    const auto is_found = StatusIs(Code::kDataLoss, HasSubstr("its checksum is "));
    EXPECT_THAT(ReadElements(*file, sample.stored, options), is_found);
    EXPECT_THAT(ReadElementsAsStored(*file, sample.stored, options), is_found);
    TensorView memory = StridedMemory(sample.stored.dtype, sample.stored.shape, &random);
    EXPECT_THAT(ReadElementsInto(*file, sample.stored, options, &memory), is_found);
    if (CanMap(sample.stored)) {
      EXPECT_THAT(MapElements(*file, sample.stored, options), is_found);
    }
    options.verify = false;
    EXPECT_EQ(ReadElements(*file, sample.stored, options).status(), absl::OkStatus());
    EXPECT_THAT(VerifyElements(*file, sample.stored, options), is_found);  // whatever the options say
    sample.stored.checksum = {};
    EXPECT_EQ(VerifyElements(*file, sample.stored, options), absl::OkStatus());
  }
}

TEST(Elements, InAStreamAreVerifiedAtItsEnd) {
  int streams = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(seed);
    Sample sample = RandomSample(&random);
    const StoredTensor& stored = sample.stored;
    ElementOptions options;
    options.verify = true;
    const auto source = MakeMemorySource("f", sample.file);
    const auto about = [](const absl::Status& status) { return Annotate(status, "f"); };
    absl::StatusOr<std::unique_ptr<ElementStream>> stream = OpenElements(*source, stored, options, about);
    if (!stream.ok()) {
      EXPECT_THAT(stream, StatusIs(Code::kUnimplemented, HasSubstr("f: only whole bytes in row-major order")));
      EXPECT_TRUE(stored.packed_bits > 0 || stored.layout.has_value());
      continue;
    }
    ++streams;
    std::string read(stored.stored_bytes, '\0');
    const auto element_bytes = static_cast<int64_t>(ElementSize(stored.dtype));
    const int64_t elements = stored.shape.num_elements();
    const int64_t first = Below(&random, elements + 1) * element_bytes;
    ASSERT_OK((*stream)->Read(absl::MakeSpan(&read[0], first)));
    ASSERT_OK((*stream)->Read(absl::MakeSpan(&read[0], read.size()).subspan(first)));
    EXPECT_EQ(read, BytesOf(sample.tensor));
    char more[16];
    EXPECT_THAT((*stream)->Read(absl::MakeSpan(more, element_bytes)),
                StatusIs(Code::kInvalidArgument, HasSubstr("at most 0 bytes")));
    EXPECT_OK((*stream)->Finish());
    if (elements == 0) continue;
    sample.stored.checksum.value ^= 1;
    stream = OpenElements(*source, stored, options, about);
    ASSERT_OK((*stream)->Read(absl::MakeSpan(&read[0], first)));
    EXPECT_THAT((*stream)->Finish(), StatusIs(Code::kDataLoss, HasSubstr("f: its checksum is ")));
    options.verify = false;
    EXPECT_OK((*OpenElements(*source, stored, options, about))->Finish());
  }
  EXPECT_GT(streams, 100);
}

TEST(Elements, HaveAChecksumThatIsToldAsItIsStored) {
  StoredTensor tensor;
  tensor.checksum = {ChecksumKind::kCrc32c, 0x00c0ffee};
  EXPECT_EQ(CompareChecksum(tensor, 0x00c0ffee), absl::OkStatus());
  EXPECT_THAT(CompareChecksum(tensor, 1),
              StatusIs(Code::kDataLoss, HasSubstr("its checksum is 00000001, stored is 00c0ffee")));
  EXPECT_TRUE(HasWrongChecksum(CompareChecksum(tensor, 1)));
  tensor.checksum.kind = ChecksumKind::kMaskedCrc32c;
  EXPECT_THAT(CompareChecksum(tensor, 0), StatusIs(Code::kDataLoss, HasSubstr("its checksum is a282ead8, stored")));
}

TEST(Elements, OddBoolsAreRefusedOrTrue) {
  Sample sample;
  sample.stored.dtype = DType::kBool;
  sample.stored.shape = TensorShape({5});
  Random random(1);
  Store(std::string("\0\1\2\xff\0", 5), &random, &sample);
  const auto source = MakeMemorySource("f", sample.file);
  ElementOptions options;
  options.verify = true;
  options.odd_bools_hint = " (ask for it)";
  const auto is_refused = StatusIs(Code::kDataLoss, HasSubstr("a bool is neither 0 nor 1 (ask for it)"));
  const TensorSlice good = TensorSlice::Parse("0,2").value();
  const TensorSlice odd = TensorSlice::Parse("1,3").value();
  EXPECT_THAT(ReadElements(*source, sample.stored, options), is_refused);
  EXPECT_THAT(VerifyElements(*source, sample.stored, options), is_refused);
  EXPECT_THAT(ReadSliceOfElements(*source, sample.stored, odd, options), is_refused);
  EXPECT_EQ(ReadSliceOfElements(*source, sample.stored, good, options).status(), absl::OkStatus());
  const File mapped(sample.file, ReadStrategy::kMap);
  EXPECT_THAT(MapElements(*mapped, sample.stored, options), StatusIs(Code::kUnimplemented, HasSubstr("mapped")));
  for (const ReadStrategy strategy : {ReadStrategy::kRead, ReadStrategy::kMap}) {
    options.strategy = strategy;
    options.accept_odd_bools = true;
    EXPECT_EQ(ReadElements(*mapped, sample.stored, options).value().bytes(), absl::string_view("\0\1\1\1\0", 5));
    EXPECT_EQ(ReadSliceOfElements(*mapped, sample.stored, odd, options).value().bytes(), "\1\1\1");
    sample.stored.checksum.value ^= 1;  // a wrong checksum is the first to be told
    options.accept_odd_bools = false;
    EXPECT_THAT(ReadElements(*mapped, sample.stored, options),
                StatusIs(Code::kDataLoss, HasSubstr("its checksum is ")));
    sample.stored.checksum.value ^= 1;
  }
}

// The checksum is right, but the tensor was never found to be whole.
TEST(Elements, OddBoolsAreFoundEachTime) {
  Sample sample;
  sample.stored.dtype = DType::kBool;
  sample.stored.shape = TensorShape({5});
  sample.stored.storage_id = 1;
  Random random(1);
  Store(std::string("\2\0\0\0\0", 5), &random, &sample);
  const auto source = MakeMemorySource("f", sample.file);
  VerifiedOnce verified;
  ElementOptions options;
  options.verify = true;
  options.verified = &verified;
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(VerifyOnce(*source, sample.stored, options), StatusIs(Code::kDataLoss));
    EXPECT_THAT(ReadElements(*source, sample.stored, options), StatusIs(Code::kDataLoss));
    EXPECT_FALSE(verified.Contains(1));
  }
  options.accept_odd_bools = true;
  EXPECT_OK(VerifyOnce(*source, sample.stored, options));
  EXPECT_TRUE(verified.Contains(1));
}

TEST(Elements, OfALargeTensorAreReadInPartsByThreads) {
  Random random(7);
  Sample sample;
  sample.stored.dtype = DType::kInt32;
  sample.stored.shape = TensorShape({5 << 20});  // 20 MiB, with a part that is not whole
  std::string elements(static_cast<size_t>(sample.stored.shape.num_elements()) * 4, '\0');
  for (size_t i = 0; i < elements.size(); i += 4093) elements[i] = static_cast<char>(random());
  const std::string wanted = elements;
  Store(std::move(elements), &random, &sample);
  ElementOptions options;
  options.verify = true;
  options.strategy = ReadStrategy::kParallel;
  options.num_threads = 3;
  EXPECT_TRUE(ReadElements(*File(sample.file, options.strategy), sample.stored, options).value().bytes() == wanted);
  sample.file[sample.stored.offset + (17 << 20)] ^= 1;
  EXPECT_THAT(ReadElements(*File(sample.file, options.strategy), sample.stored, options),
              StatusIs(Code::kDataLoss, HasSubstr("its checksum is ")));
}

TEST(Elements, OfACutSourceAreAnError) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(seed);
    Sample sample = RandomSample(&random);
    if (sample.stored.stored_bytes == 0) continue;
    sample.file.resize(sample.stored.offset + sample.stored.stored_bytes - 1);
    const ElementOptions options;
    const auto source = MakeMemorySource("f", sample.file);
    EXPECT_THAT(ReadElements(*source, sample.stored, options), StatusIs(Code::kDataLoss, HasSubstr("f: ")));
    EXPECT_THAT(VerifyElements(*source, sample.stored, options), StatusIs(Code::kDataLoss, HasSubstr("f: ")));
  }
}

}  // namespace
}  // namespace tensorcask::stored
