#include "tensorcask/serialize/safetensors/safetensors_reader.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/safetensors/internal/json_header.h"
#include "tensorcask/serialize/safetensors/internal/open_model.h"
#include "tensorcask/serialize/safetensors/safetensors_dtypes.h"
#include "tensorcask/serialize/stored/elements.h"
#include "tensorcask/serialize/stored/stored_tensor.h"
#include "tensorcask/serialize/stored/verified_once.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/checksum.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask {
namespace safetensors {

class ReaderImpl {
 public:
  ReaderImpl(std::unique_ptr<const Model> model, const SafetensorsReaderOptions& options)
      : model_(std::move(model)), options_(options) {
    how_.verify = options_.verify;
    how_.verified = &verified_;
    how_.accept_odd_bools = options_.lenient;
    how_.odd_bools_hint = " (lenient accepts this)";
    how_.strategy = options_.read.strategy;
    how_.num_threads = options_.read.num_threads;
    how_.allocator = options_.allocator;
  }

  const Model& model() const { return *model_; }
  const SafetensorsReaderOptions& options() const { return options_; }
  const SafetensorsEntry& entry(size_t number) const { return model_->entries[number]; }

  // The number of the entry that has the elements: an alias has those of another. Errors: NotFound.
  absl::StatusOr<size_t> Locate(absl::string_view name) const {
    const std::optional<size_t> number = model_->Find(name);
    if (!number.has_value()) {
      return absl::NotFoundError(absl::StrCat(model_->path, ": no tensor ", Quoted(name)));
    }
    const std::string& target = entry(*number).alias_of;
    return target.empty() ? *number : *model_->Find(target);
  }

  // The same of a tensor that can be read. Errors: also SafetensorsEntry::read_status.
  absl::StatusOr<size_t> LocateReadable(absl::string_view name) const {
    CASK_ASSIGN_OR_RETURN(const size_t number, Locate(name));
    const absl::Status& status = entry(number).read_status;
    if (status.ok()) return number;
    return MarkDamagedPart(Annotate(status, absl::StrCat(model_->path, ": tensor ", Quoted(name))));
  }

  // `status`, if it is an error, with the place of the tensor.
  absl::Status At(size_t number, const absl::Status& status) const {
    if (status.ok()) return status;
    const SafetensorsEntry& of = entry(number);
    return MarkDamagedPart(
        Annotate(status, absl::StrCat(model_->shards[static_cast<size_t>(of.shard)].path, ": tensor ", Quoted(of.name),
                                      " at offset ", of.offset, ", ", of.stored_bytes, " bytes")));
  }

  // Where the elements are.
  stored::StoredTensor Stored(size_t number) const {
    const SafetensorsEntry& of = entry(number);
    stored::StoredTensor tensor;
    tensor.dtype = of.dtype;
    tensor.shape = of.shape;
    tensor.offset = of.offset;
    tensor.stored_bytes = of.stored_bytes;
    if (const int bits = SafetensorsDTypeBits(of.dtype); bits < 8) tensor.packed_bits = bits;
    if (of.checksum.has_value()) tensor.checksum = {ChecksumKind::kCrc32c, *of.checksum};
    tensor.storage_id = number + 1;
    return tensor;
  }
  const stored::ElementOptions& how() const { return how_; }

  const ByteSource& FileOf(size_t number) const {
    return *model_->shards[static_cast<size_t>(entry(number).shard)].file;
  }

  uint64_t MemoryBytes(size_t number) const {
    const SafetensorsEntry& of = entry(number);
    return static_cast<uint64_t>(of.shape.num_elements()) * ElementSize(of.dtype);
  }

  absl::StatusOr<Tensor> Read(size_t number) const {
    absl::StatusOr<Tensor> tensor = stored::ReadElements(FileOf(number), Stored(number), how_);
    if (!tensor.ok()) return At(number, tensor.status());
    return tensor;
  }

  absl::StatusOr<std::vector<Tensor>> ReadMany(absl::Span<const size_t> numbers, int num_threads) const;

