#include "tensorcask/serialize/payload/internal/chunk_reader.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/serialize/payload/codec/chunk_codec.h"
#include "tensorcask/serialize/payload/codec/chunk_format.h"
#include "tensorcask/serialize/payload/codec/scratch.h"
#include "tensorcask/serialize/payload/internal/stream_numbers.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::payload {
namespace {

absl::Status CompareChecksum(absl::string_view stored, uint32_t wanted) {
  const uint32_t found = MaskCrc32c(Crc32c(stored));
  if (found == wanted) return absl::OkStatus();
  return MarkWrongChecksum(
      absl::DataLossError(absl::StrCat("the checksum of its ", stored.size(), " bytes is 0x", absl::Hex(found),
                                       ", the index has 0x", absl::Hex(wanted))));
}

}  // namespace

struct ChunkReader::Session::Tools {
  explicit Tools(DType dtype)
      : decoders{ChunkDecoder(StreamNumbers(dtype, 0)), ChunkDecoder(StreamNumbers(dtype, 1))} {}

  ChunkDecoder decoders[2];
  Scratch stored;
  Scratch decoded;
};

ChunkReader::Session::Session(const ChunkReader* chunks) : chunks_(chunks) {
  {
    std::lock_guard<std::mutex> lock(chunks->mutex_);
    if (!chunks->idle_.empty()) {
      tools_ = std::move(chunks->idle_.back());
      chunks->idle_.pop_back();
    }
  }
  if (tools_ != nullptr) return;
  tools_ = std::make_unique<Tools>(chunks->header().dtype);
  std::lock_guard<std::mutex> lock(chunks->mutex_);
  chunks->idle_.reserve(++chunks->num_tools_);  // so that the destructor throws nothing
}

ChunkReader::Session::Session(Session&&) noexcept = default;

ChunkReader::Session::~Session() {
  if (tools_ == nullptr) return;
  std::lock_guard<std::mutex> lock(chunks_->mutex_);
  chunks_->idle_.push_back(std::move(tools_));
}

absl::Status ChunkReader::Session::DecodeFetched(uint64_t i, absl::string_view stored, bool verify, const char* base,
                                                 absl::Span<char> out, bool non_temporal) {
  if (verify) CASK_RETURN_IF_ERROR(CompareChecksum(stored, chunks_->index_.entry(i).checksum));
  chunks_->chunks_decoded_.fetch_add(1, std::memory_order_relaxed);
  if (stored.data() == out.data()) return absl::OkStatus();  // a raw chunk, read into its destination
  if (!chunks_->header().is_delta && stored.size() < out.size() && (stored[0] & kChunkDifferences) != 0) {
    return absl::InvalidArgumentError("it has differences, but the payload is no delta");
  }
  return tools_->decoders[chunks_->header().chunk(i).stream].Decode(stored, base, out, non_temporal);
}

absl::Status ChunkReader::Session::Decode(uint64_t i, absl::Span<char> out, bool non_temporal) {
  const absl::Status status = [&]() -> absl::Status {
    const ChunkEntry entry = chunks_->index_.entry(i);
    const PayloadHeader::Chunk chunk = chunks_->header().chunk(i);
    const char* const base = chunks_->header().is_delta ? chunks_->base_.data() + chunk.begin : nullptr;
    absl::string_view stored;
    if (entry.size == out.size() && !chunks_->bytes_.in_memory() && chunks_->header().dtype != DType::kBool) {
      CASK_RETURN_IF_ERROR(chunks_->bytes_.ReadAt(entry.offset, out));
      stored = absl::string_view(out.data(), out.size());
    } else {
      CASK_ASSIGN_OR_RETURN(stored, chunks_->bytes_.Get(entry.offset, entry.size, &tools_->stored));
    }
    return DecodeFetched(i, stored, chunks_->verify_, base, out, non_temporal);
  }();
  return status.ok() ? status : chunks_->Named(i, status);
}

absl::StatusOr<absl::string_view> ChunkReader::Session::Decode(uint64_t i) {
  const size_t size = chunks_->header().chunk(i).size;
  CASK_RETURN_IF_ERROR(tools_->decoded.Reserve(size));
  CASK_RETURN_IF_ERROR(Decode(i, absl::MakeSpan(tools_->decoded.data(), size)));
  return absl::string_view(tools_->decoded.data(), size);
}

absl::StatusOr<absl::string_view> ChunkReader::Session::Check(uint64_t i, absl::Status* damage) {
  const ChunkEntry entry = chunks_->index_.entry(i);
  const size_t size = chunks_->header().chunk(i).size;
  CASK_RETURN_IF_ERROR(tools_->decoded.Reserve(size));
  CASK_ASSIGN_OR_RETURN(const absl::string_view stored, chunks_->bytes_.Get(entry.offset, entry.size, &tools_->stored));
  const absl::Span<char> out(tools_->decoded.data(), size);
  const absl::Status status = DecodeFetched(i, stored, /*verify=*/true, /*base=*/nullptr, out, /*non_temporal=*/false);
  if (absl::IsResourceExhausted(status)) return chunks_->Named(i, status);
  *damage = status.ok() ? status : chunks_->Named(i, status);
  return absl::string_view(out.data(), out.size());
}

ChunkReader::ChunkReader(PayloadBytes bytes, PayloadIndex index, bool verify)
    : bytes_(std::move(bytes)), index_(std::move(index)), verify_(verify) {}
ChunkReader::~ChunkReader() = default;

absl::Status ChunkReader::ForEach(int num_threads, size_t count,
                                  absl::FunctionRef<absl::Status(Session* session, size_t i)> fn) const {
  std::atomic<size_t> failed{std::numeric_limits<size_t>::max()};  // the lowest index that failed
  std::mutex mutex;
  absl::Status first_error;
  // Threads take indices in ascending order, so all indices before a failed one are completed.
  absl::Status status_of_threads = ParallelFor(num_threads, count, [&](size_t i) {
    if (i > failed.load(std::memory_order_relaxed)) return;
    Session session(this);
    absl::Status status = fn(&session, i);
    if (status.ok()) return;
    std::lock_guard<std::mutex> lock(mutex);
    if (i > failed.load(std::memory_order_relaxed)) return;
    failed.store(i, std::memory_order_relaxed);
    first_error = std::move(status);
  });
  return first_error.ok() ? status_of_threads : first_error;
}

absl::Status ChunkReader::Named(uint64_t i, const absl::Status& status) const {
  const PayloadHeader::Chunk chunk = header().chunk(i);
  const bool strings = header().dtype == DType::kString;
  const absl::string_view what = !strings ? "elements " : chunk.stream == 0 ? "lengths of strings " : "characters ";
  const uint64_t item_bytes = !strings ? ElementSize(header().dtype) : chunk.stream == 0 ? sizeof(uint64_t) : 1;
  return Annotate(status, absl::StrCat("chunk ", i, " (", what, chunk.begin / item_bytes, " to ",
                                       (chunk.begin + chunk.size) / item_bytes - 1, ")"));
}

}  // namespace tensorcask::payload
