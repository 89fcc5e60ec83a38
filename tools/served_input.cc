#include "tensorcask/tools/served_input.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::tools {
namespace {

constexpr int64_t kColumns = 8;

absl::StatusOr<Tensor> Strings(const TensorShape& shape, std::vector<std::string> texts) {
  CASK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(DType::kString, shape));
  std::move(texts.begin(), texts.end(), tensor.mutable_data<std::string>());
  return tensor;
}

absl::StatusOr<std::vector<int64_t>> ParseNumbers(absl::string_view text) {
  std::vector<int64_t> numbers;
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    int64_t number;
    if (!absl::SimpleAtoi(part, &number)) return absl::DataLossError(absl::StrCat(Quoted(part), " is no number"));
    numbers.push_back(number);
  }
  return numbers;
}

absl::StatusOr<TensorInfo> ParseRow(const std::string* row) {
  TensorInfo info;
  info.name = row[0];
  CASK_ASSIGN_OR_RETURN(info.dtype, ParseDType(row[1]));
  CASK_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, ParseNumbers(row[2]));
  CASK_ASSIGN_OR_RETURN(info.shape, TensorShape::Create(dims));
  CASK_ASSIGN_OR_RETURN(info.strides, ParseNumbers(row[3]));
  info.encoding = row[4];
  if (!absl::SimpleAtoi(row[5], &info.stored_bytes)) {
    return absl::DataLossError(absl::StrCat(Quoted(row[5]), " is no number of bytes"));
  }
  info.has_metadata = row[6] == "1";
  if (!row[7].empty() && !absl::SimpleAtoi(row[7], &info.decoded_bytes.emplace())) {
    return absl::DataLossError(absl::StrCat(Quoted(row[7]), " is no number of bytes"));
  }
  return info;
}

class ServedInput final : public Input {
 public:
  static absl::StatusOr<std::unique_ptr<Input>> Connect(const std::string& socket) {
    CASK_ASSIGN_OR_RETURN(Channel channel, Channel::Connect(socket, absl::Seconds(10)));
    std::unique_ptr<ServedInput> input(new ServedInput(std::move(channel)));
    CASK_ASSIGN_OR_RETURN(const DecodedTensor list, input->Ask(kListTopic, {}));
    if (list.view.dtype() != DType::kString || list.view.shape().rank() != 2 || list.view.shape().dim(1) != kColumns) {
      return absl::DataLossError(absl::StrCat(socket, ": its list is no list of tensors"));
    }
    CASK_ASSIGN_OR_RETURN(const Tensor rows, list.view.ToTensor());
    const std::string* const texts = rows.data<std::string>();
    for (int64_t i = 0; i < rows.shape().dim(0); ++i) {
      absl::StatusOr<TensorInfo> info = ParseRow(texts + i * kColumns);
      if (!info.ok()) return absl::DataLossError(absl::StrCat(socket, ": its list: ", info.status().message()));
      input->tensors_.push_back(*std::move(info));
    }
    return std::unique_ptr<Input>(std::move(input));
  }

  absl::string_view format() const override { return kServed; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  absl::StatusOr<Tensor> Read(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor tensor, ReadWithMetadata(name));
    return tensor.view.ToTensor();
  }
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const override {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor tensor, Ask(kPullTopic, {std::string(name), slice.ToString()}));
    return tensor.view.ToTensor();
  }
  absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const override {
    return Ask(kPullTopic, {std::string(name)});
  }
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor tensor, ReadWithMetadata(name));
    return tensor.metadata;
  }
  absl::StatusOr<std::string> DrawObjects() const override {
    return absl::InvalidArgumentError("a server tells of no objects; checkpoints of TensorFlow have them");
  }

 private:
  explicit ServedInput(Channel channel) : channel_(std::move(channel)) {}

  absl::StatusOr<DecodedTensor> Ask(absl::string_view topic, std::vector<std::string> texts) const {
    Message request;
    request.topic = std::string(topic);
    if (!texts.empty()) {
      const TensorShape shape({static_cast<int64_t>(texts.size())});
      CASK_ASSIGN_OR_RETURN(const Tensor what, Strings(shape, std::move(texts)));
      request.tensors.push_back({what, {}});
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    CASK_ASSIGN_OR_RETURN(Message reply, channel_.Call(request, absl::Minutes(1)));
    CASK_RETURN_IF_ERROR(reply.status);
    if (reply.tensors.size() == 1) return std::move(reply.tensors[0]);
    return absl::DataLossError(
        absl::StrCat(channel_.name(), ": the answer has ", reply.tensors.size(), " tensors; wanted 1"));
  }

  mutable std::mutex mutex_;
  mutable Channel channel_;
  std::vector<TensorInfo> tensors_;
};

