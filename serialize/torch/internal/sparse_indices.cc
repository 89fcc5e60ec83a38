#include "tensorcask/serialize/torch/internal/sparse_indices.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/torch/internal/stored_tensors.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::torch {
namespace {

using Dims = absl::Span<const int64_t>;

constexpr int64_t kIndicesOfBlock = int64_t{1} << 16;

std::string DimsText(Dims dims) { return absl::StrCat("[", absl::StrJoin(dims, ","), "]"); }

// "[1,5]": where element `number` of a row-major tensor is.
std::string PositionText(Dims dims, int64_t number) {
  std::vector<int64_t> position(dims.size());
  for (size_t axis = dims.size(); axis > 0; --axis) {
    position[axis - 1] = number % dims[axis - 1];
    number /= dims[axis - 1];
  }
  return DimsText(position);
}

absl::Status CheckDType(const TensorPlace& place) {
  if (place.dtype == DType::kInt32 || place.dtype == DType::kInt64) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("has the dtype ", DTypeName(place.dtype), "; indices are int32 or int64"));
}

// Requires: CheckDType accepts the dtype.
int64_t IndexAt(const Tensor& tensor, int64_t i) {
  return tensor.dtype() == DType::kInt32 ? int64_t{tensor.data<int32_t>()[i]} : tensor.data<int64_t>()[i];
}

// The end of a message: of which tensor the indices are.
std::string OfSparse(Dims size) { return absl::StrCat(" for a sparse tensor ", DimsText(size)); }

absl::Status WrongShape(Dims found, absl::string_view wanted, Dims values, Dims size) {
  return absl::DataLossError(absl::StrCat("has the shape ", DimsText(found), "; wanted ", wanted, " for the values ",
                                          DimsText(values), " of a ", "sparse tensor ", DimsText(size)));
}

absl::Status WrongIndex(absl::string_view position, int64_t found, int64_t least, int64_t end, Dims size) {
  return absl::DataLossError(absl::StrCat("index ", position, " is ", found, "; wanted ",
                                          end <= least       ? "none"
                                          : end == least + 1 ? absl::StrCat(least)
                                                             : absl::StrCat(least, " to ", end - 1),
                                          OfSparse(size)));
}

// ---- Coordinates ----------------------------------------------------------------------------------------------------

// A row of `indices` for each sparse axis, a column for each element. Coalesced: the columns ascend.
absl::Status CheckCoordinates(const TensorPlace& indices, Dims values, Dims size, bool is_coalesced,
                              const IndexReader& read) {
  const Layout& layout = indices.layout;
  CASK_RETURN_IF_ERROR(CheckDType(indices));
  const bool fits = layout.rank() == 2 && !values.empty() && values[0] == layout.dims()[1] &&
                    static_cast<uint64_t>(layout.dims()[0]) + values.size() - 1 == size.size() &&
                    values.subspan(1) == size.subspan(static_cast<size_t>(layout.dims()[0]));
  if (!fits) return WrongShape(layout.dims(), "[sparse axes, number of values]", values, size);
  const int64_t num_axes = layout.dims()[0];
  const int64_t count = layout.dims()[1];
  if (num_axes == 0) return absl::OkStatus();
  std::vector<int64_t> column(static_cast<size_t>(num_axes));
  std::vector<int64_t> before(column.size());
  for (int64_t begin = 0; begin < count;) {
    const int64_t width = std::min(std::max<int64_t>(1, kIndicesOfBlock / num_axes), count - begin);
    CASK_ASSIGN_OR_RETURN(const TensorSlice slice, TensorSlice::Create({TensorSlice::Extent{}, {begin, width}}));
    CASK_ASSIGN_OR_RETURN(const Tensor block, read(layout, slice));
    for (int64_t i = 0; i < width; ++i) {
      for (int64_t axis = 0; axis < num_axes; ++axis) {
        const int64_t index = IndexAt(block, axis * width + i);
        const int64_t end = size[static_cast<size_t>(axis)];
        if (index < 0 || index >= end) return WrongIndex(DimsText({axis, begin + i}), index, 0, end, size);
        column[static_cast<size_t>(axis)] = index;
      }
      if (!is_coalesced) continue;
      if (begin + i > 0 && !(before < column)) {
        return absl::DataLossError(absl::StrCat("column ", begin + i, " is ", DimsText(column), " after ",
                                                DimsText(before), "; the columns of a coalesced tensor ascend"));
      }
      before.swap(column);
    }
    begin += width;
  }
  return absl::OkStatus();
}

