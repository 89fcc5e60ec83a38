#include "tensorcask/tools/served_input.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/archive/convert.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tools/console.h"

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
    if (!absl::SimpleAtoi(part, &number)) return absl::DataLossError(absl::StrCat(Quoted(part), " is not a number"));
    numbers.push_back(number);
  }
  return numbers;
}

absl::StatusOr<uint64_t> ParseBytes(absl::string_view text) {
  uint64_t bytes;
  if (!absl::SimpleAtoi(text, &bytes)) {
    return absl::DataLossError(absl::StrCat(Quoted(text), " is not a number of bytes"));
  }
  return bytes;
}

// A row of a list, which may say anything. Names stay what they are, as in all formats; commands escape them.
absl::StatusOr<ArchiveEntry> ParseRow(const std::string* row) {
  ArchiveEntry info;
  info.name = row[0];
  CASK_ASSIGN_OR_RETURN(info.dtype, ParseDType(row[1]));
  CASK_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, ParseNumbers(row[2]));
  CASK_ASSIGN_OR_RETURN(info.shape, TensorShape::Create(dims));
  CASK_ASSIGN_OR_RETURN(info.strides, ParseNumbers(row[3]));
  if (!info.strides.empty() && info.strides.size() != dims.size()) {
    return absl::DataLossError(absl::StrCat(info.strides.size(), " strides for the shape ", info.shape.ToString()));
  }
  constexpr size_t kMaxEncodingBytes = 64;
  info.encoding = EscapeControls(row[4]);
  if (info.encoding.empty() || info.encoding.size() > kMaxEncodingBytes) {
    return absl::DataLossError(absl::StrCat(Quoted(row[4]), " is not an encoding"));
  }
  CASK_ASSIGN_OR_RETURN(info.stored_bytes, ParseBytes(row[5]));
  info.has_metadata = row[6] == "1";
  if (!row[7].empty()) {
    CASK_ASSIGN_OR_RETURN(info.decoded_bytes, ParseBytes(row[7]));
  }
  return info;
}

class ServedInput final : public ArchiveReader {
 public:
  static absl::StatusOr<std::unique_ptr<ArchiveReader>> Connect(const std::string& socket) {
    CASK_ASSIGN_OR_RETURN(Channel channel, ConnectToListening(socket, "serve", absl::Seconds(10)));
    std::unique_ptr<ServedInput> input(new ServedInput(absl::StrCat(kServedPrefix, socket), std::move(channel)));
    CASK_ASSIGN_OR_RETURN(const DecodedTensor list, input->Ask(kListTopic, {}));
    const absl::Status status = input->ReadList(list);
    if (!status.ok()) return AsDataLoss(Annotate(status, "its list"), Printable(socket));
    return std::unique_ptr<ArchiveReader>(std::move(input));
  }

