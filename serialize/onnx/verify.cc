// OnnxReader::VerifyAll.

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/serialize/io/read_plan.h"
#include "tensorcask/serialize/onnx/internal/reader_impl.h"
#include "tensorcask/serialize/onnx/onnx_reader.h"
#include "tensorcask/serialize/stored/elements.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

// Indices of [N] count the elements; those of [N,rank] have a row for each. Both increase, and lie in the shape.
absl::Status CheckIndices(const Tensor& indices, const TensorShape& shape) {
  const int64_t* const values = indices.data<int64_t>();
  const int64_t count = indices.shape().dim(0);
  const int64_t width = indices.shape().rank() == 2 ? indices.shape().dim(1) : 1;
  const DimVector dims = indices.shape().rank() == 2 ? shape.dims() : DimVector{shape.num_elements()};
  for (int64_t i = 0; i < count; ++i) {
    const auto row = absl::MakeConstSpan(values + i * width, static_cast<size_t>(width));
    for (int64_t axis = 0; axis < width; ++axis) {
      const int64_t index = row[static_cast<size_t>(axis)];
      if (index >= 0 && index < dims[static_cast<size_t>(axis)]) continue;
      return absl::DataLossError(
          absl::StrCat("index ", i, " is ", index, " on axis ", axis, ", outside of the shape ", shape.ToString()));
    }
    if (i > 0 && !(absl::MakeConstSpan(values + (i - 1) * width, static_cast<size_t>(width)) < row)) {
      return absl::DataLossError(absl::StrCat("index ", i, " is not larger than the one before"));
    }
  }
  return absl::OkStatus();
}

// An error that says nothing about the file.
bool PreventsChecking(const absl::Status& status) {
  return IsResourceFailure(status) || !(absl::IsDataLoss(status) || absl::IsResourceExhausted(status));
}

}  // namespace

absl::StatusOr<OnnxCounts> OnnxReader::VerifyAll(absl::FunctionRef<void(const OnnxDamage&)> report) const {
  const onnx::ReaderImpl& impl = *impl_;
  OnnxCounts counts;
  std::vector<int64_t*> counted(entries().size());  // where a tensor was counted; null: it was not, or is damaged
  absl::flat_hash_set<size_t> lost;                 // side files
  for (size_t i = 0; i < impl.side_files().paths().size(); ++i) {
    const absl::Status opened = impl.side_files().Open(i).status();
    if (opened.ok()) continue;
    if (IsResourceFailure(opened)) return opened;
    lost.insert(i);
    report({"", true, impl.side_files().paths()[i], 0,
            Annotate(opened, absl::StrCat(path(), ": a side file cannot be read"))});
  }
  // Tensors may share their elements: what was read once is not read again.
  std::map<std::tuple<size_t, uint64_t, uint64_t, DType>, absl::Status> of_range;
  ReadPlan plan;
  const StepOrder order = plan.StartSteps(entries().size(), [&](size_t number) -> ReadPlan::Step {
    const OnnxEntry& entry = entries()[number];
    if (!entry.read_status.ok()) return {};
    return {impl.SourceOf(number), entry.offset, entry.stored_bytes};
  });
  for (size_t position = 0; position < order.size(); ++position) {
    const size_t number = order[position];
    const OnnxEntry& entry = entries()[number];
    const std::string& file = entry.side_file.empty() ? path() : entry.side_file;
    if (absl::IsUnimplemented(entry.read_status)) {
      ++counts.not_checked;
      continue;
    }
    if (!entry.read_status.ok()) {
      report({entry.name, false, file, 0, impl.At(number, entry.read_status)});
      continue;
    }
    const bool is_outside = !entry.side_file.empty();
    if (is_outside && lost.contains(impl.side_file(number))) {
      ++counts.lost;
      continue;
    }
    bool has_checksum = false;
    absl::Status status;
    if (entry.form == OnnxEntry::Form::kValues) {
      status = impl.Read(number).status();
    } else {
      const absl::StatusOr<onnx::ReaderImpl::Elements> elements = impl.ElementsOf(number);
      stored::ElementOptions strict = impl.how();
      strict.accept_odd_bools = false;
      status = elements.status();
      if (status.ok() && !is_outside) {
        status = stored::VerifyElements(*elements->source, elements->stored, strict);
      } else if (status.ok()) {
        const auto [known, is_new] =
            of_range.try_emplace({impl.side_file(number), entry.offset, entry.stored_bytes, entry.dtype});
        if (is_new) known->second = stored::VerifyElements(*elements->source, elements->stored, strict);
        status = known->second;
      }
      has_checksum = is_outside && !impl.sha1(number).empty();
      if (status.ok() && has_checksum) {
        CASK_ASSIGN_OR_RETURN(const std::string found, impl.side_files().Sha1Of(impl.side_file(number)));
        if (found != impl.sha1(number)) {
          status = MarkWrongChecksum(absl::DataLossError(
              absl::StrCat("the SHA-1 of the side file is ", found, ", the model says ", impl.sha1(number))));
        }
      }
    }
    if (status.ok()) {
      counted[number] = has_checksum ? &counts.verified : &counts.without_checksum;
      ++*counted[number];
    } else if (PreventsChecking(status)) {
      return impl.At(number, status);
    } else {
      counts.past_limit += absl::IsResourceExhausted(status);
      report({entry.name, false, file, entry.offset, impl.At(number, status)});
    }
  }
  for (const onnx::SparseTensor& sparse : impl.sparse()) {
    if (counted[sparse.indices] == nullptr) continue;
    const absl::StatusOr<Tensor> indices = impl.Read(sparse.indices);
    if (!indices.ok()) continue;  // has changed meanwhile
    const absl::Status status = CheckIndices(*indices, sparse.shape);
    if (status.ok()) continue;
    const OnnxEntry& entry = entries()[sparse.indices];
    report({entry.name, false, path(), entry.offset, impl.At(sparse.indices, status)});
    --*counted[sparse.indices];
  }
  return counts;
}

}  // namespace tensorcask
