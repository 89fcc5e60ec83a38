#include "tensorcask/serialize/payload/payload_reader.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/payload/content_hash.h"
#include "tensorcask/serialize/payload/internal/chunk_reader.h"
#include "tensorcask/serialize/payload/internal/ordered_for.h"
#include "tensorcask/serialize/payload/internal/payload_index.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/row_major_range.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {
namespace {

using payload::ChunkReader;
using payload::PayloadBytes;
using payload::PayloadIndex;
using Session = payload::ChunkReader::Session;

constexpr size_t kLengthBytes = 8;
constexpr size_t kNonTemporalBytes = size_t{16} << 20;  // larger results do not stay in a cache

// Compares the lengths of strings with the number of their characters.
class LengthSum {
 public:
  explicit LengthSum(uint64_t wanted) : wanted_(wanted), rest_(wanted) {}

  void Add(absl::string_view lengths) {
    for (size_t at = 0; at < lengths.size() && !is_past_; at += kLengthBytes) {
      const auto length = LoadLittleEndian<uint64_t>(lengths.data() + at);
      is_past_ = length > rest_;
      rest_ -= is_past_ ? 0 : length;
    }
  }

  bool is_past() const { return is_past_; }  // the lengths exceed it

  absl::Status Finish() const {
    if (is_past_)
      return absl::InvalidArgumentError(absl::StrCat("strings have more than the ", wanted_, " characters"));
    if (rest_ == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("strings have ", wanted_ - rest_, " of the ", wanted_, " characters"));
  }

 private:
  const uint64_t wanted_;
  uint64_t rest_;
  bool is_past_ = false;
};

// Appends characters to successive strings as they are decoded.
class StringFiller {
 public:
  // `out` have their lengths already.
  explicit StringFiller(std::string* out) : out_(out) {}

  void Add(absl::string_view characters) {
    while (!characters.empty()) {
      const size_t count = std::min(out_->size() - at_, characters.size());
      characters.copy(&(*out_)[at_], count);
      characters.remove_prefix(count);
      at_ += count;
      if (at_ < out_->size()) return;
      ++out_;
      at_ = 0;
    }
  }

 private:
  std::string* out_;
  size_t at_ = 0;  // in *out_
};

}  // namespace

class PayloadReader::Impl {
 public:
  Impl(PayloadBytes bytes, PayloadIndex index, const PayloadReadOptions& options)
      : chunks_(std::move(bytes), std::move(index), options.verify), num_threads_(options.num_threads) {}

  static absl::StatusOr<PayloadReader> Open(PayloadBytes bytes, const PayloadReadOptions& options) {
    CASK_ASSIGN_OR_RETURN(PayloadIndex index, PayloadIndex::Read(bytes, options.limits));
    return PayloadReader(std::make_unique<Impl>(std::move(bytes), std::move(index), options));
  }

  const PayloadHeader& header() const { return chunks_.header(); }
  uint64_t chunks_decoded() const { return chunks_.chunks_decoded(); }

  absl::Status SetBase(std::shared_ptr<const BaseTensor> base);
  absl::Status SetBase(const BaseLookup* lookup, absl::string_view name);
  const BaseTensor* base() const { return base_.get(); }
  absl::Status CheckBase() const;
  // All require that CheckBase has passed.
  absl::Status ReadBytes(uint64_t begin, absl::Span<char> out) const;
  absl::Status ReadStrided(const Layout& from, TensorView* out) const;
  absl::Status ReadStrings(std::string* out) const;
  absl::Status Verify(absl::FunctionRef<void(const absl::Status& damage)> report) const;

 private:
  struct Worker {
    Session session;
    absl::string_view decoded = {};  // the last chunk
    absl::Status damage = {};        // to the last chunk
  };
  std::vector<Worker> Workers(uint64_t chunks) const;

  ChunkReader chunks_;
  const int num_threads_;
  std::shared_ptr<const BaseTensor> base_;
};