  absl::string_view format() const override { return "served"; }
  const std::string& path() const override { return path_; }
  const std::vector<ArchiveEntry>& entries() const override { return tensors_; }
  absl::StatusOr<Tensor> Read(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor tensor, ReadWithMetadata(name));
    return tensor.view.ToTensor();
  }
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const override {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor tensor, Ask(kPullTopic, {std::string(name), slice.ToString()}));
    CASK_RETURN_IF_ERROR(CheckAnswer(name, &slice, tensor.view));
    return tensor.view.ToTensor();
  }
  absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(DecodedTensor tensor, Ask(kPullTopic, {std::string(name)}));
    CASK_RETURN_IF_ERROR(CheckAnswer(name, nullptr, tensor.view));
    return tensor;
  }
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor tensor, ReadWithMetadata(name));
    return tensor.metadata;
  }

 private:
  ServedInput(std::string path, Channel channel) : path_(std::move(path)), channel_(std::move(channel)) {}

  absl::Status ReadList(const DecodedTensor& list) {
    if (list.view.dtype() != DType::kString || list.view.shape().rank() != 2 || list.view.shape().dim(1) != kColumns) {
      return absl::DataLossError(absl::StrCat("is ", DTypeName(list.view.dtype()), " ", list.view.shape().ToString(),
                                              "; wanted strings [n,", kColumns, "]"));
    }
    CASK_ASSIGN_OR_RETURN(const Tensor rows, list.view.ToTensor());
    const std::string* const texts = rows.data<std::string>();
    for (int64_t i = 0; i < rows.shape().dim(0); ++i) {
      absl::StatusOr<ArchiveEntry> info = ParseRow(texts + i * kColumns);
      if (!info.ok()) return Annotate(info.status(), absl::StrCat("row ", i));
      if (!tensors_.empty() && tensors_.back().name >= info->name) {
        return absl::DataLossError(absl::StrCat("row ", i, ": ", Quoted(info->name), " comes after ",
                                                Quoted(tensors_.back().name), "; names must come once and in order"));
      }
      tensors_.push_back(*std::move(info));
    }
    return absl::OkStatus();
  }

  // An answer must be the tensor that the list describes.
  absl::Status CheckAnswer(absl::string_view name, const TensorSlice* slice, const TensorView& answer) const {
    const auto found =
        std::lower_bound(tensors_.begin(), tensors_.end(), name,
                         [](const ArchiveEntry& info, absl::string_view key) { return info.name < key; });
    if (found == tensors_.end() || found->name != name) return absl::OkStatus();
    TensorShape wanted = found->shape;
    if (slice != nullptr) {
      CASK_ASSIGN_OR_RETURN(wanted, slice->Apply(found->shape));
    }
    if (answer.dtype() == found->dtype && answer.shape() == wanted) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(
        channel_.name(), ": tensor ", Quoted(name), " is ", DTypeName(answer.dtype()), " ", answer.shape().ToString(),
        "; the server's list says ", DTypeName(found->dtype), " ", wanted.ToString()));
  }

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
    CASK_RETURN_IF_ERROR(StatusOfReply(reply.status));
    if (reply.tensors.size() == 1) return std::move(reply.tensors[0]);
    return absl::DataLossError(
        absl::StrCat(channel_.name(), ": the answer has ", reply.tensors.size(), " tensors; wanted 1"));
  }

  const std::string path_;
  mutable std::mutex mutex_;
  mutable Channel channel_;
  std::vector<ArchiveEntry> tensors_;
};

// The name in a request, and the slice.
absl::StatusOr<std::vector<std::string>> ParsePull(const Message& request) {
  if (request.tensors.size() == 1 && request.tensors[0].view.dtype() == DType::kString &&
      request.tensors[0].view.shape().rank() == 1) {
    const int64_t count = request.tensors[0].view.num_elements();
    if (count == 1 || count == 2) {
      CASK_ASSIGN_OR_RETURN(const Tensor what, request.tensors[0].view.ToTensor());
      const std::string* const texts = what.data<std::string>();
      return std::vector<std::string>(texts, texts + count);
    }
  }
  return absl::InvalidArgumentError("pull: wanted one tensor, strings [1] or [2]: a name and a slice");
}

}  // namespace

absl::StatusOr<Channel> ConnectToListening(const std::string& socket, absl::string_view command,
                                           absl::Duration timeout) {
  ChannelOptions options;
  options.copy_unsealed = true;
  absl::StatusOr<Channel> channel = Channel::Connect(socket, absl::ZeroDuration(), options);
  if (absl::IsDeadlineExceeded(channel.status())) return Channel::Connect(socket, timeout, options);
  const absl::Status& status = channel.status();
  if (!absl::IsNotFound(status) && !absl::IsUnavailable(status)) return channel;
  return AppendToMessage(
      status, absl::StrCat("; no `tensorcask ", command, "` waits at this socket: start it first with --unix ",
                           Printable(socket)));
}

