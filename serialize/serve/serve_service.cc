#include "tensorcask/serialize/serve/serve_service.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/serve/internal/serve_messages.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {

absl::StatusOr<ServeService> ServeService::Create(std::vector<ServedTensor> tensors, const ServedTensors* source,
                                                  std::vector<std::string> notes) {
  ServeService service(source);
  for (const ServedTensor& tensor : tensors) {
    const size_t index = service.indices_.size();
    if (!service.indices_.try_emplace(tensor.name, index).second) {
      return absl::AlreadyExistsError(absl::StrCat("two tensors are called ", Quoted(tensor.name)));
    }
    constexpr uint64_t kRowBytes = 42;  // five numbers, and the lengths of two texts
    service.list_bytes_ += kRowBytes + tensor.name.size() + tensor.encoding.size() +
                           sizeof(int64_t) * (static_cast<uint64_t>(tensor.shape.rank()) + tensor.strides.size());
  }
  for (const std::string& note : notes) service.list_bytes_ += note.size() + 1;
  std::sort(tensors.begin(), tensors.end(),
            [](const ServedTensor& a, const ServedTensor& b) { return a.name < b.name; });
  CASK_ASSIGN_OR_RETURN(service.list_, serve::EncodeList(tensors, std::move(notes)));
  return service;
}

absl::StatusOr<std::vector<DecodedTensor>> ServeService::Answer(absl::string_view topic,
                                                                absl::Span<const DecodedTensor> tensors) const {
  if (topic == serve::kListTopic) {
    CASK_RETURN_IF_ERROR(serve::CheckVersion(tensors, serve::Side::kClient));
    return list_;
  }
  if (topic != serve::kPullTopic) {
    return absl::InvalidArgumentError(
        absl::StrCat("this is a `tensorcask serve`, which answers \"list\" and \"pull\", not ", Quoted(topic),
                     "; a `tensorcask recv` takes what `send` sends"));
  }
  CASK_ASSIGN_OR_RETURN(const std::vector<std::string> texts, serve::DecodePull(tensors));
  const auto found = indices_.find(texts[0]);
  if (found == indices_.end()) return absl::NotFoundError(absl::StrCat("no tensor ", Quoted(texts[0])));
  std::vector<DecodedTensor> reply(1);
  if (texts.size() == 1) {
    CASK_ASSIGN_OR_RETURN(reply[0], source_->Read(found->second, nullptr));
  } else {
    CASK_ASSIGN_OR_RETURN(const TensorSlice slice, TensorSlice::Parse(texts[1]));
    CASK_ASSIGN_OR_RETURN(reply[0], source_->Read(found->second, &slice));
  }
  return reply;
}

uint64_t ServeService::AnswerBytes(absl::string_view topic, absl::Span<const DecodedTensor> tensors) const {
  if (topic == serve::kListTopic) return list_bytes_;
  if (topic != serve::kPullTopic) return 0;
  const absl::StatusOr<std::vector<std::string>> texts = serve::DecodePull(tensors);
  if (!texts.ok()) return 0;
  const auto found = indices_.find((*texts)[0]);
  return found == indices_.end() ? 0 : source_->ReadBytes(found->second);
}

}  // namespace tensorcask
