// Measures each promise about speed, and prints whether it is met or missed:
//
//   NAME   FIGURE  BAR   met|missed   compared to
//
// One thread, medians, warm memory unless a row says otherwise. tools/dev bench bars runs this. Its arguments are names
// of groups of rows; without arguments it measures all.

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/serialize/wire/zero_copy.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/benchmarks/bar_data.h"
#include "tensorcask/tests/benchmarks/bar_groups.h"
#include "tensorcask/tests/benchmarks/bars.h"
#include "tensorcask/tests/benchmarks/checkpoint_bars.h"
#include "tensorcask/tests/benchmarks/device_bars.h"
#include "tensorcask/tests/benchmarks/exchange_bars.h"
#include "tensorcask/tests/benchmarks/formats_bars.h"
#include "tensorcask/tests/benchmarks/machine.h"
#include "tensorcask/tests/benchmarks/measure.h"
#include "tensorcask/tests/benchmarks/model_bars.h"
#include "tensorcask/tests/benchmarks/payload_bars.h"
#include "tensorcask/tests/benchmarks/strided_bars.h"
#include "tensorcask/tests/benchmarks/units.h"

namespace tensorcask::benchmarks {
namespace {

void WireRows() {
  const size_t size = 256 * kMiB;
  const Tensor tensor = Filled(TensorShape({static_cast<int64_t>(size / 4)}), 1);
  Tensor warm = Require(tensor.Clone());
  std::string message(Require(EncodedSize(tensor, {})), '\1');
  const auto copy = [&] { std::memcpy(&message[0], tensor.bytes().data(), size); };
  Row("encode 256 MiB into warm memory",
      MedianRatio(
          9, [&] { Require(EncodeTensorTo(tensor, {}, absl::MakeSpan(&message[0], message.size()))); }, copy),
      1.1, "x memcpy", "memcpy of the same bytes");
  Require(EncodeTensorTo(tensor, {}, absl::MakeSpan(&message[0], message.size())));
  const auto copy_back = [&] { std::memcpy(warm.mutable_bytes().data(), message.data() + 16, size); };
  Row("decode 256 MiB into warm memory",
      MedianRatio(
          9, [&] { Require(DecodeTensorInto(message, {}, &warm)); }, copy_back),
      1.1, "x memcpy", "memcpy of the same bytes");
  Row("encode 256 MiB by reference, unverified",
      MedianRatio(
          9, [&] { Require(EncodeTensorToCord(tensor, {}, {}).status()); }, copy),
      0.01, "x memcpy", "memcpy of the same bytes");
  const absl::Cord cord = Require(EncodeTensorToCord(tensor, {}, {}));
  Row("decode 256 MiB by reference, unverified",
      MedianRatio(
          9, [&] { Require(DecodeTensorFromCord(cord).status()); }, copy_back),
      0.01, "x memcpy", "memcpy of the same bytes");
}

void CoreRows() {
  const size_t size = 64 * kMiB;
  const Tensor source = Filled(TensorShape({static_cast<int64_t>(size / 4)}), 3);
  Tensor warm = Require(source.Clone());
  Row("copy into freshly allocated 64 MiB",
      MedianRatio(
          15, [&] { Keep(Require(source.Clone()).bytes().data()); },
          [&] { std::memcpy(warm.mutable_bytes().data(), source.bytes().data(), size); }),
      2.0, "x memcpy", "memcpy between warm buffers");

  constexpr int kBatch = 100000;
  const auto copy_handle = [&] {
    for (int i = 0; i < kBatch; ++i) {
      const Tensor alias = source;  // NOLINT(performance-unnecessary-copy-initialization): it is what is timed
      Keep(&alias);
    }
  };
  Row("copying a handle", InUnits(21, kBatch, copy_handle, CountPairs), 1.25, "x count", kOfCountPairs);
  const TensorShape small({4});
  const auto make_small = [&] {
    for (int i = 0; i < kBatch; ++i) {
      const Tensor tensor = Require(Tensor::Create(DType::kFloat32, small));
      Keep(&tensor);
    }
  };
  Row("making a small tensor", InUnits(21, kBatch, make_small, Allocations), 6, "x malloc", kOfAllocations);
  Row("bytes of a shape", Exactly(sizeof(TensorShape)), 24, "bytes", "-");
  Row("bytes of a tensor", Exactly(sizeof(Tensor)), 32, "bytes", "-");
}

}  // namespace
}  // namespace tensorcask::benchmarks

int main(int argc, char** argv) {
  using namespace tensorcask::benchmarks;  // NOLINT(google-build-using-namespace): this is its main
  const std::vector<BarGroup> all = {
      {"core", CoreRows},
      {"strided", StridedRows},
      {"exchange", ExchangeRows},
      {"wire", WireRows},
      {"checkpoint", CheckpointRows},
      {"background", BackgroundRow},
      {"lookup", LookupRows},
      {"formats", [] { FormatRows(); }},
      {"models", ModelRows},
      {"payload", PayloadRows},
      {"device", DeviceRows},
  };
  const std::vector<BarGroup> groups = Require(ChosenGroups(all, std::vector<std::string>(argv + 1, argv + argc)));
  std::printf("%s\n", DescribeMachine().c_str());
  std::printf("%-70s %19s %10s  %-6s  %s\n", "what", "figure", "bar", "", "compared to, in the same run");
  for (const BarGroup& group : groups) group.rows();
  if (MissedRows() > 0) std::printf("%d missed\n", MissedRows());
  return 0;
}
