#include "tensorcask/serialize/archive/summarize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/chosen_names.h"
#include "tensorcask/serialize/archive/element_totals.h"
#include "tensorcask/serialize/archive/internal/read_ahead.h"
#include "tensorcask/serialize/archive/tensor_blocks.h"
#include "tensorcask/tensor/base/glob.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/convert.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {
namespace {

constexpr int64_t kSampleSize = 65536;
constexpr uint64_t kBlocksAhead = 4;

// Evenly spaced elements of a tensor that comes in blocks.
class Sample {
 public:
  explicit Sample(int64_t num_elements) : step_(std::max<int64_t>(1, num_elements / kSampleSize)) {}

  absl::Status Add(const TensorView& block) {
    const int64_t size = block.num_elements();
    if (next_ < size) {
      CASK_ASSIGN_OR_RETURN(const TensorView flat, block.Flatten());
      CASK_ASSIGN_OR_RETURN(const TensorView some, flat.Slice(0, next_, size, step_));
      CASK_ASSIGN_OR_RETURN(const TensorView values, ConvertTo(some, DType::kFloat64, MemoryFormat::kContiguous));
      values_.insert(values_.end(), values.data<double>(), values.data<double>() + values.num_elements());
      next_ += values.num_elements() * step_;
    }
    next_ -= size;
    return absl::OkStatus();
  }

  void Fill(TensorStatistics* out) const {
    const double width = out->max - out->min;
    for (const double value : values_) {
      if (!std::isfinite(value)) continue;
      // If the range overflows double, or is empty, the first bin has all values.
      const double place = width > 0 && std::isfinite(width) ? (value - out->min) / width : 0;
      const int bin = static_cast<int>(place * TensorStatistics::kBins);
      ++out->histogram[std::clamp(bin, 0, TensorStatistics::kBins - 1)];
    }
  }

 private:
  const int64_t step_;
  int64_t next_ = 0;  // counted from the start of the next block
  std::vector<double> values_;
};

// With `reads_ahead`, another thread reads the blocks.
absl::Status Measure(const ArchiveReader& reader, const ArchiveEntry& entry, uint64_t block_bytes, bool reads_ahead,
                     archive::ByteProgress* progress, TensorStatistics* out) {
  CASK_RETURN_IF_ERROR(reader.CheckReadable(entry));
  archive::ElementTotals totals;
  Sample sample(entry.shape.num_elements());
  out->is_numeric = archive::HasOrder(entry.dtype);
  const auto read = [&](size_t, archive::ReadAhead::Emit emit) -> absl::Status {
    CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TensorBlocks> blocks, reader.ReadBlocks(entry, block_bytes));
    while (true) {
      CASK_ASSIGN_OR_RETURN(std::optional<TensorBlock> block, blocks->Next());
      if (!block.has_value()) return absl::OkStatus();
      const TensorView& view = block->elements;
      const uint64_t bytes = static_cast<uint64_t>(view.num_elements()) * view.element_size();
      DecodedTensor tensor;
      tensor.view = std::move(block->elements);
      CASK_RETURN_IF_ERROR(emit({std::move(tensor), /*is_block=*/false, TensorSlice(), bytes}));
    }
  };
  const auto measure = [&](size_t, const archive::ReadPiece& piece) -> absl::Status {
    if (out->is_numeric) {
      CASK_RETURN_IF_ERROR(totals.Add(piece.tensor.view));
      CASK_RETURN_IF_ERROR(sample.Add(piece.tensor.view));
    }
    return progress->Add(piece.bytes) ? absl::OkStatus() : absl::CancelledError("the summary was cancelled");
  };
  if (reads_ahead && entry.reads_in_blocks) {
    archive::ReadAhead ahead(/*num_jobs=*/1, kBlocksAhead * block_bytes, read, [](size_t) { return true; });
    CASK_RETURN_IF_ERROR(ahead.Run(/*num_threads=*/2, measure));
  } else {
    CASK_RETURN_IF_ERROR(read(0, [&](archive::ReadPiece piece) { return measure(0, piece); }));
  }
  if (!out->is_numeric) return absl::OkStatus();
  out->zeros = totals.zeros;
  out->nans = totals.nans;
  out->infinities = totals.infinities;
  out->subnormals = totals.subnormals;
  out->finite = totals.finite();
  out->min = totals.min;
  out->max = totals.max;
  if (archive::HasExactRange(entry.dtype)) out->exact_range = {totals.exact_min, totals.exact_max};
  out->mean = totals.mean();
  out->standard_deviation = totals.standard_deviation();
  sample.Fill(out);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<TensorStatistics>> Summarize(const ArchiveReader& reader, const SummarizeOptions& options) {
  const std::vector<std::string> include = archive::NamesFirst(options.include, reader.entries());
  std::vector<const ArchiveEntry*> chosen;
  for (const ArchiveEntry& entry : reader.entries()) {
    const auto matches = [&](const std::string& glob) { return MatchesGlob(glob, entry.name); };
    if (include.empty() || std::any_of(include.begin(), include.end(), matches)) {
      chosen.push_back(&entry);
    }
  }
  std::vector<TensorStatistics> all(chosen.size());
  archive::ByteProgress progress(options.progress);
  const bool reads_ahead = chosen.size() == 1 && options.num_threads > 1;
  CASK_RETURN_IF_ERROR(ParallelFor(options.num_threads, chosen.size(), [&](size_t i) {
    if (progress.cancelled()) return;
    all[i].name = chosen[i]->name;
    all[i].dtype = chosen[i]->dtype;
    all[i].shape = chosen[i]->shape;
    all[i].num_elements = static_cast<uint64_t>(chosen[i]->shape.num_elements());
    all[i].status = Measure(reader, *chosen[i], options.block_bytes, reads_ahead, &progress, &all[i]);
  }));
  if (progress.cancelled()) return absl::CancelledError("the summary was cancelled");
  return all;
}

}  // namespace tensorcask
