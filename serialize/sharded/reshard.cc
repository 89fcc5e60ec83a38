#include "tensorcask/serialize/sharded/reshard.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/parts.h"
#include "tensorcask/serialize/io/replaced_files.h"
#include "tensorcask/serialize/sharded/internal/exchange.h"
#include "tensorcask/serialize/sharded/internal/host_reads.h"
#include "tensorcask/serialize/sharded/internal/joint_save.h"
#include "tensorcask/serialize/sharded/internal/sent_index.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/glob.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {
namespace {

// A piece of a tensor, and the ranks that have it.
struct SharedPiece {
  size_t entry = 0;  // an entry of the source
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
  // Called by all ranks of a job.
  absl::Status WriteInJob(Communicator* comm, const std::string& target);
  ReshardReport TakeReport() { return std::move(report_); }

 private:
  absl::Status Divide(size_t entry, const PartitionSpec& spec);
  absl::Status Copy(const SharedPiece& piece, CheckpointWriter* writer) const;
  absl::Status GoOn(const std::string& target) const;
  bool IsDivided(size_t entry) const { return ends_[entry] - Begin(entry) > 1; }
  size_t Begin(size_t entry) const { return entry == 0 ? 0 : ends_[entry - 1]; }
  absl::StatusOr<Tensor> ReadPiece(const SharedPiece& piece) const;
  absl::Status AddPiece(size_t piece, const TensorView& elements, checkpoint::PartWriter* part) const;
  std::vector<sharded::HostRequest> Requests(int rank, std::vector<size_t>* entries) const;

  const CheckpointReader& reader_;
  const Mesh& mesh_;
  const ReshardOptions& options_;
  std::vector<CheckpointEntry> entries_;
  std::vector<SharedPiece> pieces_;  // in the order of tensors and ranks
  std::vector<size_t> ends_;         // by entry: the end of its pieces
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
  ends_.push_back(pieces_.size());
  return absl::OkStatus();
}

absl::Status Resharder::Copy(const SharedPiece& piece, CheckpointWriter* writer) const {
  const CheckpointEntry& entry = entries_[piece.entry];
  CheckpointAddOptions add;
  add.shard = piece.writer;
  add.unchanging = true;
  CASK_ASSIGN_OR_RETURN(add.metadata, reader_.Metadata(entry.name));
  CASK_ASSIGN_OR_RETURN(const Tensor elements, ReadPiece(piece));
  if (piece.slice.IsFull()) return writer->Add(entry.name, elements, add);
  return writer->AddSlice(entry.name, entry.shape, piece.slice, elements, add);
}

absl::StatusOr<Tensor> Resharder::ReadPiece(const SharedPiece& piece) const {
  const std::string& name = entries_[piece.entry].name;
  if (piece.slice.IsFull()) return reader_.Read(name);  // read whole, so that it is verified
  return reader_.ReadSlice(name, piece.slice, /*verify_whole=*/true);
}

absl::Status Resharder::GoOn(const std::string& target) const {
  if (!options_.go_on || options_.go_on()) return absl::OkStatus();
  return absl::CancelledError(absl::StrCat(target, ": stopped"));
}

absl::Status Resharder::Write(const std::string& target) {
  CheckpointWriterOptions writer_options = options_.writer;
  writer_options.num_shards = mesh_.num_ranks();
  CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, CheckpointWriter::Create(target, writer_options));
  for (const SharedPiece& piece : pieces_) {
    CASK_RETURN_IF_ERROR(GoOn(target));
    CASK_RETURN_IF_ERROR(Copy(piece, &writer));
  }
  CASK_ASSIGN_OR_RETURN(ReplacedFiles replaced, writer.Replaced());
  CASK_RETURN_IF_ERROR(writer.Finish());
  report_.removed = writer.removed_files();
  report_.notes = std::move(replaced.notes);
  return absl::OkStatus();
}

// Adds a piece that this rank writes, and with the first piece of a tensor in pieces the record of the tensor.
absl::Status Resharder::AddPiece(size_t number, const TensorView& elements, checkpoint::PartWriter* part) const {
  const SharedPiece& piece = pieces_[number];
  const CheckpointEntry& entry = entries_[piece.entry];
  CASK_ASSIGN_OR_RETURN(const TensorMetadata metadata, reader_.Metadata(entry.name));
  CASK_RETURN_IF_ERROR(part->Add(entry.name, entry.shape, piece.slice, elements, metadata));
  if (!IsDivided(piece.entry) || number != Begin(piece.entry)) return absl::OkStatus();
  std::vector<TensorSlice> slices;
  for (size_t i = number; i < ends_[piece.entry]; ++i) slices.push_back(pieces_[i].slice);
  return part->AddSliced(entry.name, entry.dtype, entry.shape, slices, metadata);
}

// The divided tensors of which `rank` writes pieces, whole, and their numbers.
std::vector<sharded::HostRequest> Resharder::Requests(int rank, std::vector<size_t>* entries) const {
  std::vector<sharded::HostRequest> requests;
  for (size_t entry = 0; entry < entries_.size(); ++entry) {
    const CheckpointEntry& tensor = entries_[entry];
    const bool is_mine = std::any_of(pieces_.begin() + static_cast<ptrdiff_t>(Begin(entry)),
                                     pieces_.begin() + static_cast<ptrdiff_t>(ends_[entry]),
                                     [&](const SharedPiece& piece) { return piece.writer == rank; });
    if (!is_mine || !IsDivided(entry) || !IsFixedSize(tensor.dtype)) continue;
    entries->push_back(entry);
    requests.push_back({tensor.name, PieceBytes(tensor, tensor.shape.num_elements())});
  }
  return requests;
}