 private:
  const std::unique_ptr<const Model> model_;
  const SafetensorsReaderOptions options_;
  mutable stored::VerifiedOnce verified_;
  stored::ElementOptions how_;
};

// Reads each tensor once, in the order of the files.
absl::StatusOr<std::vector<Tensor>> ReaderImpl::ReadMany(absl::Span<const size_t> numbers, int num_threads) const {
  std::vector<size_t> wanted(numbers.begin(), numbers.end());
  std::sort(wanted.begin(), wanted.end());  // entries are in the order of the files
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  DecodeQuota quota = DecodeQuota::ForFile(options_.limits);
  for (const size_t number : wanted) {
    absl::Status charged = quota.Charge(MemoryBytes(number));
    if (!charged.ok()) return At(number, charged);
  }
  std::vector<absl::StatusOr<Tensor>> read(wanted.size());
  std::vector<Tensor> memory(wanted.size());  // for those that are planned: they are read straight into it
  ReadPlan plan;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::shared_ptr<const ByteSource>& file = model_->shards[static_cast<size_t>(entry(wanted[i]).shard)].file;
    if (file == nullptr || file->read_shape().in_flight <= 1) continue;
    const stored::StoredTensor stored = Stored(wanted[i]);
    if (stored::AreReadInPlace(stored) && stored.stored_bytes > 0) {
      // Without memory it is left to Read, which gives the error.
      memory[i] = Tensor::Create(stored.dtype, stored.shape, how_.allocator).value_or(Tensor());
    }
    plan.Add(file, stored.offset, stored.stored_bytes, memory[i].buffer() ? memory[i].mutable_bytes().data() : nullptr);
  }
  plan.Start();
  CASK_RETURN_IF_ERROR(ParallelFor(num_threads, wanted.size(), [&](size_t i) {
    if (!memory[i].buffer()) {
      read[i] = Read(wanted[i]);
      return;
    }
    TensorView view = memory[i];
    const absl::Status status = stored::ReadElementsInto(FileOf(wanted[i]), Stored(wanted[i]), how_, &view);
    read[i] = status.ok() ? absl::StatusOr<Tensor>(memory[i]) : At(wanted[i], status);
  }));
  std::vector<Tensor> tensors;
  tensors.reserve(numbers.size());
  for (const size_t number : numbers) {
    const auto at = std::lower_bound(wanted.begin(), wanted.end(), number) - wanted.begin();
    const absl::StatusOr<Tensor>& tensor = read[static_cast<size_t>(at)];
    if (!tensor.ok()) return tensor.status();
    tensors.push_back(*tensor);
  }
  return tensors;
}

namespace {

OpenOptions ToOpenOptions(const SafetensorsReaderOptions& options) {
  OpenOptions open;
  open.read = options.read;
  open.parse.limits = options.limits;
  open.parse.lenient = options.lenient;
  open.max_header_bytes = options.max_header_bytes;
  open.restore_aliases = options.restore_aliases;
  return open;
}

// Removes the whitespace of JSON in front.
void SkipSpace(absl::string_view* text) {
  const size_t size = text->find_first_not_of(" \t\r\n");
  text->remove_prefix(size == absl::string_view::npos ? text->size() : size);
}

// True if a header may begin with `text`, which may be cut: an object that is empty, or whose first key is text and
// leads to another object.
bool MayBeginHeader(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, "{")) return false;
  SkipSpace(&text);
  if (text.empty() || text[0] == '}') return true;
  if (!absl::ConsumePrefix(&text, "\"")) return false;
  while (!text.empty() && text[0] != '"') {
    if (static_cast<unsigned char>(text[0]) < ' ') return false;
    text.remove_prefix(std::min<size_t>(text.size(), text[0] == '\\' ? 2 : 1));
  }
  if (!absl::ConsumePrefix(&text, "\"")) return true;
  SkipSpace(&text);
  if (text.empty()) return true;
  if (!absl::ConsumePrefix(&text, ":")) return false;
  SkipSpace(&text);
  return text.empty() || text[0] == '{' || text[0] == 'n';  // the metadata may be null
}

}  // namespace
}  // namespace safetensors

using safetensors::ReaderImpl;

absl::StatusOr<SafetensorsReader> SafetensorsReader::Open(const std::string& path,
                                                          const SafetensorsReaderOptions& options) {
  CASK_ASSIGN_OR_RETURN(auto model, safetensors::OpenModel(path, safetensors::ToOpenOptions(options)));
  return SafetensorsReader(std::make_unique<const ReaderImpl>(std::move(model), options));
}

absl::StatusOr<SafetensorsReader> SafetensorsReader::OpenSource(std::shared_ptr<const ByteSource> source,
                                                                const SafetensorsReaderOptions& options) {
  CASK_ASSIGN_OR_RETURN(auto model, safetensors::OpenOneFile(std::move(source), safetensors::ToOpenOptions(options)));
  return SafetensorsReader(std::make_unique<const ReaderImpl>(std::move(model), options));
}

bool SafetensorsReader::LooksLikeSafetensors(absl::string_view first_bytes, uint64_t file_bytes) {
  if (first_bytes.size() <= safetensors::kPrefixBytes || file_bytes < first_bytes.size()) return false;
  const auto header_bytes = LoadLittleEndian<uint64_t>(first_bytes.data());
  return header_bytes >= 2 && header_bytes <= file_bytes - safetensors::kPrefixBytes &&
         safetensors::MayBeginHeader(first_bytes.substr(safetensors::kPrefixBytes, header_bytes));
}