// ---- Compressed -----------------------------------------------------------------------------------------------------

// The indices of a tensor one after the other, row-major.
class Indices {
 public:
  // Both outlive this.
  Indices(const Layout& layout, const IndexReader& read) : read_(read), layout_(layout) {
    const bool has_axis = layout.rank() == 1 || layout.num_elements() == 0;
    if (has_axis || !layout.IsContiguous()) return;
    const absl::StatusOr<Layout> flat = Layout::Create({layout.num_elements()}, {1}, layout.offset());
    if (flat.ok()) layout_ = *flat;
  }

  // Requires: there are more.
  absl::Status Next(int64_t* index) {
    if (next_ == in_block_) CASK_RETURN_IF_ERROR(ReadBlock());
    *index = IndexAt(block_, next_++);
    return absl::OkStatus();
  }

 private:
  absl::Status ReadBlock() {
    TensorSlice slice = TensorSlice::Full(layout_.rank());
    in_block_ = layout_.num_elements();
    if (layout_.rank() == 1) {
      in_block_ = std::min(kIndicesOfBlock, layout_.num_elements() - read_before_);
      CASK_ASSIGN_OR_RETURN(slice, TensorSlice::Create({TensorSlice::Extent{read_before_, in_block_}}));
    }
    CASK_ASSIGN_OR_RETURN(block_, read_(layout_, slice));
    read_before_ += in_block_;
    next_ = 0;
    return absl::OkStatus();
  }

  const IndexReader& read_;
  Layout layout_;
  Tensor block_;
  int64_t read_before_ = 0;
  int64_t in_block_ = 0;
  int64_t next_ = 0;
};

// What the shapes of a compressed tensor say.
struct Compression {
  int64_t num_matrices = 1;
  int64_t num_rows = 0;     // or columns, or those of blocks: the axis that is compressed
  int64_t num_columns = 0;  // the other axis
  int64_t count = 0;        // values of a matrix
};

// nullopt if they do not fit together: batches, two axes of a matrix, dense axes.
std::optional<Compression> Compare(absl::string_view layout, Dims compressed, Dims plain, Dims values, Dims size) {
  const bool has_blocks = layout == "torch.sparse_bsr" || layout == "torch.sparse_bsc";
  const bool by_columns = layout == "torch.sparse_csc" || layout == "torch.sparse_bsc";
  if (compressed.empty() || plain.size() != compressed.size()) return std::nullopt;
  const size_t batch = compressed.size() - 1;
  const size_t before_dense = batch + (has_blocks ? 3 : 1);  // of the values
  if (values.size() < before_dense || size.size() != batch + 2 + (values.size() - before_dense)) return std::nullopt;
  for (const Dims other : {plain, values, size}) {
    if (other.first(batch) != compressed.first(batch)) return std::nullopt;
  }
  if (values.subspan(before_dense) != size.subspan(batch + 2) || plain[batch] != values[batch]) return std::nullopt;
  int64_t of_matrix[] = {size[batch], size[batch + 1]};
  for (size_t axis = 0; has_blocks && axis < 2; ++axis) {
    const int64_t of_block = values[batch + 1 + axis];
    if (of_block == 0 || of_matrix[axis] % of_block != 0) return std::nullopt;
    of_matrix[axis] /= of_block;
  }
  Compression compression;
  compression.num_rows = of_matrix[by_columns ? 1 : 0];
  compression.num_columns = of_matrix[by_columns ? 0 : 1];
  compression.count = plain[batch];
  if (compressed[batch] - 1 != compression.num_rows) return std::nullopt;
  for (const int64_t dim : compressed.first(batch)) compression.num_matrices *= dim;
  return compression;
}