absl::Status PayloadReader::Impl::SetBase(std::shared_ptr<const BaseTensor> base) {
  if (!header().is_delta) return absl::FailedPreconditionError("the payload is not a delta, and has no base");
  const TensorView& elements = base->elements();
  if (elements.dtype() != header().dtype || static_cast<uint64_t>(elements.num_elements()) != header().num_elements) {
    return absl::FailedPreconditionError(absl::StrCat("the base is ", elements.ToString(), "; it must have ",
                                                      header().num_elements, " elements of dtype ",
                                                      DTypeName(header().dtype)));
  }
  CASK_ASSIGN_OR_RETURN(const ContentHash hash, base->Hash());
  if (hash != header().base) {
    return absl::FailedPreconditionError(absl::StrCat("the base's elements have the hash ", hash.ToString(),
                                                      "; the delta was made from elements with the hash ",
                                                      header().base.ToString()));
  }
  if (elements.num_elements() > 0) chunks_.SetBase(elements.bytes());
  base_ = std::move(base);
  return absl::OkStatus();
}

absl::Status PayloadReader::Impl::SetBase(const BaseLookup* lookup, absl::string_view name) {
  if (!header().is_delta) return absl::OkStatus();
  if (lookup == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it is stored as a delta, and no base is given (the option `base`): wanted a tensor whose hash is ",
        header().base.ToString()));
  }
  const std::string description = lookup->base_description();
  const absl::StatusOr<BaseLookup::Info> found = lookup->FindBase(name);
  if (absl::IsNotFound(found.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("it is stored as a delta, and its base, ", description, ", has no tensor of its name"));
  }
  CASK_RETURN_IF_ERROR(found.status());
  if (found->is_delta) {
    return absl::FailedPreconditionError(
        absl::StrCat("it is stored as a delta, and so is the tensor of its name in its base, ", description));
  }
  if (found->dtype != header().dtype || static_cast<uint64_t>(found->shape.num_elements()) != header().num_elements) {
    return absl::FailedPreconditionError(
        absl::StrCat("it is stored as a delta, and the tensor of its name in its base, ", description, ", is ",
                     DTypeName(found->dtype), " ", found->shape.ToString(), "; wanted are ", header().num_elements,
                     " elements of ", DTypeName(header().dtype)));
  }
  CASK_ASSIGN_OR_RETURN(std::shared_ptr<const BaseTensor> base, lookup->ReadBase(name));
  absl::Status set = SetBase(std::move(base));
  if (!absl::IsFailedPrecondition(set)) return set;
  return absl::FailedPreconditionError(absl::StrCat("its base, ", description, ": ", set.message()));
}

