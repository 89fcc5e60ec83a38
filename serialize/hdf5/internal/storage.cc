#include "tensorcask/serialize/hdf5/internal/storage.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/hdf5/internal/btree.h"
#include "tensorcask/serialize/hdf5/internal/cursor.h"
#include "tensorcask/serialize/hdf5/internal/fixed_array.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::hdf5 {
namespace {

constexpr uint64_t kMaxChunkBytes = std::numeric_limits<uint32_t>::max();

// "the filter 32000" or its name.
std::string FilterName(uint64_t id) {
  switch (id) {
    case 3:
      return "fletcher32";
    case 4:
      return "szip";
    case 5:
      return "nbit";
    case 6:
      return "scaleoffset";
    case 32000:
      return "lzf";
    default:
      return absl::StrCat("number ", id);
  }
}

class StorageReader {
 public:
  StorageReader(const TensorShape& shape, uint64_t element_bytes, ListingBudget* listing, File* file)
      : shape_(shape), element_bytes_(element_bytes), listing_(listing), file_(file) {}

  absl::StatusOr<Storage> Read(const std::vector<Message>& header) {
    if (Find(header, MessageType::kExternalFiles) != nullptr) {
      return absl::UnimplementedError("its elements are in other files, which are not read");
    }
    CASK_RETURN_IF_ERROR(ReadFill(header));
    if (const Message* const filters = Find(header, MessageType::kFilters)) {
      if (filters->is_shared) return absl::UnimplementedError("has filters that other datasets share");
      CASK_RETURN_IF_ERROR(ReadFilters(filters->body));
    }
    const Message* const layout = Find(header, MessageType::kLayout);
    if (layout == nullptr) return absl::DataLossError("has no layout");
    CASK_RETURN_IF_ERROR(ReadLayout(*layout));
    return std::move(storage_);
  }

 private:
  uint64_t total_bytes() const { return static_cast<uint64_t>(shape_.num_elements()) * element_bytes_; }

  // ---- Fill value ---------------------------------------------------------------------------------------------------

  absl::Status ReadFill(const std::vector<Message>& header) {
    if (const Message* const fill = Find(header, MessageType::kFillValue)) {
      if (fill->is_shared) return absl::UnimplementedError("has a fill value that other datasets share");
      Cursor in(fill->body);
      const uint64_t version = in.Uint(1);
      bool is_defined = false;
      if (version == 1 || version == 2) {
        in.Skip(2);
        is_defined = in.Uint(1) != 0 || version == 1;
      } else if (version == 3) {
        is_defined = (in.Uint(1) & 0x20) != 0;
      } else {
        return absl::UnimplementedError(absl::StrCat("has a fill value of version ", version, "; 1 to 3 are read"));
      }
      return is_defined ? SetFill(&in) : absl::OkStatus();
    }
    if (const Message* const fill = Find(header, MessageType::kOldFillValue)) {
      Cursor in(fill->body);
      return SetFill(&in);
    }
    return absl::OkStatus();
  }

  absl::Status SetFill(Cursor* in) {
    const uint64_t size = in->Uint(4);
    const absl::string_view value = in->Bytes(size);
    if (!in->ok()) return CutShort("its fill value");
    if (size == 0 || size == std::numeric_limits<uint32_t>::max()) return absl::OkStatus();
    if (size != element_bytes_) {
      return absl::DataLossError(absl::StrCat("has a fill value of ", size, " bytes for elements of ", element_bytes_));
    }
    const bool is_zero = std::all_of(value.begin(), value.end(), [](char c) { return c == 0; });
    if (!is_zero) storage_.fill = std::string(value);
    return absl::OkStatus();
  }

  // ---- Filters ------------------------------------------------------------------------------------------------------