// Compressed indices begin with 0, do not fall and end with the number of values; in each row, plain ones ascend.
absl::Status CheckCompressed(const Compression& of, const TensorPlace& compressed, const TensorPlace& plain, Dims size,
                             absl::Span<const IndexReader> readers, size_t* part) {
  Indices of_rows(compressed.layout, readers[0]);
  Indices of_columns(plain.layout, readers[1]);
  int64_t row_number = 0;
  int64_t column_number = 0;
  for (int64_t matrix = 0; matrix < of.num_matrices; ++matrix) {
    int64_t begin = 0;
    for (int64_t row = 0; row <= of.num_rows; ++row, ++row_number) {
      int64_t end = 0;
      *part = 0;
      CASK_RETURN_IF_ERROR(of_rows.Next(&end));
      const int64_t least = row == of.num_rows ? of.count : begin;
      const int64_t most = row == 0 ? 0 : of.count;
      if (end < least || end > most) {
        return WrongIndex(PositionText(compressed.layout.dims(), row_number), end, least, most + 1, size);
      }
      *part = 1;
      for (int64_t before = -1; begin < end; ++begin, ++column_number) {
        int64_t column = 0;
        CASK_RETURN_IF_ERROR(of_columns.Next(&column));
        if (column <= before || column >= of.num_columns) {
          return WrongIndex(PositionText(plain.layout.dims(), column_number), column, before + 1, of.num_columns, size);
        }
        before = column;
      }
    }
  }
  return absl::OkStatus();
}

absl::string_view LayoutName(const Pickle& pickle, const PickledTensor& sparse) {
  return pickle.object(sparse.layout).text;
}

}  // namespace

size_t NumIndexParts(const Pickle& pickle, const PickledTensor& sparse) {
  const absl::string_view name = LayoutName(pickle, sparse);
  if (name == "torch.sparse_coo") return 1;
  return name == "torch.sparse_csr" || name == "torch.sparse_csc" || name == "torch.sparse_bsr" ||
                 name == "torch.sparse_bsc"
             ? 2
             : 0;
}

absl::Status CheckSparseIndices(const Pickle& pickle, const PickledTensor& sparse,
                                absl::Span<const IndexReader> readers, size_t* part) {
  *part = 0;
  const absl::Span<const Ref> parts = pickle.items(sparse.parts);
  std::vector<int64_t> size;
  for (const Ref dim : pickle.items(sparse.size)) size.push_back(pickle.object(dim).integer);
  const TensorPlace values = PlaceOf(pickle, parts[readers.size()]);
  const TensorPlace first = PlaceOf(pickle, parts[0]);
  if (readers.size() == 1) {
    const Object* const coalesced = parts.size() > 3 ? &pickle.object(parts[3]) : nullptr;
    return CheckCoordinates(first, values.layout.dims(), size,
                            coalesced != nullptr && coalesced->kind == Object::Kind::kBool && coalesced->integer != 0,
                            readers[0]);
  }
  const TensorPlace plain = PlaceOf(pickle, parts[1]);
  CASK_RETURN_IF_ERROR(CheckDType(first));
  const std::optional<Compression> compression =
      Compare(LayoutName(pickle, sparse), first.layout.dims(), plain.layout.dims(), values.layout.dims(), size);
  if (!compression.has_value()) {
    return WrongShape(first.layout.dims(), absl::StrCat("one that fits plain indices ", DimsText(plain.layout.dims())),
                      values.layout.dims(), size);
  }
  if (plain.dtype != first.dtype) {
    *part = 1;
    return absl::DataLossError(absl::StrCat("has the dtype ", DTypeName(plain.dtype), "; wanted ",
                                            DTypeName(first.dtype), ", that of the compressed indices"));
  }
  return CheckCompressed(*compression, first, plain, size, readers, part);
}

}  // namespace tensorcask::torch
