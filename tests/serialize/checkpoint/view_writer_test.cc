// Strided views into a checkpoint: the files are those of the dense tensors.

#include <sys/resource.h>

#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/support/discarding_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::BytesOf;
using ::tensorcask::testing::DiscardingFileSystem;
using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

CheckpointWriterOptions To(FileSystem* files) {
  CheckpointWriterOptions options;
  options.file_system = files;
  return options;
}

TEST(CheckpointWriterViews, WritesTheFilesOfDenseTensors) {
  // More than a piece of the writer's, in three axes.
  Tensor tensor = *Tensor::Create(DType::kInt32, TensorShape({70, 60, 50}));
  int32_t* const values = tensor.mutable_data<int32_t>();
  std::iota(values, values + tensor.num_elements(), 0);
  Tensor words = *Tensor::Create(DType::kString, TensorShape({4, 3}));
  for (int64_t i = 0; i < 12; ++i) words.mutable_flat<std::string>()[i] = "word " + std::to_string(i);
  ASSERT_OK_AND_ASSIGN(const TensorView permuted, TensorView(tensor).Permute({2, 0, 1}));
  ASSERT_OK_AND_ASSIGN(const TensorView flipped, TensorView(tensor).Flip({0, 2}));
  ASSERT_OK_AND_ASSIGN(const TensorView repeated, TensorView(tensor).Select(0, 3)->Expand({5, 60, 50}));
  ASSERT_OK_AND_ASSIGN(const TensorView columns, TensorView(words).Transpose(0, 1));

  MemoryFileSystem files;
  for (const bool dense : {false, true}) {
    ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create(dense ? "/dense" : "/views", To(&files)));
    for (const TensorView& view : {permuted, flipped, repeated, columns}) {
      ASSERT_OK_AND_ASSIGN(const TensorView added, dense ? view.Contiguous() : view);
      ASSERT_OK(writer.Add(view.ToString(), added));
    }
    ASSERT_OK(writer.Finish());
  }
  EXPECT_EQ(BytesOf(files, "/views.index"), BytesOf(files, "/dense.index"));
  EXPECT_TRUE(BytesOf(files, "/views.data-00000-of-00001") == BytesOf(files, "/dense.data-00000-of-00001"));
}

TEST(CheckpointWriterViews, MemoryStaysBounded) {
  DiscardingFileSystem files;
  Tensor row = *Tensor::Zeros(DType::kFloat32, TensorShape({1 << 16, 1}));
  ASSERT_OK_AND_ASSIGN(const TensorView view, TensorView(row).Expand({1 << 16, 1 << 14}));  // 4 GiB
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/huge", To(&files)));
  rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  ASSERT_OK(writer.Add("w", view));
  getrusage(RUSAGE_SELF, &after);
  ASSERT_OK(writer.Finish());
  EXPECT_EQ(files.SizeOfFile("/huge.data-00000-of-00001"), uint64_t{4} << 30);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 16 << 10) << "KiB";
}

TEST(CheckpointWriterViews, WithoutData) {
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(const Tensor sketch, Tensor::FromBuffer(DType::kInt32, TensorShape({2, 5}),
                                                               TensorBuffer::MakeWithoutData(40, "a sketch")));
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/a", To(&files)));
  EXPECT_THAT(writer.Add("w", sketch), StatusIs(Code::kFailedPrecondition, HasSubstr("a sketch")));
}

}  // namespace
}  // namespace tensorcask
