// Makes a Header of the JSON's events. Offsets count from the start of the data.

#ifndef TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_HEADER_HANDLER_H_
#define TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_HEADER_HANDLER_H_

#include <cstdint>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/safetensors/internal/json_events.h"
#include "tensorcask/serialize/safetensors/internal/json_header.h"

namespace tensorcask::safetensors {

class HeaderHandler final : public JsonHandler {
 public:
  // Requires: `options` and *header outlive this. `text_bytes` is the size of the header.
  HeaderHandler(uint64_t text_bytes, uint64_t data_bytes, const ParseOptions& options, Header* header)
      : data_bytes_(data_bytes),
        options_(options),
        header_(header),
        own_memory_(options.limits, /*bytes_per_index_byte=*/1),
        memory_(options.memory != nullptr ? options.memory : &own_memory_) {
    memory_->AddIndex(text_bytes);
  }

  absl::Status Null() override;
  absl::Status Bool(bool value) override;
  absl::Status Unsigned(uint64_t value) override;
  absl::Status OtherNumber(absl::string_view text) override;
  absl::Status String(std::string* value) override;
  absl::Status Key(std::string* name) override;
  absl::Status StartObject() override;
  absl::Status EndObject() override;
  absl::Status StartArray() override;
  absl::Status EndArray() override;

 private:
  // What comes next: the value of a key, or the next key (or number) of an object (or array).
  enum class State {
    kStart,   // the object around everything
    kName,    // a tensor's name, or __metadata__
    kTensor,  // the object of a tensor
    kField,   // a key in it
    kDType,   // the values of these keys
    kShape,
    kOffsets,
    kShapeItems,
    kOffsetItems,
    kUnknown,   // the value of another key
    kMetadata,  // the value of __metadata__
    kMetadataKey,
    kMetadataValue,
    kDone,
  };

  absl::Status StartTensor(std::string* name);
  absl::Status StartField(absl::string_view name);
  absl::Status StartMetadataEntry(std::string* name);
  absl::Status FinishTensor();
  // A value other than the one that the state wants: skipped, stored as text, or an error that says `found`.
  absl::Status OtherValue(absl::string_view found);
  absl::Status AddMetadata(std::string value);
  absl::Status StartSkipping(absl::string_view what);
  absl::Status CountEntry();
  absl::Status Wrong(absl::string_view what) const;  // DataLoss, naming the tensor

  const uint64_t data_bytes_;
  const ParseOptions& options_;
  Header* const header_;
  State state_ = State::kStart;
  int skipping_ = 0;  // arrays and objects around this event that are skipped
  State after_skipping_ = State::kStart;
  bool has_metadata_ = false;
  unsigned fields_ = 0;  // bits of the fields that the tensor has
  std::string unknown_;  // not empty: why this version can only list the tensor
  int64_t num_entries_ = 0;
  ListingBudget own_memory_;
  ListingBudget* const memory_;  // that the entries take
  absl::InlinedVector<int64_t, 8> dims_;
  absl::InlinedVector<uint64_t, 2> offsets_;
  std::string metadata_key_;
};

}  // namespace tensorcask::safetensors

#endif  // TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_HEADER_HANDLER_H_
