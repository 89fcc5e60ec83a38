#include "tensorcask/serialize/checkpoint/read/v1_reader.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/format/decoded_bytes.h"
#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/serialize/checkpoint/read/v1_format.h"
#include "tensorcask/serialize/checkpoint/table/table_reader.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/slice_set.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/device_elements.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::checkpoint {
namespace {

struct Piece {
  std::string key;
  TensorSlice slice;
};

// In the order of the table.
std::vector<Piece> PiecesOf(absl::string_view name, absl::Span<const TensorSliceSet::Part> parts) {
  std::vector<Piece> pieces;
  pieces.reserve(parts.size());
  for (const TensorSliceSet::Part& part : parts) pieces.push_back({EncodeSliceKey(name, part.slice), part.slice});
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.key < b.key; });
  return pieces;
}

// The elements of `slice` in a view of the whole.
absl::StatusOr<TensorView> Narrowed(TensorView view, const TensorSlice& slice) {
  for (int axis = 0; axis < slice.rank(); ++axis) {
    const TensorSlice::Extent& extent = slice.extent(axis);
    if (extent.full()) continue;
    CASK_ASSIGN_OR_RETURN(view, view.Narrow(axis, extent.start, extent.length));
  }
  return view;
}

class V1Reader final : public ReaderImpl {
 public:
  V1Reader(std::string path, std::unique_ptr<TableReader> table, std::vector<V1Tensor> tensors,
           const CheckpointReaderOptions& options)
      : path_(std::move(path)), table_(std::move(table)), tensors_(std::move(tensors)), options_(options) {
    decode_options_.limits = options.limits;
    decode_options_.allocator = options.allocator;
  }

  const CheckpointReaderOptions& options() const override { return options_; }
  const std::string& prefix() const override { return path_; }
  int num_shards() const override { return 1; }
  std::string DataPath(int /*shard*/) const override { return path_; }

  absl::StatusOr<std::vector<CheckpointEntry>> entries() const override;
  absl::Status ForEachEntry(absl::FunctionRef<absl::Status(CheckpointEntry)> fn) const override {
    CASK_ASSIGN_OR_RETURN(std::vector<CheckpointEntry> found, entries());
    for (CheckpointEntry& entry : found) CASK_RETURN_IF_ERROR(fn(std::move(entry)));
    return absl::OkStatus();
  }
  absl::StatusOr<CheckpointEntry> Find(absl::string_view name) const override;
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const override;
  absl::StatusOr<Tensor> Read(absl::string_view name, DecodeQuota* decoded) const override;
  absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const override;
  absl::Status ReadInto(absl::string_view name, TensorView* out) const override;
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice, bool verify_whole) const override;
  absl::Status ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out,
                             bool verify_whole) const override;
  absl::StatusOr<Tensor> Map(absl::string_view name) const override {
    DecodeQuota decoded = DecodeQuota::ForFile(options_.limits);
    return Read(name, &decoded);
  }
  absl::StatusOr<CheckpointCounts> VerifyAll(BundleVerifier verify_bundle,
                                             absl::FunctionRef<void(const CheckpointDamage&)> report) const override;

 private:
  // Sees one listed piece; `value` is empty if it is not stored.
  using PieceVisitor =
      absl::FunctionRef<absl::Status(size_t tensor, const TensorSlice& slice, std::optional<absl::string_view> value)>;

  absl::StatusOr<const V1Tensor*> Locate(absl::string_view name) const;
  absl::Status ForEachPiece(PieceVisitor visit) const;
  absl::Status VisitPiece(const V1Tensor& tensor, const Piece& piece,
                          absl::FunctionRef<absl::Status(absl::string_view)> fn) const;
  absl::StatusOr<std::vector<Piece>> PiecesFor(const V1Tensor& tensor, const TensorSlice& slice,
                                               const TensorShape& shape, DecodeQuota* decoded) const;
  absl::StatusOr<Tensor> DecodePiece(const V1Tensor& tensor, const Piece& piece, DecodeQuota* decoded) const;
  absl::Status CopyPieces(const V1Tensor& tensor, const TensorSlice& slice, absl::Span<const Piece> pieces,
                          DecodeQuota* decoded, TensorView* out) const;
  absl::StatusOr<Tensor> ReadPart(const V1Tensor& tensor, const TensorSlice& slice, DecodeQuota* decoded) const;

  std::string Place(const V1Tensor& tensor) const { return absl::StrCat(path_, ": tensor ", Quoted(tensor.name)); }
  std::string Place(const V1Tensor& tensor, const TensorSlice& slice) const {
    return absl::StrCat(Place(tensor), ", piece \"", slice.ToString(), "\"");
  }

  const std::string path_;
  const std::unique_ptr<TableReader> table_;
  const std::vector<V1Tensor> tensors_;  // by name
  const CheckpointReaderOptions options_;
  DecodeOptions decode_options_;
};

