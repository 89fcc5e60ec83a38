#include "tensorcask/serialize/archive/formats/served_format.h"

#include <cstdint>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/serve/serve_client.h"
#include "tensorcask/serialize/serve/served_tensor.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {
namespace {

constexpr absl::Duration kConnectTimeout = absl::Seconds(10);
constexpr absl::Duration kAnswerTimeout = absl::Minutes(1);

class ServedArchiveReader final : public ArchiveReader {
 public:
  static absl::StatusOr<std::unique_ptr<ArchiveReader>> Connect(const std::string& path,
                                                                const ArchiveReaderOptions& options) {
    const std::string socket(absl::StripPrefix(path, ServedArchiveFormat::kScheme));
    ChannelOptions channel_options;
    channel_options.copy_unsealed = true;  // what is saved must match its checksum, whatever the server does meanwhile
    channel_options.decode.limits = options.limits;
    CASK_ASSIGN_OR_RETURN(
        Channel channel,
        Channel::ConnectToListening(
            socket, kConnectTimeout,
            absl::StrCat("no `tensorcask serve` waits at this socket: start it first with --unix ", socket),
            channel_options));
    std::unique_ptr<ServedArchiveReader> reader(new ServedArchiveReader(path, std::move(channel)));
    CASK_RETURN_IF_ERROR(reader->ReadList(options));
    return std::unique_ptr<ArchiveReader>(std::move(reader));
  }

  absl::string_view format() const override { return "served"; }
  const std::string& path() const override { return path_; }
  const std::vector<ArchiveEntry>& entries() const override { return entries_; }
  std::vector<std::string> notes() const override { return notes_; }

  absl::StatusOr<Tensor> Read(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor tensor, ReadWithMetadata(name));
    return tensor.view.ToTensor();
  }
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const override {
    CASK_ASSIGN_OR_RETURN(const ServedTensor wanted, Describe(name));
    CASK_ASSIGN_OR_RETURN(const DecodedTensor part, client_.Pull(wanted, slice));
    return part.view.ToTensor();
  }
  absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const ServedTensor wanted, Describe(name));
    return client_.Pull(wanted);
  }
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const DecodedTensor tensor, ReadWithMetadata(name));
    return tensor.metadata;
  }

 private:
  ServedArchiveReader(const std::string& path, Channel channel)
      : path_(path),
        channel_(std::move(channel)),
        client_(path, [this](ServeRequest request) { return Ask(std::move(request)); }) {}

  absl::Status ReadList(const ArchiveReaderOptions& options) {
    const auto budget = options.listing_or_new();
    const auto add_note = [&](const std::string& note) -> absl::Status {
      // The message may have one note and repeat it, so its bytes do not count.
      CASK_RETURN_IF_ERROR(budget->Charge(sizeof(std::string) + note.size()));
      notes_.push_back(note);
      return absl::OkStatus();
    };
    const auto add_entry = [&](ServedTensor tensor) -> absl::Status {
      ArchiveEntry entry;
      entry.name = std::move(tensor.name);
      entry.dtype = tensor.dtype;
      entry.shape = std::move(tensor.shape);
      entry.strides = std::move(tensor.strides);
      entry.encoding = std::move(tensor.encoding);
      entry.stored_bytes = tensor.stored_bytes;
      entry.decoded_bytes = tensor.decoded_bytes;
      entry.has_metadata = tensor.has_metadata;
      // Names differ, so the message has each of them; all else may be one value that the message repeats.
      budget->AddIndex(entry.name.size());
      CASK_RETURN_IF_ERROR(budget->Charge(EntryMemory(entry)));
      entries_.push_back(std::move(entry));
      if (static_cast<int64_t>(entries_.size()) <= options.limits.max_entries) return absl::OkStatus();
      return PastLimit(absl::StrCat(path_, ": has more tensors"), "max_entries", options.limits.max_entries);
    };
    return client_.List(add_entry, add_note);
  }

  absl::StatusOr<ServedTensor> Describe(absl::string_view name) const {
    CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, Find(name));
    ServedTensor tensor;
    tensor.name = entry->name;
    tensor.dtype = entry->dtype;
    tensor.shape = entry->shape;
    return tensor;
  }

  absl::StatusOr<std::vector<DecodedTensor>> Ask(ServeRequest request) const {
    Message message;
    message.topic = std::move(request.topic);
    message.tensors = std::move(request.tensors);
    const std::lock_guard<std::mutex> lock(mutex_);
    CASK_ASSIGN_OR_RETURN(Message reply, channel_.Call(message, kAnswerTimeout));
    CASK_RETURN_IF_ERROR(StatusOfReply(reply));
    return std::move(reply.tensors);
  }

  const std::string path_;
  mutable std::mutex mutex_;
  mutable Channel channel_;
  const ServeClient client_;
  std::vector<ArchiveEntry> entries_;
  std::vector<std::string> notes_;
};

}  // namespace

ArchiveTraits ServedArchiveFormat::traits() const {
  ArchiveTraits traits;
  traits.strides = true;
  traits.metadata = true;
  traits.strings = true;
  return traits;
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> ServedArchiveFormat::Open(const std::string& path,
                                                                         const ArchiveReaderOptions& options) const {
  return ServedArchiveReader::Connect(path, options);
}

}  // namespace tensorcask
