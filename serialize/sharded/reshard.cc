#include "tensorcask/serialize/sharded/reshard.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/parts.h"
#include "tensorcask/tensor/base/glob.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {
namespace {

// A piece of a tensor, and the ranks that have it.
struct SharedPiece {
  size_t entry = 0;  // of the source
  TensorSlice slice;
  std::vector<int> holders;
  uint64_t bytes = 0;
  int writer = -1;
};

uint64_t PieceBytes(const CheckpointEntry& entry, int64_t elements) {
  if (IsFixedSize(entry.dtype)) return static_cast<uint64_t>(elements) * ElementSize(entry.dtype);
  const int64_t all = std::max<int64_t>(entry.shape.num_elements(), 1);
  return static_cast<uint64_t>(static_cast<double>(entry.content_bytes()) * static_cast<double>(elements) /
                               static_cast<double>(all));
}

class Resharder {
 public:
  Resharder(const CheckpointReader& reader, const Mesh& mesh, const ReshardOptions& options)
      : reader_(reader), mesh_(mesh), options_(options) {}

  absl::Status Plan();
  absl::Status Write(const std::string& target);
  ReshardReport TakeReport() { return std::move(report_); }

 private:
  absl::Status Divide(size_t entry, const PartitionSpec& spec);
  absl::Status Copy(const SharedPiece& piece, CheckpointWriter* writer) const;

  const CheckpointReader& reader_;
  const Mesh& mesh_;
  const ReshardOptions& options_;
  std::vector<CheckpointEntry> entries_;
  std::vector<SharedPiece> pieces_;  // in the order of tensors and ranks
  ReshardReport report_;
};

absl::Status Resharder::Plan() {
  CASK_ASSIGN_OR_RETURN(entries_, reader_.entries());
  std::vector<bool> matched(options_.rules.size(), false);
  for (size_t entry = 0; entry < entries_.size(); ++entry) {
    const PartitionSpec* spec = nullptr;
    for (size_t rule = 0; rule < options_.rules.size(); ++rule) {
      if (!MatchesGlob(options_.rules[rule].glob, entries_[entry].name)) continue;
      matched[rule] = true;
      if (spec == nullptr) spec = &options_.rules[rule].spec;
    }
    CASK_ANNOTATE_IF_ERROR(Divide(entry, spec != nullptr ? *spec : PartitionSpec()),
                           absl::StrCat(reader_.prefix(), ": tensor ", Quoted(entries_[entry].name)));
  }
  for (size_t rule = 0; rule < matched.size(); ++rule) {
    if (!matched[rule]) report_.unmatched.push_back(options_.rules[rule].glob);
  }

  report_.bytes_of_ranks.assign(static_cast<size_t>(mesh_.num_ranks()), 0);
  std::vector<uint64_t>& load = report_.bytes_of_ranks;
  std::vector<SharedPiece*> replicas;
  for (SharedPiece& piece : pieces_) {
    if (piece.holders.size() > 1) {
      replicas.push_back(&piece);
      continue;
    }
    piece.writer = piece.holders[0];
    load[static_cast<size_t>(piece.writer)] += piece.bytes;
  }
  std::stable_sort(replicas.begin(), replicas.end(),
                   [](const SharedPiece* a, const SharedPiece* b) { return a->bytes > b->bytes; });
  for (SharedPiece* const piece : replicas) {
    piece->writer = *std::min_element(piece->holders.begin(), piece->holders.end(), [&](int a, int b) {
      return load[static_cast<size_t>(a)] < load[static_cast<size_t>(b)];
    });
    load[static_cast<size_t>(piece->writer)] += piece->bytes;
  }
  report_.num_tensors = static_cast<int64_t>(entries_.size());
  report_.num_pieces = static_cast<int64_t>(pieces_.size());
  return absl::OkStatus();
}

absl::Status Resharder::Divide(size_t entry, const PartitionSpec& spec) {
  const TensorShape& shape = entries_[entry].shape;
  std::map<std::string, size_t> found;  // from a slice to its piece
  for (int rank = 0; rank < mesh_.num_ranks(); ++rank) {
    CASK_ASSIGN_OR_RETURN(const HeldPiece held, PieceOf(shape, mesh_, spec, rank, options_.division));
    if (!held.slice.has_value()) continue;
    const auto [at, is_new] = found.emplace(held.slice->ToString(), pieces_.size());
    if (is_new) {
      CASK_ASSIGN_OR_RETURN(const TensorShape part, held.slice->Apply(shape));
      pieces_.push_back({entry, *held.slice, {}, PieceBytes(entries_[entry], part.num_elements())});
    }
    pieces_[at->second].holders.push_back(rank);
  }
  return absl::OkStatus();
}

absl::Status Resharder::Copy(const SharedPiece& piece, CheckpointWriter* writer) const {
  const CheckpointEntry& entry = entries_[piece.entry];
  CheckpointAddOptions add;
  add.shard = piece.writer;
  add.unchanging = true;
  CASK_ASSIGN_OR_RETURN(add.metadata, reader_.Metadata(entry.name));
  if (piece.slice.IsFull()) {  // read whole, so that it is verified
    CASK_ASSIGN_OR_RETURN(const Tensor tensor, reader_.Read(entry.name));
    return writer->Add(entry.name, tensor, add);
  }
  CASK_ASSIGN_OR_RETURN(const Tensor part, reader_.ReadSlice(entry.name, piece.slice, /*verify_whole=*/true));
  return writer->AddSlice(entry.name, entry.shape, piece.slice, part, add);
}

absl::Status Resharder::Write(const std::string& target) {
  CheckpointWriterOptions writer_options = options_.writer;
  writer_options.num_shards = mesh_.num_ranks();
  CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, CheckpointWriter::Create(target, writer_options));
  for (const SharedPiece& piece : pieces_) {
    if (options_.go_on && !options_.go_on()) return absl::CancelledError(absl::StrCat(target, ": stopped"));
    CASK_RETURN_IF_ERROR(Copy(piece, &writer));
  }
  CASK_RETURN_IF_ERROR(writer.Finish());
  report_.removed = writer.removed_files();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ReshardReport> ReshardCheckpoint(const std::string& source, const std::string& target, const Mesh& mesh,
                                                const ReshardOptions& options) {
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(source, options.reader));
  // Also if the file systems differ: one may forward to the other.
  CASK_RETURN_IF_ERROR(checkpoint::CheckOtherCheckpoint(target, reader.prefix(), options.writer));
  Resharder resharder(reader, mesh, options);
  CASK_RETURN_IF_ERROR(resharder.Plan());
  CASK_RETURN_IF_ERROR(resharder.Write(target));
  return resharder.TakeReport();
}

}  // namespace tensorcask