absl::Status NotStored() { return absl::DataLossError("is listed, but not stored"); }

CheckpointEntry EntryOf(const V1Tensor& tensor) {
  CheckpointEntry entry;
  entry.name = tensor.name;
  entry.dtype = tensor.pieces.dtype();
  entry.shape = tensor.pieces.shape();
  const std::vector<TensorSliceSet::Part>& parts = tensor.pieces.parts();
  if (parts.size() > 1 || !tensor.pieces.IsComplete()) {
    entry.form = EntryForm::kSliced;
    for (const TensorSliceSet::Part& part : parts) entry.slices.push_back(part.slice);
  }
  return entry;
}

// ---- The list -------------------------------------------------------------------------------------------------------

absl::StatusOr<const V1Tensor*> V1Reader::Locate(absl::string_view name) const {
  const auto found =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const V1Tensor& tensor, absl::string_view wanted) { return tensor.name < wanted; });
  if (found != tensors_.end() && found->name == name) return &*found;
  return absl::NotFoundError(absl::StrCat(path_, ": no tensor ", Quoted(name)));
}

// The keys of pieces are sorted by name, and those of one name are in the order of PiecesOf. So one walk over the table
// meets the pieces in the order of the list. Errors: DataLoss for a key that is not listed; those of the table; those
// of visit.
absl::Status V1Reader::ForEachPiece(PieceVisitor visit) const {
  size_t tensor = 0;
  size_t next = 0;
  std::vector<Piece> pieces;
  const auto load = [&] {
    if (tensor < tensors_.size()) pieces = PiecesOf(tensors_[tensor].name, tensors_[tensor].pieces.parts());
  };
  const auto advance = [&] {
    if (++next < pieces.size()) return;
    next = 0;
    ++tensor;
    load();
  };
  load();
  CASK_RETURN_IF_ERROR(table_->ForEach([&](absl::string_view key, absl::string_view value) -> absl::Status {
    if (key.empty()) return absl::OkStatus();  // the list
    while (tensor < tensors_.size() && pieces[next].key < key) {
      CASK_RETURN_IF_ERROR(visit(tensor, pieces[next].slice, std::nullopt));
      advance();
    }
    if (tensor == tensors_.size() || pieces[next].key != key) {
      return absl::DataLossError(
          absl::StrCat(path_, ": key ", Quoted(key), " is not that of a piece that the file lists"));
    }
    CASK_RETURN_IF_ERROR(visit(tensor, pieces[next].slice, value));
    advance();
    return absl::OkStatus();
  }));
  for (; tensor < tensors_.size(); advance()) {
    CASK_RETURN_IF_ERROR(visit(tensor, pieces[next].slice, std::nullopt));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CheckpointEntry>> V1Reader::entries() const {
  std::vector<CheckpointEntry> found;
  found.reserve(tensors_.size());
  for (const V1Tensor& tensor : tensors_) found.push_back(EntryOf(tensor));
  CASK_RETURN_IF_ERROR(
      ForEachPiece([&](size_t tensor, const TensorSlice& slice, std::optional<absl::string_view> value) {
        if (!value.has_value()) return Annotate(NotStored(), Place(tensors_[tensor], slice));
        found[tensor].stored_bytes += value->size();
        return absl::OkStatus();
      }));
  return found;
}

absl::StatusOr<CheckpointEntry> V1Reader::Find(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const V1Tensor* tensor, Locate(name));
  CheckpointEntry entry = EntryOf(*tensor);
  for (const Piece& piece : PiecesOf(name, tensor->pieces.parts())) {
    CASK_RETURN_IF_ERROR(VisitPiece(*tensor, piece, [&entry](absl::string_view value) {
      entry.stored_bytes += value.size();
      return absl::OkStatus();
    }));
  }
  return entry;
}

absl::StatusOr<TensorMetadata> V1Reader::Metadata(absl::string_view name) const {
  CASK_RETURN_IF_ERROR(Locate(name).status());
  return TensorMetadata();
}

// ---- Values ---------------------------------------------------------------------------------------------------------

absl::Status V1Reader::VisitPiece(const V1Tensor& tensor, const Piece& piece,
                                  absl::FunctionRef<absl::Status(absl::string_view)> fn) const {
  absl::Status wrong;  // in the value; errors of the table already name the file
  CASK_ASSIGN_OR_RETURN(const bool found, table_->Visit(piece.key, [&](absl::string_view value) {
    wrong = fn(value);
    return absl::OkStatus();
  }));
  if (!found) wrong = NotStored();
  return wrong.ok() ? wrong : Annotate(wrong, Place(tensor, piece.slice));
}

// The pieces that have elements of `slice`, which has shape `shape`. Charges *decoded with the elements, but not with
// the characters of strings. Errors: DataLoss if some elements are in no piece; those of *decoded.
absl::StatusOr<std::vector<Piece>> V1Reader::PiecesFor(const V1Tensor& tensor, const TensorSlice& slice,
                                                       const TensorShape& shape, DecodeQuota* decoded) const {
  CASK_ANNOTATE_IF_ERROR(decoded->Charge(DecodedSize(tensor.pieces.dtype(), shape.num_elements(), /*stored_bytes=*/0)),
                         Place(tensor));
  absl::StatusOr<std::vector<TensorSliceSet::Part>> parts = tensor.pieces.Query(slice);
  if (absl::IsNotFound(parts.status())) {
    return absl::DataLossError(
        absl::StrCat(Place(tensor), ": ", parts.status().message(), " (of a set of files, another may have them)"));
  }
  if (!parts.ok()) return Annotate(parts.status(), Place(tensor));
  return PiecesOf(tensor.name, *parts);
}

absl::StatusOr<Tensor> V1Reader::DecodePiece(const V1Tensor& tensor, const Piece& piece, DecodeQuota* decoded) const {
  Tensor values;
  CASK_RETURN_IF_ERROR(VisitPiece(tensor, piece, [&](absl::string_view value) -> absl::Status {
    if (tensor.pieces.dtype() == DType::kString) CASK_RETURN_IF_ERROR(decoded->Charge(value.size()));
    CASK_ASSIGN_OR_RETURN(values, DecodeV1Piece(value, tensor, piece.slice, decode_options_));
    return absl::OkStatus();
  }));
  return values;
}

// Fills *out, which is `slice`, from the pieces that PiecesFor gives.
absl::Status V1Reader::CopyPieces(const V1Tensor& tensor, const TensorSlice& slice, absl::Span<const Piece> pieces,
                                  DecodeQuota* decoded, TensorView* out) const {
  for (const Piece& piece : pieces) {
    CASK_ASSIGN_OR_RETURN(const Tensor values, DecodePiece(tensor, piece, decoded));
    const std::optional<TensorSlice> common = piece.slice.Intersect(slice);
    if (!common.has_value()) continue;
    CASK_ASSIGN_OR_RETURN(const TensorSlice in_piece, common->ComputeRelative(piece.slice));
    CASK_ASSIGN_OR_RETURN(const TensorSlice in_out, common->ComputeRelative(slice));
    CASK_ASSIGN_OR_RETURN(const TensorView from, Narrowed(values, in_piece));
    CASK_ASSIGN_OR_RETURN(TensorView to, Narrowed(*out, in_out));
    CASK_ANNOTATE_IF_ERROR(Copy(from, &to), Place(tensor, piece.slice));
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> V1Reader::ReadPart(const V1Tensor& tensor, const TensorSlice& slice,
                                          DecodeQuota* decoded) const {
  CASK_ASSIGN_OR_ANNOTATE(const TensorShape shape, slice.Apply(tensor.pieces.shape()), Place(tensor));
  CASK_ASSIGN_OR_RETURN(const std::vector<Piece> pieces, PiecesFor(tensor, slice, shape, decoded));
  if (pieces.size() == 1) {
    CASK_ASSIGN_OR_RETURN(const TensorShape piece_shape, pieces[0].slice.Apply(tensor.pieces.shape()));
    // The piece has the shape of the slice, so it is the slice.
    if (piece_shape == shape) return DecodePiece(tensor, pieces[0], decoded);
  }
  // The size of the tensor is only a claim until its values have been checked.
  for (const Piece& piece : pieces) {
    CASK_RETURN_IF_ERROR(VisitPiece(tensor, piece, [&](absl::string_view value) {
      return CheckV1Piece(value, tensor, piece.slice, options_.limits);
    }));
  }
  CASK_ASSIGN_OR_ANNOTATE(Tensor out, Tensor::Create(tensor.pieces.dtype(), shape, options_.allocator), Place(tensor));
  TensorView view = out;
  CASK_RETURN_IF_ERROR(CopyPieces(tensor, slice, pieces, decoded, &view));
  return out;
}

absl::StatusOr<Tensor> V1Reader::ReadSlice(absl::string_view name, const TensorSlice& slice,
                                           bool /*verify_whole*/) const {
  CASK_ASSIGN_OR_RETURN(const V1Tensor* tensor, Locate(name));
  DecodeQuota decoded = DecodeQuota::ForFile(options_.limits);
  return ReadPart(*tensor, slice, &decoded);
}

absl::Status V1Reader::ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out,
                                     bool /*verify_whole*/) const {
  CASK_ASSIGN_OR_RETURN(const V1Tensor* tensor, Locate(name));
  CASK_ASSIGN_OR_ANNOTATE(const TensorShape shape, slice.Apply(tensor->pieces.shape()), Place(*tensor));
  if (out->dtype() != tensor->pieces.dtype() || out->dims() != shape.dims()) {
    return absl::InvalidArgumentError(absl::StrCat(Place(*tensor), ": is ", DTypeName(tensor->pieces.dtype()), " ",
                                                   shape.ToString(), " there; the view to fill is ", out->ToString()));
  }
  DecodeQuota decoded = DecodeQuota::ForFile(options_.limits);
  CASK_ASSIGN_OR_RETURN(const std::vector<Piece> pieces, PiecesFor(*tensor, slice, shape, &decoded));
  return internal::FillThroughHost(
      out, [&](TensorView* target) { return CopyPieces(*tensor, slice, pieces, &decoded, target); });
}

absl::StatusOr<Tensor> V1Reader::Read(absl::string_view name, DecodeQuota* decoded) const {
  CASK_ASSIGN_OR_RETURN(const V1Tensor* tensor, Locate(name));
  return ReadPart(*tensor, TensorSlice::Full(tensor->pieces.shape().rank()), decoded);
}

absl::StatusOr<DecodedTensor> V1Reader::ReadWithMetadata(absl::string_view name) const {
  DecodeQuota decoded = DecodeQuota::ForFile(options_.limits);
  CASK_ASSIGN_OR_RETURN(const Tensor tensor, Read(name, &decoded));
  return DecodedTensor{tensor, TensorMetadata()};
}

absl::Status V1Reader::ReadInto(absl::string_view name, TensorView* out) const {
  CASK_ASSIGN_OR_RETURN(const V1Tensor* tensor, Locate(name));
  return ReadSliceInto(name, TensorSlice::Full(tensor->pieces.shape().rank()), out, /*verify_whole=*/false);
}

// ---- Everything -----------------------------------------------------------------------------------------------------

absl::StatusOr<CheckpointCounts> V1Reader::VerifyAll(BundleVerifier /*verify_bundle*/,
                                                     absl::FunctionRef<void(const CheckpointDamage&)> report) const {
  std::vector<bool> is_whole(tensors_.size(), true);
  const auto damaged = [&](size_t tensor, absl::Status status) {
    is_whole[tensor] = false;
    report({tensors_[tensor].name, path_, 0, std::move(status)});
  };
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const TensorSliceSet& pieces = tensors_[i].pieces;
    if (pieces.IsComplete()) continue;
    damaged(i, absl::DataLossError(absl::StrCat(Place(tensors_[i]), ": the file lists pieces of ",
                                                DTypeName(pieces.dtype()), " ", pieces.shape().ToString(),
                                                " that are not all of it (of a set of files, another may have them)")));
  }
  const absl::Status walked =
      ForEachPiece([&](size_t tensor, const TensorSlice& slice, std::optional<absl::string_view> value) {
        const absl::Status status =
            value.has_value() ? CheckV1Piece(*value, tensors_[tensor], slice, options_.limits) : NotStored();
        if (!status.ok()) damaged(tensor, Annotate(status, Place(tensors_[tensor], slice)));
        return absl::OkStatus();
      });
  if (absl::IsDataLoss(walked) || (absl::IsResourceExhausted(walked) && !IsResourceFailure(walked))) {
    report({"", path_, 0, walked});
    return CheckpointCounts();
  }
  CASK_RETURN_IF_ERROR(walked);
  CheckpointCounts counts;
  counts.whole = std::count(is_whole.begin(), is_whole.end(), true);
  return counts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReaderImpl>> OpenV1Checkpoint(std::shared_ptr<const ByteSource> file,
                                                             const CheckpointReaderOptions& options) {
  const std::string path = file->name();
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<TableReader> table, TableReader::Open(std::move(file), options.limits));
  std::vector<V1Tensor> tensors;
  absl::Status wrong;
  CASK_ASSIGN_OR_RETURN(const bool found, table->Visit("", [&](absl::string_view value) {
    absl::StatusOr<std::vector<V1Tensor>> decoded = DecodeV1Meta(value, options.limits, table->memory());
    if (decoded.ok()) {
      tensors = *std::move(decoded);
    } else {
      wrong = Annotate(decoded.status(), path);
    }
    return absl::OkStatus();
  }));
  if (!found) return absl::DataLossError(absl::StrCat(path, ": has no list of tensors"));
  CASK_RETURN_IF_ERROR(wrong);
  return std::unique_ptr<ReaderImpl>(std::make_unique<V1Reader>(path, std::move(table), std::move(tensors), options));
}

}  // namespace tensorcask::checkpoint