SafetensorsReader::SafetensorsReader(std::unique_ptr<const ReaderImpl> impl) : impl_(std::move(impl)) {}
SafetensorsReader::SafetensorsReader(SafetensorsReader&&) noexcept = default;
SafetensorsReader& SafetensorsReader::operator=(SafetensorsReader&&) noexcept = default;
SafetensorsReader::~SafetensorsReader() = default;

const std::string& SafetensorsReader::path() const { return impl_->model().path; }

int SafetensorsReader::num_shards() const { return static_cast<int>(impl_->model().shards.size()); }

const std::string& SafetensorsReader::ShardPath(int shard) const {
  CASK_CHECK(shard >= 0 && shard < num_shards(), "SafetensorsReader::ShardPath: no such shard");
  return impl_->model().shards[static_cast<size_t>(shard)].path;
}

std::shared_ptr<const ByteSource> SafetensorsReader::ShardSource(int shard) const {
  CASK_CHECK(shard >= 0 && shard < num_shards(), "SafetensorsReader::ShardSource: no such shard");
  return impl_->model().shards[static_cast<size_t>(shard)].file;
}

const std::vector<SafetensorsEntry>& SafetensorsReader::entries() const { return impl_->model().entries; }

const SafetensorsEntry* SafetensorsReader::FindEntry(absl::string_view name) const {
  const std::optional<size_t> number = impl_->model().Find(name);
  return number.has_value() ? &impl_->entry(*number) : nullptr;
}

absl::StatusOr<SafetensorsEntry> SafetensorsReader::Find(absl::string_view name) const {
  if (const SafetensorsEntry* entry = FindEntry(name); entry != nullptr) return *entry;
  return absl::NotFoundError(absl::StrCat(path(), ": no tensor ", Quoted(name)));
}

const std::map<std::string, std::string>& SafetensorsReader::metadata() const { return impl_->model().metadata; }

uint64_t SafetensorsReader::header_bytes() const { return impl_->model().header_bytes; }

const std::vector<std::string>& SafetensorsReader::notes() const { return impl_->model().notes; }

absl::StatusOr<Tensor> SafetensorsReader::Read(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->LocateReadable(name));
  absl::Status charged = DecodeQuota::ForFile(impl_->options().limits).Charge(impl_->MemoryBytes(number));
  if (!charged.ok()) return impl_->At(number, charged);
  return impl_->Read(number);
}

absl::Status SafetensorsReader::ReadInto(absl::string_view name, Tensor* out) const {
  TensorView view(*out);
  return ReadInto(name, &view);
}

absl::Status SafetensorsReader::ReadInto(absl::string_view name, TensorView* out) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->LocateReadable(name));
  const SafetensorsEntry& entry = impl_->entry(number);
  absl::Status status = stored::CheckTarget(entry.dtype, entry.shape, *out);
  if (status.ok()) {
    status = stored::ReadElementsInto(impl_->FileOf(number), impl_->Stored(number), impl_->how(), out);
  }
  return impl_->At(number, status);
}

absl::StatusOr<Tensor> SafetensorsReader::ReadSlice(absl::string_view name, const TensorSlice& slice,
                                                    bool verify_whole) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->LocateReadable(name));
  const SafetensorsEntry& entry = impl_->entry(number);
  const absl::StatusOr<TensorShape> part = slice.Apply(entry.shape);
  if (!part.ok()) return impl_->At(number, part.status());
  if (part->num_elements() == entry.shape.num_elements()) {
    CASK_ASSIGN_OR_RETURN(const Tensor whole, Read(name));
    return whole.Reshape(*part);
  }
  absl::Status status =
      DecodeQuota::ForFile(impl_->options().limits).Charge(stored::SliceMemory(impl_->Stored(number), slice, *part));
  if (status.ok() && verify_whole) {
    status = stored::VerifyOnce(impl_->FileOf(number), impl_->Stored(number), impl_->how());
  }
  if (!status.ok()) return impl_->At(number, status);
  absl::StatusOr<Tensor> tensor =
      stored::ReadSliceOfElements(impl_->FileOf(number), impl_->Stored(number), slice, impl_->how());
  if (!tensor.ok()) return impl_->At(number, tensor.status());
  return tensor;
}

