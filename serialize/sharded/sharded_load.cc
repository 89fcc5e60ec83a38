#include "tensorcask/serialize/sharded/sharded_load.h"

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/sharded/internal/exchange.h"
#include "tensorcask/serialize/sharded/internal/host_reads.h"
#include "tensorcask/serialize/sharded/internal/save_plan.h"
#include "tensorcask/serialize/sharded/internal/sent_index.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/device_elements.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask {
namespace {

using sharded::HostReads;
using sharded::HostRequest;
using sharded::SentCheckpoint;

absl::Status ReadAlone(const CheckpointReader& reader, const WantedPiece& piece) {
  TensorView into = piece.into;  // on the same buffer
  return reader.ReadSliceInto(piece.name, piece.slice, &into);
}

// What this rank would share; empty for a piece with a mistake, of which ReadAlone finds the error.
HostRequest RequestFor(const CheckpointReader& reader, const WantedPiece& piece) {
  const absl::StatusOr<CheckpointEntry> entry = reader.Find(piece.name);
  if (!entry.ok() || !IsFixedSize(entry->dtype) || piece.into.dtype() != entry->dtype) return {};
  const absl::StatusOr<TensorShape> shape = piece.slice.Apply(entry->shape);
  if (!shape.ok() || piece.into.shape() != *shape) return {};
  const TensorSlice slice = sharded::Canonical(piece.slice, entry->shape);
  return {absl::StrCat(piece.name, absl::string_view("\0", 1), slice.ToString()),
          static_cast<uint64_t>(shape->num_elements()) * ElementSize(entry->dtype)};
}

// Row-major elements in memory that a host shares.
absl::StatusOr<TensorView> ElementsIn(const RefPtr<TensorBuffer>& memory, const WantedPiece& piece) {
  return TensorView::Create(memory, piece.into.dtype(), Layout::RowMajor(piece.into.shape()));
}

absl::Status LoadOnHosts(Communicator* comm, const absl::Status& opened, const CheckpointReader* reader,
                         absl::Span<const WantedPiece> wanted) {
  std::vector<HostRequest> requests(wanted.size());
  absl::Status status = opened;
  if (status.ok()) {
    status = CatchExceptions([&] {
      for (size_t i = 0; i < wanted.size(); ++i) requests[i] = RequestFor(*reader, wanted[i]);
      return absl::OkStatus();
    });
  }
  CASK_ASSIGN_OR_RETURN(HostReads reads, HostReads::Plan(comm, status, requests));
  status = CatchExceptions([&]() -> absl::Status {
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!reads.is_shared(i)) CASK_RETURN_IF_ERROR(ReadAlone(*reader, wanted[i]));
    }
    return absl::OkStatus();
  });
  const auto read = [&](size_t i, const RefPtr<TensorBuffer>& memory) -> absl::Status {
    CASK_ASSIGN_OR_RETURN(TensorView elements, ElementsIn(memory, wanted[i]));
    return reader->ReadSliceInto(wanted[i].name, wanted[i].slice, &elements);
  };
  const auto use = [&](size_t i, const RefPtr<TensorBuffer>& memory) -> absl::Status {
    CASK_ASSIGN_OR_RETURN(const TensorView elements, ElementsIn(memory, wanted[i]));
    TensorView into = wanted[i].into;
    return internal::CopyFromHost(elements, &into);
  };
  return reads.Run(status, read, use);
}

}  // namespace

absl::Status ShardedLoad(Communicator* comm, const std::string& prefix, absl::Span<const WantedPiece> wanted,
                         const ShardedLoadOptions& options) {
  CASK_ASSIGN_OR_RETURN(const std::string index, sharded::SendIndex(comm, prefix, options.reader));
  std::unique_ptr<SentCheckpoint> checkpoint;
  absl::Status status = CatchExceptions([&]() -> absl::Status {
    CASK_ASSIGN_OR_RETURN(checkpoint, SentCheckpoint::Open(prefix, index, options.reader));
    return absl::OkStatus();
  });
  if (options.share == ReadSharing::kHost) {
    return LoadOnHosts(comm, status, status.ok() ? &checkpoint->reader() : nullptr, wanted);
  }
  if (status.ok()) {
    status = CatchExceptions([&]() -> absl::Status {
      for (const WantedPiece& piece : wanted) CASK_RETURN_IF_ERROR(ReadAlone(checkpoint->reader(), piece));
      return absl::OkStatus();
    });
  }
  return sharded::AgreeOnStatus(comm, status);
}

}  // namespace tensorcask