absl::StatusOr<DecodedTensor> List(const std::vector<std::unique_ptr<Input>>& inputs) {
  std::vector<const TensorInfo*> infos;
  for (const std::unique_ptr<Input>& input : inputs) {
    for (const TensorInfo& info : input->tensors()) infos.push_back(&info);
  }
  std::sort(infos.begin(), infos.end(), [](const TensorInfo* a, const TensorInfo* b) { return a->name < b->name; });
  std::vector<std::string> texts;
  for (const TensorInfo* info : infos) {
    texts.insert(texts.end(),
                 {info->name, std::string(DTypeName(info->dtype)), absl::StrJoin(info->shape.dims(), ","),
                  absl::StrJoin(info->strides, ","), info->encoding, absl::StrCat(info->stored_bytes),
                  info->has_metadata ? "1" : "0", info->decoded_bytes ? absl::StrCat(*info->decoded_bytes) : ""});
  }
  DecodedTensor list;
  CASK_ASSIGN_OR_RETURN(list.view,
                        Strings(TensorShape({static_cast<int64_t>(infos.size()), kColumns}), std::move(texts)));
  return list;
}

absl::StatusOr<DecodedTensor> Pull(const std::vector<std::unique_ptr<Input>>& inputs, const Message& request) {
  if (request.tensors.size() != 1 || request.tensors[0].view.dtype() != DType::kString ||
      request.tensors[0].view.shape().rank() != 1) {
    return absl::InvalidArgumentError("pull: wanted one tensor, strings [1] or [2]: a name and a slice");
  }
  CASK_ASSIGN_OR_RETURN(const Tensor what, request.tensors[0].view.ToTensor());
  const std::string* const texts = what.data<std::string>();
  const int64_t count = what.shape().dim(0);
  if (count < 1 || count > 2) return absl::InvalidArgumentError("pull: wanted a name and perhaps a slice");
  for (const std::unique_ptr<Input>& input : inputs) {
    const auto& tensors = input->tensors();
    if (std::none_of(tensors.begin(), tensors.end(), [&](const TensorInfo& info) { return info.name == texts[0]; })) {
      continue;
    }
    if (count == 1) return input->ReadWithMetadata(texts[0]);
    CASK_ASSIGN_OR_RETURN(const TensorSlice slice, TensorSlice::Parse(texts[1]));
    DecodedTensor part;
    CASK_ASSIGN_OR_RETURN(part.view, input->ReadSlice(texts[0], slice));
    return part;
  }
  return absl::NotFoundError(absl::StrCat("no tensor ", Quoted(texts[0])));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Input>> ConnectToServer(const std::string& socket) {
  return ServedInput::Connect(socket);
}

Message Answer(const std::vector<std::unique_ptr<Input>>& inputs, const Message& request) {
  Message reply;
  reply.topic = request.topic;
  absl::StatusOr<DecodedTensor> tensor =
      absl::InvalidArgumentError(absl::StrCat("topic ", Quoted(request.topic), " is none of list, pull"));
  if (request.topic == kListTopic) tensor = List(inputs);
  if (request.topic == kPullTopic) tensor = Pull(inputs, request);
  reply.status = tensor.status();
  if (tensor.ok()) reply.tensors.push_back(*std::move(tensor));
  return reply;
}

}  // namespace tensorcask::tools