absl::Status StatusOfReply(const absl::Status& status) {
  constexpr size_t kMaxMessageBytes = 1000;
  constexpr size_t kMostContinuations = 3;
  const absl::string_view message = status.message();
  if (message.size() <= kMaxMessageBytes) return status;
  const auto continues_a_character = [&](size_t at) {
    return (static_cast<unsigned char>(message[at]) & 0xc0) == 0x80;
  };
  size_t end = kMaxMessageBytes;
  while (end > kMaxMessageBytes - kMostContinuations && continues_a_character(end)) --end;
  return absl::Status(status.code(), absl::StrCat(message.substr(0, end), "... (", message.size(), " bytes)"));
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> ConnectToServer(const std::string& socket) {
  return ServedInput::Connect(socket);
}

// ---- TensorService --------------------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<TensorService>> TensorService::Create(std::vector<Source> sources) {
  auto service = std::make_unique<TensorService>();
  service->sources_ = std::move(sources);
  std::vector<std::pair<std::string, const ArchiveEntry*>> infos;
  for (const Source& source : service->sources_) {
    for (const ArchiveEntry& info : source.archive->entries()) {
      const std::string name = absl::StrCat(source.prefix, info.name);
      if (!service->tensors_.try_emplace(name, Entry{source.archive.get(), &info}).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("two tensors are called ", Quoted(name),
                         "; give a file a name of its own: NAME=PATH serves it as NAME/..."));
      }
      if (info.read_status.ok()) infos.emplace_back(name, &info);  // the others may have no dtype
    }
  }
  std::sort(infos.begin(), infos.end());
  std::vector<std::string> texts;
  for (const auto& [name, info] : infos) {
    texts.insert(texts.end(),
                 {name, std::string(DTypeName(info->dtype)), absl::StrJoin(info->shape.dims(), ","),
                  service->tensors_.at(name).input->strides_are_order() ? "" : absl::StrJoin(info->strides, ","),
                  info->encoding, absl::StrCat(info->stored_bytes), info->has_metadata ? "1" : "0",
                  info->decoded_bytes ? absl::StrCat(*info->decoded_bytes) : ""});
  }
  for (const std::string& text : texts) service->list_bytes_ += text.size() + 2;
  const TensorShape shape({static_cast<int64_t>(infos.size()), kColumns});
  CASK_ASSIGN_OR_RETURN(service->list_.view, Strings(shape, std::move(texts)));
  return service;
}

Message TensorService::Answer(const Message& request) {
  Message reply;
  reply.topic = request.topic;
  absl::StatusOr<DecodedTensor> tensor =
      absl::InvalidArgumentError(absl::StrCat("this is a `tensorcask serve`, which answers \"list\" and \"pull\", not ",
                                              Quoted(request.topic), "; a `tensorcask recv` takes what `send` sends"));
  if (request.topic == kListTopic) tensor = list_;
  if (request.topic == kPullTopic) tensor = Pull(request);
  reply.status = tensor.status();
  if (tensor.ok()) reply.tensors.push_back(*std::move(tensor));
  return reply;
}

uint64_t TensorService::AnswerBytes(const Message& request) {
  if (request.topic == kListTopic) return list_bytes_;
  if (request.topic != kPullTopic) return 0;
  const absl::StatusOr<std::vector<std::string>> texts = ParsePull(request);
  if (!texts.ok()) return 0;
  const auto found = tensors_.find((*texts)[0]);
  // A slice, too: in formats without random access the whole tensor is read.
  return found == tensors_.end() ? 0 : ElementBytes(*found->second.info);
}

absl::StatusOr<DecodedTensor> TensorService::Pull(const Message& request) const {
  CASK_ASSIGN_OR_RETURN(const std::vector<std::string> texts, ParsePull(request));
  const auto found = tensors_.find(texts[0]);
  if (found == tensors_.end()) return absl::NotFoundError(absl::StrCat("no tensor ", Quoted(texts[0])));
  const ArchiveReader& input = *found->second.input;
  const std::string& name = found->second.info->name;
  if (texts.size() == 1) return ReadForCopy(input, *found->second.info, /*allow_loss=*/false);
  CASK_ASSIGN_OR_RETURN(const TensorSlice slice, TensorSlice::Parse(texts[1]));
  DecodedTensor part;
  CASK_ASSIGN_OR_RETURN(part.view, input.ReadSlice(name, slice));
  return part;
}

}  // namespace tensorcask::tools