absl::Status PayloadReader::Impl::CheckBase() const {
  if (!header().is_delta || base_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the payload is a delta, and its base, of hash ", header().base.ToString(), ", was not given"));
}

// Bytes of the first stream.
absl::Status PayloadReader::Impl::ReadBytes(uint64_t begin, absl::Span<char> out) const {
  if (out.empty()) return absl::OkStatus();
  const uint64_t end = begin + out.size();
  const uint64_t first = begin >> header().log2_chunk_bytes;
  const uint64_t last = (end - 1) >> header().log2_chunk_bytes;
  const bool non_temporal = out.size() >= kNonTemporalBytes;
  return chunks_.ForEach(num_threads_, static_cast<size_t>(last - first + 1), [&](Session* session, size_t i) {
    const PayloadHeader::Chunk chunk = header().chunk(first + i);
    const uint64_t from = std::max(chunk.begin, begin);
    const uint64_t to = std::min(chunk.begin + chunk.size, end);
    const absl::Span<char> part = out.subspan(from - begin, to - from);
    if (part.size() == chunk.size) return session->Decode(first + i, part, non_temporal);
    CASK_ASSIGN_OR_RETURN(const absl::string_view decoded, session->Decode(first + i));
    decoded.copy(part.data(), part.size(), from - chunk.begin);
    return absl::OkStatus();
  });
}

// Decodes the elements of `from`, a layout over the row-major elements, to the elements of *out with equal index.
absl::Status PayloadReader::Impl::ReadStrided(const Layout& from, TensorView* out) const {
  const int64_t elements = from.num_elements();
  if (elements == 0) return absl::OkStatus();
  CASK_RETURN_IF_ERROR(out->EnsureMutable());
  char* const to = static_cast<char*>(out->buffer()->mutable_data());
  const auto element_bytes = static_cast<int64_t>(out->element_size());
  if (from.IsContiguous() && out->IsContiguous()) {
    const TensorView::ByteRange range = out->bounds();
    return ReadBytes(static_cast<uint64_t>(from.offset() * element_bytes),
                     absl::MakeSpan(to + range.begin, range.end - range.begin));
  }
  // The elements are sorted by position, so each chunk holds a range of them.
  const int64_t chunk_elements = static_cast<int64_t>(header().chunk_bytes()) / element_bytes;
  struct Part {
    int64_t chunk;
    int64_t begin;
    int64_t end;
  };
  std::vector<Part> parts;
  for (int64_t begin = 0; begin < elements; begin = parts.back().end) {
    const int64_t chunk = ElementNumber(from, begin) / chunk_elements;
    int64_t inside = begin;
    int64_t end = std::min(elements, begin + chunk_elements);
    while (end - inside > 1) {
      const int64_t middle = inside + (end - inside) / 2;
      (ElementNumber(from, middle) / chunk_elements == chunk ? inside : end) = middle;
    }
    parts.push_back({chunk, begin, end});
  }
  return chunks_.ForEach(num_threads_, parts.size(), [&](Session* session, size_t i) -> absl::Status {
    const Part& part = parts[i];
    CASK_ASSIGN_OR_RETURN(const absl::string_view decoded, session->Decode(static_cast<uint64_t>(part.chunk)));
    CopyRange(header().dtype, {from, decoded.data(), part.chunk * chunk_elements}, {out->layout(), to}, part.begin,
              part.end);
    return absl::OkStatus();
  });
}

std::vector<PayloadReader::Impl::Worker> PayloadReader::Impl::Workers(uint64_t chunks) const {
  std::vector<Worker> workers;
  for (size_t i = payload::NumWorkers(num_threads_, chunks); i > 0; --i) workers.push_back({Session(&chunks_)});
  return workers;
}

// First decodes the lengths and resizes each string on the caller's thread, because allocating a string may throw. Then
// decodes the characters into the strings.
absl::Status PayloadReader::Impl::ReadStrings(std::string* out) const {
  const uint64_t length_chunks = header().first_stream_chunks();
  LengthSum sum(header().characters);
  std::string* next = out;
  Session session(&chunks_);
  for (uint64_t i = 0; i < length_chunks; ++i) {
    CASK_ASSIGN_OR_RETURN(const absl::string_view lengths, session.Decode(i));
    sum.Add(lengths);
    if (sum.is_past() || i + 1 == length_chunks) CASK_RETURN_IF_ERROR(sum.Finish());
    for (size_t at = 0; at < lengths.size(); at += kLengthBytes) {
      (next++)->resize(LoadLittleEndian<uint64_t>(lengths.data() + at));
    }
  }
  StringFiller filler(out);
  const uint64_t character_chunks = header().num_chunks() - length_chunks;
  std::vector<Worker> workers = Workers(character_chunks);
  return payload::OrderedFor(
      num_threads_, character_chunks,
      [&](size_t worker, uint64_t i) -> absl::Status {
        CASK_ASSIGN_OR_RETURN(workers[worker].decoded, workers[worker].session.Decode(length_chunks + i));
        return absl::OkStatus();
      },
      [&](size_t worker, uint64_t) {
        filler.Add(workers[worker].decoded);
        return absl::OkStatus();
      });
}

absl::Status PayloadReader::Impl::Verify(absl::FunctionRef<void(const absl::Status& damage)> report) const {
  const uint64_t length_chunks = header().dtype == DType::kString ? header().first_stream_chunks() : 0;
  LengthSum sum(header().characters);
  bool knows_lengths = true;
  std::vector<Worker> workers = Workers(header().num_chunks());
  return payload::OrderedFor(
      num_threads_, header().num_chunks(),
      [&](size_t worker, uint64_t i) -> absl::Status {
        Worker& self = workers[worker];
        CASK_ASSIGN_OR_RETURN(self.decoded, self.session.Check(i, &self.damage));
        return absl::OkStatus();
      },
      [&](size_t worker, uint64_t i) {
        const Worker& self = workers[worker];
        if (!self.damage.ok()) report(self.damage);
        if (i >= length_chunks) return absl::OkStatus();
        knows_lengths = knows_lengths && self.damage.ok();
        if (knows_lengths) sum.Add(self.decoded);
        if (i + 1 == length_chunks && knows_lengths && !sum.Finish().ok()) report(sum.Finish());
        return absl::OkStatus();
      });
}

// ---------------------------------------------------------------------------------------------------------------------

absl::StatusOr<PayloadReader> PayloadReader::Open(absl::string_view bytes, const PayloadReadOptions& options) {
  return Impl::Open(PayloadBytes(bytes), options);
}

absl::StatusOr<PayloadReader> PayloadReader::Open(std::shared_ptr<const ByteSource> source, uint64_t offset,
                                                  uint64_t size_bytes, const PayloadReadOptions& options) {
  if (!RangeFits(offset, size_bytes, source->size_bytes())) {
    return absl::DataLossError(absl::StrCat(source->name(), ": a payload of ", size_bytes, " bytes at ", offset,
                                            ", the file has ", source->size_bytes()));
  }
  return Impl::Open(PayloadBytes(std::move(source), offset, size_bytes), options);
}

PayloadReader::PayloadReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PayloadReader::PayloadReader(PayloadReader&&) noexcept = default;
PayloadReader& PayloadReader::operator=(PayloadReader&&) noexcept = default;
PayloadReader::~PayloadReader() = default;

const PayloadHeader& PayloadReader::header() const { return impl_->header(); }
uint64_t PayloadReader::chunks_decoded() const { return impl_->chunks_decoded(); }
absl::Status PayloadReader::SetBase(std::shared_ptr<const BaseTensor> base) { return impl_->SetBase(std::move(base)); }
absl::Status PayloadReader::SetBase(const BaseLookup* lookup, absl::string_view name) {
  return impl_->SetBase(lookup, name);
}
const BaseTensor* PayloadReader::base() const { return impl_->base(); }
absl::Status PayloadReader::SetBase(const TensorView& base) {
  CASK_ASSIGN_OR_RETURN(std::shared_ptr<const BaseTensor> tensor, BaseTensor::Create(base));
  return SetBase(std::move(tensor));
}

absl::Status PayloadReader::Verify(absl::FunctionRef<void(const absl::Status& damage)> report) const {
  return impl_->Verify(report);
}

absl::Status PayloadReader::ReadInto(TensorView* out) const {
  CASK_CHECK(static_cast<uint64_t>(out->num_elements()) == header().num_elements,
             "ReadInto: the elements are not as many");
  return ReadSliceInto(out->shape(), TensorSlice::Full(out->rank()), out);
}

absl::Status PayloadReader::ReadSliceInto(const TensorShape& whole, const TensorSlice& slice, TensorView* out) const {
  CASK_CHECK(out->dtype() == header().dtype, "ReadSliceInto: the dtype is not the payload's");
  CASK_CHECK(static_cast<uint64_t>(whole.num_elements()) == header().num_elements,
             "ReadSliceInto: the shape is not the payload's");
  CASK_RETURN_IF_ERROR(impl_->CheckBase());
  CASK_ASSIGN_OR_RETURN(const Layout from, Layout::RowMajor(whole).Slice(slice));
  CASK_CHECK(from.dims() == out->dims(), "ReadSliceInto: the dims are not the slice's");
  if (IsFixedSize(header().dtype)) return impl_->ReadStrided(from, out);
  if (slice.IsFull() && out->IsContiguous() && out->num_elements() > 0) {
    CASK_RETURN_IF_ERROR(out->EnsureMutable());
    return impl_->ReadStrings(out->mutable_data<std::string>());
  }
  CASK_ASSIGN_OR_RETURN(Tensor strings, Tensor::Create(DType::kString, whole));
  if (whole.num_elements() > 0) CASK_RETURN_IF_ERROR(impl_->ReadStrings(strings.mutable_data<std::string>()));
  CASK_ASSIGN_OR_RETURN(const TensorView part, TensorView(strings).Slice(slice));
  return Copy(part, out);
}

absl::Status PayloadReader::ReadRange(uint64_t first, absl::Span<char> out) const {
  const size_t element_bytes = ElementSize(header().dtype);
  CASK_CHECK(element_bytes > 0 && out.size() % element_bytes == 0, "ReadRange: the bytes are no elements");
  CASK_CHECK(RangeFits(first, out.size() / element_bytes, header().num_elements),
             "ReadRange: the elements are not there");
  CASK_RETURN_IF_ERROR(impl_->CheckBase());
  return impl_->ReadBytes(first * element_bytes, out);
}

}  // namespace tensorcask