absl::Status Resharder::WriteInJob(Communicator* comm, const std::string& target) {
  const int rank = comm->rank();
  sharded::JointSave save(comm, target, options_.writer);
  CASK_RETURN_IF_ERROR(save.Begin());
  absl::Status status = save.OpenPart();
  std::vector<bool> is_shared(entries_.size(), false);
  const auto add_pieces_of = [&](size_t entry,
                                 absl::FunctionRef<absl::StatusOr<TensorView>(size_t)> elements_of) -> absl::Status {
    for (size_t piece = Begin(entry); piece < ends_[entry]; ++piece) {
      if (pieces_[piece].writer != rank) continue;
      CASK_RETURN_IF_ERROR(GoOn(target));
      CASK_ASSIGN_OR_RETURN(const TensorView elements, elements_of(piece));
      CASK_RETURN_IF_ERROR(AddPiece(piece, elements, save.part()));
    }
    return absl::OkStatus();
  };
  if (options_.share == ReadSharing::kHost) {
    std::vector<size_t> wanted;
    const std::vector<sharded::HostRequest> requests = Requests(rank, &wanted);
    CASK_ASSIGN_OR_RETURN(sharded::HostReads reads, sharded::HostReads::Plan(comm, status, requests));
    for (size_t i = 0; i < wanted.size(); ++i) is_shared[wanted[i]] = reads.is_shared(i);
    const auto whole = [&](size_t i, const RefPtr<TensorBuffer>& memory) {
      const CheckpointEntry& entry = entries_[wanted[i]];
      return TensorView::Create(memory, entry.dtype, Layout::RowMajor(entry.shape));
    };
    const auto read = [&](size_t i, const RefPtr<TensorBuffer>& memory) -> absl::Status {
      CASK_ASSIGN_OR_RETURN(TensorView elements, whole(i, memory));
      return reader_.ReadInto(entries_[wanted[i]].name, &elements);
    };
    const auto use = [&](size_t i, const RefPtr<TensorBuffer>& memory) -> absl::Status {
      CASK_ASSIGN_OR_RETURN(const TensorView elements, whole(i, memory));
      return add_pieces_of(wanted[i], [&](size_t piece) { return elements.Slice(pieces_[piece].slice); });
    };
    CASK_RETURN_IF_ERROR(reads.Run(status, read, use));
  }
  if (status.ok()) {
    status = CatchExceptions([&]() -> absl::Status {
      for (size_t entry = 0; entry < entries_.size(); ++entry) {
        if (is_shared[entry]) continue;
        CASK_RETURN_IF_ERROR(add_pieces_of(entry, [&](size_t piece) -> absl::StatusOr<TensorView> {
          CASK_ASSIGN_OR_RETURN(const Tensor elements, ReadPiece(pieces_[piece]));
          return TensorView(elements);
        }));
      }
      return absl::OkStatus();
    });
  }
  uint64_t num_records = pieces_.size();
  for (size_t entry = 0; entry < entries_.size(); ++entry) num_records += IsDivided(entry) ? 1 : 0;
  CASK_RETURN_IF_ERROR(save.Finish(status, num_records));
  CASK_RETURN_IF_ERROR(save.Publish());
  if (rank == 0) {
    report_.removed = save.removed_files();
    report_.notes = save.notes();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ReshardReport> ReshardCheckpoint(const std::string& source, const std::string& target, const Mesh& mesh,
                                                const ReshardOptions& options) {
  CASK_RETURN_IF_ERROR(checkpoint::CheckNumDataFiles(target, mesh.num_ranks()));
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(source, options.reader));
  // Also if the file systems differ: one may forward to the other.
  CASK_RETURN_IF_ERROR(checkpoint::CheckOtherCheckpoint(target, reader.prefix(), options.writer));
  Resharder resharder(reader, mesh, options);
  CASK_RETURN_IF_ERROR(resharder.Plan());
  CASK_RETURN_IF_ERROR(resharder.Write(target));
  return resharder.TakeReport();
}

absl::StatusOr<ReshardReport> ReshardCheckpoint(Communicator* comm, const std::string& source,
                                                const std::string& target, const Mesh& mesh,
                                                const ReshardOptions& options) {
  CASK_ASSIGN_OR_RETURN(const std::string index, sharded::SendIndex(comm, source, options.reader));
  std::unique_ptr<sharded::SentCheckpoint> checkpoint;
  std::optional<Resharder> resharder;
  const absl::Status planned = CatchExceptions([&]() -> absl::Status {
    if (mesh.num_ranks() != comm->size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("mesh ", mesh.ToString(), " has ", mesh.num_ranks(), " ranks; the job has ", comm->size()));
    }
    CASK_ASSIGN_OR_RETURN(checkpoint, sharded::SentCheckpoint::Open(source, index, options.reader));
    CASK_RETURN_IF_ERROR(checkpoint::CheckOtherCheckpoint(target, checkpoint->reader().prefix(), options.writer));
    resharder.emplace(checkpoint->reader(), mesh, options);
    return resharder->Plan();
  });
  CASK_RETURN_IF_ERROR(sharded::AgreeOnStatus(comm, planned));
  CASK_RETURN_IF_ERROR(resharder->WriteInJob(comm, target));
  return resharder->TakeReport();
}

}  // namespace tensorcask