  absl::Status ReadFilters(absl::string_view body) {
    constexpr uint64_t kMaxFilters = 32;
    constexpr uint64_t kFirstWithName = 256;  // in version 2
    Cursor in(body);
    const uint64_t version = in.Uint(1);
    const uint64_t count = in.Uint(1);
    if (in.ok() && version != 1 && version != 2) {
      return absl::UnimplementedError(absl::StrCat("has filters of version ", version, "; 1 and 2 are read"));
    }
    if (count > kMaxFilters)
      return absl::DataLossError(absl::StrCat("has ", count, " filters; ", kMaxFilters, " are possible"));
    if (version == 1) in.Skip(6);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t id = in.Uint(2);
      const uint64_t name_bytes = version == 1 || id >= kFirstWithName ? in.Uint(2) : 0;
      in.Skip(2);  // flags
      const uint64_t values = in.Uint(2);
      in.Skip(version == 1 ? (name_bytes + 7) / 8 * 8 : name_bytes);
      AppliedFilter filter;
      for (uint64_t value = 0; value < values; ++value) {
        const uint64_t number = in.Uint(4);
        if (value == 0) filter.element_bytes = number;
      }
      if (version == 1 && values % 2 != 0) in.Skip(4);
      if (!in.ok()) return CutShort("its list of filters");
      if (id != static_cast<uint64_t>(Filter::kDeflate) && id != static_cast<uint64_t>(Filter::kShuffle)) {
        return absl::UnimplementedError(
            absl::StrCat("is stored with the filter ", FilterName(id), "; deflate (gzip) and shuffle are read"));
      }
      filter.filter = static_cast<Filter>(id);
      if (filter.filter == Filter::kShuffle && filter.element_bytes == 0) filter.element_bytes = element_bytes_;
      storage_.filters.push_back(filter);
    }
    return absl::OkStatus();
  }

  // ---- Layout -------------------------------------------------------------------------------------------------------

  absl::Status ReadLayout(const Message& message) {
    if (message.is_shared) return absl::UnimplementedError("has a layout that other datasets share");
    Cursor in(message.body);
    const uint64_t version = in.Uint(1);
    if (in.ok() && (version < 3 || version > 5)) {
      return absl::UnimplementedError(absl::StrCat("has a layout of version ", version, "; 3 to 5 are read"));
    }
    const uint64_t layout_class = in.Uint(1);
    absl::Status status;
    switch (layout_class) {
      case 0:
        status = ReadCompact(message, &in);
        break;
      case 1:
        status = ReadContiguous(&in);
        break;
      case 2:
        status = version == 3 ? ReadChunks3(&in) : ReadChunks4(&in);
        break;
      case 3:
        return absl::UnimplementedError("is a virtual dataset, whose elements are in others, which are not read");
      default:
        return absl::DataLossError(absl::StrCat("has a layout of the class ", layout_class));
    }
    if (!in.ok()) return CutShort("its layout");
    return status;
  }

