// Copies that can be watched and ended: the pieces, what is told of them, and the end.

#include "tensorcask/serialize/io/byte_sink.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::Pair;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Remembers what it is asked to copy, and copies nothing.
class AskedSink final : public ByteSink {
 public:
  absl::Status Append(absl::string_view bytes) override {
    position_ += bytes.size();
    return absl::OkStatus();
  }
  absl::Status AppendFrom(const ByteSource& /*source*/, uint64_t offset, uint64_t bytes) override {
    asked.emplace_back(offset, bytes);
    position_ += bytes;
    return absl::OkStatus();
  }
  uint64_t position() const override { return position_; }

  std::vector<std::pair<uint64_t, uint64_t>> asked;

 private:
  uint64_t position_ = 0;
};

TEST(PacedSink, CopiesPiecesOneAfterTheOther) {
  const std::shared_ptr<const ByteSource> source = MakeMemorySource("source", "");
  AskedSink sink;
  std::vector<uint64_t> told;
  const std::function<bool(uint64_t)> progress = [&](uint64_t copied) {
    told.push_back(copied);
    return true;
  };
  PacedSink paced(&sink, &progress, /*already=*/5);
  ASSERT_OK(paced.Append("abc"));
  ASSERT_OK(paced.AppendFrom(*source, 100, 150 * kMiB));
  EXPECT_THAT(sink.asked,
              ElementsAre(Pair(100, 64 * kMiB), Pair(100 + 64 * kMiB, 64 * kMiB), Pair(100 + 128 * kMiB, 22 * kMiB)));
  EXPECT_THAT(told, ElementsAre(5 + 64 * kMiB, 5 + 128 * kMiB, 5 + 150 * kMiB));
  EXPECT_EQ(paced.copied(), 5 + 150 * kMiB);
  EXPECT_EQ(paced.position(), 3 + 150 * kMiB);
}

TEST(PacedSink, EndsAfterThePieceThatTheCallerStops) {
  const std::shared_ptr<const ByteSource> source = MakeMemorySource("source", "");
  AskedSink sink;
  const std::function<bool(uint64_t)> progress = [](uint64_t copied) { return copied < 128 * kMiB; };
  PacedSink paced(&sink, &progress);
  EXPECT_THAT(paced.AppendFrom(*source, 0, 1000 * kMiB), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(sink.asked, ElementsAre(Pair(0, 64 * kMiB), Pair(64 * kMiB, 64 * kMiB)));
}

}  // namespace
}  // namespace tensorcask
