#include "tensorcask/serialize/archive/formats/archive_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/formats/records_format.h"
#include "tensorcask/serialize/serve/served_tensor.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {

namespace {

void AddNotes(const ArchiveReader& archive, std::vector<std::string>* notes) {
  for (const std::string& note : archive.notes()) notes->push_back(absl::StrCat(archive.path(), ": ", note));
  for (std::string& sentence : NotHeldBesideTensors(archive, RecordsArchiveFormat())) {
    notes->push_back(absl::StrCat("not served: ", sentence));
  }
  for (const std::string& sentence : UnreadableTensors(archive)) {
    notes->push_back(absl::StrCat("not served: ", sentence));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ArchiveService>> ArchiveService::Create(std::vector<Source> sources) {
  auto service = std::make_unique<ArchiveService>();
  service->sources_ = std::move(sources);
  std::vector<ServedTensor> list;
  for (const Source& source : service->sources_) {
    AddNotes(*source.archive, &service->notes_);
    for (const ArchiveEntry& info : source.archive->entries()) {
      if (!info.read_status.ok()) continue;
      ServedTensor tensor;
      tensor.name = absl::StrCat(source.prefix, info.name);
      tensor.dtype = info.dtype;
      tensor.shape = info.shape;
      if (!source.archive->strides_only_permute()) tensor.strides = info.strides;
      tensor.encoding = info.encoding;
      tensor.stored_bytes = info.stored_bytes;
      tensor.decoded_bytes = info.decoded_bytes;
      tensor.has_metadata = info.has_metadata;
      list.push_back(std::move(tensor));
      service->entries_.push_back({source.archive.get(), &info});
    }
  }
  CASK_ASSIGN_OR_RETURN(service->service_, ServeService::Create(std::move(list), service.get(), service->notes_));
  return service;
}

Message ArchiveService::Answer(const Message& request) {
  Message reply;
  reply.topic = request.topic;
  absl::StatusOr<std::vector<DecodedTensor>> tensors = service_->Answer(request.topic, request.tensors);
  reply.status = tensors.status();
  if (tensors.ok()) reply.tensors = *std::move(tensors);
  return reply;
}

uint64_t ArchiveService::AnswerBytes(const Message& request) {
  return service_->AnswerBytes(request.topic, request.tensors);
}

absl::StatusOr<DecodedTensor> ArchiveService::Read(size_t index, const TensorSlice* slice) const {
  const Entry& entry = entries_[index];
  if (slice == nullptr) return ReadForCopy(*entry.archive, *entry.info, /*allow_loss=*/false);
  DecodedTensor part;
  CASK_ASSIGN_OR_RETURN(part.view, entry.archive->ReadSlice(entry.info->name, *slice));
  return part;
}

// The same for a slice: in formats without random access the whole tensor is read.
uint64_t ArchiveService::ReadBytes(size_t index) const { return ElementBytes(*entries_[index].info); }

}  // namespace tensorcask
