// Every door of Tensorcask seen from another project: its short name is visible and brings its headers.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/payload/content_hash.h"
#include "tensorcask/serialize/wire/records.h"
#include "tensorcask/serialize/wire/shape_codec.h"
#include "tensorcask/serialize/wire/slice_codec.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/compat/handle.h"
#include "tensorcask/tensor/inspect/tensor_report.h"
#include "tensorcask/tensor/interop/dlpack.h"
#include "tensorcask/tensor/interop/eigen.h"
#include "tensorcask/tensor/slice_set.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace {

using tensorcask::Tensor;

absl::Status UseTheDoors(const std::string& prefix) {
  const Tensor rows = Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});
  CASK_ASSIGN_OR_RETURN(const tensorcask::TensorView columns, tensorcask::TensorView(rows).Transpose(0, 1));

  CASK_ASSIGN_OR_RETURN(tensorcask::CheckpointWriter writer, tensorcask::CheckpointWriter::Create(prefix));
  CASK_RETURN_IF_ERROR(writer.Add("columns", columns));
  CASK_RETURN_IF_ERROR(writer.Finish());
  CASK_ASSIGN_OR_RETURN(const tensorcask::CheckpointReader reader, tensorcask::CheckpointReader::Open(prefix));
  CASK_ASSIGN_OR_RETURN(const tensorcask::CheckpointEntry entry, reader.Find("columns"));
  EXPECT_EQ(entry.shape, tensorcask::TensorShape({3, 2}));
  return absl::OkStatus();
}

TEST(Doors, OpenFromOutside) { EXPECT_EQ(UseTheDoors(testing::TempDir() + "/doors"), absl::OkStatus()); }

TEST(Doors, ChecksumsAreForEverybody) { EXPECT_EQ(tensorcask::Crc32c("123456789"), 0xe3069283U); }

}  // namespace