absl::Status SafetensorsReader::ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out,
                                              bool verify_whole) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->LocateReadable(name));
  const SafetensorsEntry& entry = impl_->entry(number);
  const absl::StatusOr<TensorShape> part = slice.Apply(entry.shape);
  absl::Status status = part.ok() ? stored::CheckTarget(entry.dtype, *part, *out) : part.status();
  if (status.ok()) {
    status =
        DecodeQuota::ForFile(impl_->options().limits).Charge(stored::SliceMemory(impl_->Stored(number), slice, *part));
  }
  if (!status.ok()) return impl_->At(number, status);
  if (part->num_elements() == entry.shape.num_elements()) {
    if (part->num_elements() == 0) return Read(name).status();
    status = stored::ReadElementsInto(impl_->FileOf(number), impl_->Stored(number), impl_->how(), out);
    return impl_->At(number, status);
  }
  if (verify_whole) status = stored::VerifyOnce(impl_->FileOf(number), impl_->Stored(number), impl_->how());
  if (status.ok()) {
    status = stored::ReadSliceOfElementsInto(impl_->FileOf(number), impl_->Stored(number), slice, impl_->how(), out);
  }
  return impl_->At(number, status);
}

absl::StatusOr<std::vector<Tensor>> SafetensorsReader::ReadMany(absl::Span<const std::string> names,
                                                                int num_threads) const {
  std::vector<size_t> numbers;
  numbers.reserve(names.size());
  for (const std::string& name : names) {
    CASK_ASSIGN_OR_RETURN(const size_t number, impl_->LocateReadable(name));
    numbers.push_back(number);
  }
  return impl_->ReadMany(numbers, num_threads);
}

absl::StatusOr<std::map<std::string, Tensor>> SafetensorsReader::ReadAll(
    int num_threads, const std::function<bool(const SafetensorsEntry&)>& wanted) const {
  std::vector<std::string> names;
  for (const SafetensorsEntry& entry : entries()) {
    if (wanted == nullptr || wanted(entry)) names.push_back(entry.name);
  }
  CASK_ASSIGN_OR_RETURN(std::vector<Tensor> tensors, ReadMany(names, num_threads));
  std::map<std::string, Tensor> result;
  for (size_t i = 0; i < names.size(); ++i) result.emplace(std::move(names[i]), std::move(tensors[i]));
  return result;
}

absl::StatusOr<Tensor> SafetensorsReader::Map(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->LocateReadable(name));
  const stored::StoredTensor stored = impl_->Stored(number);
  if (!stored::CanMap(stored)) return Read(name);
  absl::StatusOr<Tensor> tensor = stored::MapElements(impl_->FileOf(number), stored, impl_->how());
  if (absl::IsUnimplemented(tensor.status())) return Read(name);
  if (!tensor.ok()) return impl_->At(number, tensor.status());
  return tensor;
}

absl::StatusOr<std::unique_ptr<ElementStream>> SafetensorsReader::OpenStream(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const size_t number, impl_->LocateReadable(name));
  return stored::OpenElements(
      impl_->FileOf(number), impl_->Stored(number), impl_->how(),
      [impl = impl_.get(), number](const absl::Status& status) { return impl->At(number, status); });
}

absl::StatusOr<SafetensorsCounts> SafetensorsReader::VerifyAll(
    absl::FunctionRef<void(const SafetensorsDamage&)> report) const {
  SafetensorsCounts counts;
  for (const safetensors::Shard& shard : impl_->model().shards) {
    for (const absl::Status& status : {shard.status, shard.unlisted}) {
      if (!status.ok()) report({"", shard.path, 0, status});
    }
  }
  ReadPlan plan;
  const StepOrder order = plan.StartSteps(entries().size(), [&](size_t number) -> ReadPlan::Step {
    const SafetensorsEntry& entry = impl_->entry(number);
    if (!entry.read_status.ok() || !entry.alias_of.empty()) return {};
    return {ShardSource(entry.shard), entry.offset, entry.stored_bytes};
  });
  for (size_t position = 0; position < order.size(); ++position) {
    const size_t number = order[position];
    const SafetensorsEntry& entry = impl_->entry(number);
    if (!impl_->model().shards[static_cast<size_t>(entry.shard)].status.ok()) {
      ++counts.lost;
      continue;
    }
    if (absl::IsUnimplemented(entry.read_status)) {
      ++counts.not_checked;
      continue;
    }
    if (!entry.alias_of.empty()) continue;
    if (!entry.read_status.ok()) {
      report({entry.name, ShardPath(entry.shard), 0, impl_->LocateReadable(entry.name).status()});
      continue;
    }
    stored::ElementOptions strict = impl_->how();
    strict.accept_odd_bools = false;
    const absl::Status status = stored::VerifyElements(impl_->FileOf(number), impl_->Stored(number), strict);
    if (status.ok()) {
      ++(entry.checksum.has_value() ? counts.verified : counts.without_checksum);
      continue;
    }
    const absl::Status sentence = impl_->At(number, status);
    if (!absl::IsDataLoss(status) || IsResourceFailure(status)) return sentence;
    report({entry.name, ShardPath(entry.shard), entry.offset, sentence});
  }
  return counts;
}

}  // namespace tensorcask