  absl::Status CheckPlain(uint64_t size) const {
    if (!storage_.filters.empty()) return absl::DataLossError("has filters without chunks");
    if (size == total_bytes()) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat("has ", size, " bytes; the shape ", shape_.ToString(), " needs ", total_bytes()));
  }

  absl::Status ReadCompact(const Message& message, Cursor* in) {
    storage_.form = Storage::Form::kPlain;
    storage_.stored_bytes = in->Uint(2);
    storage_.position = message.position + in->position();
    in->Skip(storage_.stored_bytes);
    return CheckPlain(storage_.stored_bytes);
  }

  absl::Status ReadContiguous(Cursor* in) {
    const uint64_t address = file_->Address(in);
    const uint64_t size = file_->Length(in);
    if (!in->ok()) return absl::OkStatus();  // the caller says so
    if (address == kUndefined) {
      storage_.missing_bytes = total_bytes();
      return absl::OkStatus();
    }
    CASK_RETURN_IF_ERROR(CheckPlain(size));
    storage_.form = Storage::Form::kPlain;
    storage_.stored_bytes = size;
    CASK_ASSIGN_OR_RETURN(storage_.position, file_->Position(address, size));
    return absl::OkStatus();
  }

  // ---- Chunks -------------------------------------------------------------------------------------------------------

  uint64_t chunk_bytes() const { return chunk_bytes_; }

  // The sizes of a chunk, of which the last is that of an element.
  absl::Status SetChunkDims(const std::vector<uint64_t>& dims) {
    if (dims.size() != static_cast<size_t>(shape_.rank()) + 1) {
      return absl::DataLossError(
          absl::StrCat("has chunks of ", dims.size(), " sizes for ", shape_.rank(), " axes and the elements"));
    }
    if (dims.back() != element_bytes_) {
      return absl::DataLossError(
          absl::StrCat("has chunks with elements of ", dims.back(), " bytes, not of ", element_bytes_));
    }
    storage_.form = Storage::Form::kChunks;
    chunk_bytes_ = element_bytes_;
    for (int axis = 0; axis < shape_.rank(); ++axis) {
      const uint64_t dim = dims[static_cast<size_t>(axis)];
      if (dim == 0 || dim > kMaxChunkBytes / chunk_bytes_) {
        return absl::DataLossError(absl::StrCat("has chunks of ", absl::StrJoin(dims, "x"), " bytes"));
      }
      chunk_bytes_ *= dim;
      storage_.chunk_dims.push_back(static_cast<int64_t>(dim));
      const auto size = static_cast<uint64_t>(shape_.dim(axis));
      storage_.grid.push_back(static_cast<int64_t>((size + dim - 1) / dim));
    }
    return absl::OkStatus();
  }

  absl::Status AddChunk(Chunk chunk, uint64_t address) {
    // What zlib makes of a byte at most.
    constexpr uint64_t kMaxDeflateRatio = 1032;
    const uint64_t all = storage_.filters.empty() ? 0 : (uint64_t{1} << storage_.filters.size()) - 1;
    const bool is_deflated = [&] {
      for (size_t i = 0; i < storage_.filters.size(); ++i) {
        const bool is_skipped = (chunk.skipped_filters >> i & 1) != 0;
        if (storage_.filters[i].filter == Filter::kDeflate && !is_skipped) return true;
      }
      return false;
    }();
    if ((chunk.skipped_filters & ~all) != 0)
      return absl::DataLossError("has a chunk without filters that there are not");
    if (is_deflated ? chunk.stored_bytes == 0 || chunk_bytes() / kMaxDeflateRatio > chunk.stored_bytes
                    : chunk.stored_bytes != chunk_bytes()) {
      return absl::DataLossError(absl::StrCat("has a chunk of ", chunk.stored_bytes, " bytes, which cannot be ",
                                              chunk_bytes(), " bytes of elements"));
    }
    CASK_ASSIGN_OR_RETURN(chunk.position, file_->Position(address, chunk.stored_bytes));
    CASK_RETURN_IF_ERROR(listing_->Charge(sizeof(Chunk)));
    storage_.stored_bytes += chunk.stored_bytes;
    storage_.chunks.push_back(chunk);
    return absl::OkStatus();
  }

  absl::Status ReadChunks3(Cursor* in) {
    const uint64_t sizes = in->Uint(1);
    const uint64_t tree = file_->Address(in);
    std::vector<uint64_t> dims;
    for (uint64_t i = 0; i < sizes; ++i) dims.push_back(in->Uint(4));
    if (!in->ok()) return absl::OkStatus();  // the caller says so
    CASK_RETURN_IF_ERROR(SetChunkDims(dims));
    CASK_RETURN_IF_ERROR(WalkBTree(tree, BTreeKind::kChunks, 4 + 4 + 8 * sizes, file_,
                                   [&](absl::string_view key, uint64_t child) { return AddChunkOfTree(key, child); }));
    return FinishChunks();
  }

  absl::Status AddChunkOfTree(absl::string_view key, uint64_t address) {
    Cursor in(key);
    Chunk chunk;
    chunk.stored_bytes = in.Uint(4);
    chunk.skipped_filters = static_cast<uint32_t>(in.Uint(4));
    for (size_t axis = 0; axis < storage_.grid.size(); ++axis) {
      const uint64_t start = in.Uint(8);
      const auto dim = static_cast<uint64_t>(storage_.chunk_dims[axis]);
      const auto count = static_cast<uint64_t>(storage_.grid[axis]);
      if (start % dim != 0 || start / dim >= count) {
        return absl::DataLossError(
            absl::StrCat("has a chunk that begins at ", start, " of axis ", axis, ", which has no chunk there"));
      }
      chunk.number = chunk.number * count + start / dim;  // below the elements of the shape
    }
    return AddChunk(chunk, address);
  }

  absl::Status ReadChunks4(Cursor* in) {
    constexpr uint64_t kSingle = 1;
    constexpr uint64_t kImplicit = 2;
    constexpr uint64_t kFixedArray = 3;
    const uint64_t flags = in->Uint(1);
    const uint64_t sizes = in->Uint(1);
    const uint64_t size_bytes = in->Uint(1);
    if (size_bytes < 1 || size_bytes > 8) return absl::DataLossError("has chunks with sizes of no bytes");
    std::vector<uint64_t> dims;
    for (uint64_t i = 0; i < sizes; ++i) dims.push_back(in->Uint(static_cast<int>(size_bytes)));
    const uint64_t index = in->Uint(1);
    if (!in->ok()) return absl::OkStatus();  // the caller says so
    CASK_RETURN_IF_ERROR(SetChunkDims(dims));
    const bool has_elements = shape_.num_elements() > 0;
    if (index == kSingle) {
      Chunk chunk;
      chunk.stored_bytes = chunk_bytes();
      if ((flags & 2) != 0) {
        chunk.stored_bytes = file_->Length(in);
        chunk.skipped_filters = static_cast<uint32_t>(in->Uint(4));
      }
      const uint64_t address = file_->Address(in);
      for (const int64_t count : storage_.grid) {
        if (count > 1) return absl::DataLossError("has one chunk that does not reach to its end");
      }
      if (in->ok() && address != kUndefined && has_elements) CASK_RETURN_IF_ERROR(AddChunk(chunk, address));
      return FinishChunks();
    }
    if (index == kImplicit) {
      const uint64_t address = file_->Address(in);
      if (!in->ok()) return absl::OkStatus();  // the caller says so
      uint64_t count = 1;
      for (const int64_t along : storage_.grid) count *= static_cast<uint64_t>(along);  // at most the elements
      const std::optional<uint64_t> bytes = CheckedMul(count, chunk_bytes());
      if (!bytes) return absl::DataLossError("has chunks of more than 2^64 bytes");
      if (address == kUndefined) return FinishChunks();
      CASK_RETURN_IF_ERROR(file_->Position(address, *bytes).status());
      for (uint64_t number = 0; number < count; ++number) {
        Chunk chunk;
        chunk.number = number;
        chunk.stored_bytes = chunk_bytes();
        CASK_RETURN_IF_ERROR(AddChunk(chunk, address + number * chunk_bytes()));
      }
      return FinishChunks();
    }
    if (index == kFixedArray) return ReadFixedArray(in);
    return absl::UnimplementedError(
        absl::StrCat("finds its chunks by ",
                     index == 4   ? "an extensible array"
                     : index == 5 ? "a B-tree of version 2"
                                  : "an index that is not known",
                     ", which is not read; h5py writes what is read without libver=\"latest\""));
  }

  absl::Status ReadFixedArray(Cursor* in) {
    in->Skip(1);  // the bits of pages, which the array repeats
    const uint64_t address = file_->Address(in);
    if (!in->ok()) return absl::OkStatus();  // the caller says so
    uint64_t count = 1;
    for (const int64_t along : storage_.grid) count *= static_cast<uint64_t>(along);  // at most the elements
    if (address == kUndefined || count == 0) return FinishChunks();
    const bool has_filters = !storage_.filters.empty();
    const auto add = [&](uint64_t number, absl::string_view element) -> absl::Status {
      Cursor of(element);
      Chunk chunk;
      chunk.number = number;
      const uint64_t at = file_->Address(&of);
      chunk.stored_bytes = chunk_bytes();
      if (has_filters) {
        chunk.stored_bytes = of.Uint(static_cast<int>(of.left() - sizeof(uint32_t)));
        chunk.skipped_filters = static_cast<uint32_t>(of.Uint(sizeof(uint32_t)));
      }
      return at == kUndefined ? absl::OkStatus() : AddChunk(chunk, at);
    };
    CASK_RETURN_IF_ERROR(ForEachElement(address, count, has_filters, file_, add));
    return FinishChunks();
  }

  // The size of a chunk, without what reaches past the shape.
  uint64_t BytesInShape(uint64_t number) const {
    uint64_t bytes = element_bytes_;
    for (size_t axis = storage_.grid.size(); axis-- > 0;) {
      const auto count = static_cast<uint64_t>(storage_.grid[axis]);
      const auto dim = static_cast<uint64_t>(storage_.chunk_dims[axis]);
      const auto size = static_cast<uint64_t>(shape_.dim(static_cast<int>(axis)));
      bytes *= std::min(dim, size - number % count * dim);
      number /= count;
    }
    return bytes;
  }

  absl::Status FinishChunks() {
    std::vector<Chunk>& chunks = storage_.chunks;
    std::sort(chunks.begin(), chunks.end(), [](const Chunk& a, const Chunk& b) { return a.number < b.number; });
    for (size_t i = 1; i < chunks.size(); ++i) {
      if (chunks[i].number == chunks[i - 1].number) return absl::DataLossError("has one chunk twice");
    }
    storage_.missing_bytes = total_bytes();
    for (const Chunk& chunk : chunks) storage_.missing_bytes -= BytesInShape(chunk.number);
    return absl::OkStatus();
  }

  const TensorShape& shape_;
  const uint64_t element_bytes_;
  ListingBudget* const listing_;
  File* const file_;
  Storage storage_;
  uint64_t chunk_bytes_ = 0;  // the size of a chunk without filters
};

}  // namespace

absl::StatusOr<Storage> ReadStorage(const std::vector<Message>& header, const TensorShape& shape,
                                    uint64_t element_bytes, ListingBudget* listing, File* file) {
  return StorageReader(shape, element_bytes, listing, file).Read(header);
}

}  // namespace tensorcask::hdf5
