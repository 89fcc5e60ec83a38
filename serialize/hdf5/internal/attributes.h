// The attributes of groups and datasets as values: numbers, texts and lists of them.

#ifndef TENSORCASK_SERIALIZE_HDF5_INTERNAL_ATTRIBUTES_H_
#define TENSORCASK_SERIALIZE_HDF5_INTERNAL_ATTRIBUTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/hdf5/internal/cursor.h"
#include "tensorcask/serialize/hdf5/internal/file.h"
#include "tensorcask/serialize/hdf5/internal/object_header.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/values/value.h"

namespace tensorcask::hdf5 {

// The dims of a dataspace message. Errors: DataLoss if it breaks a rule.
struct Dataspace {
  bool is_null = false;  // there are no elements, not even one
  std::vector<int64_t> dims;
};
absl::StatusOr<Dataspace> ParseDataspace(absl::string_view body, const File& file);

struct Attribute {
  std::string name;
  ValueTree::Id value = 0;  // in the tree
  // Not OK: the attribute is not read, and `value` says nothing.
  absl::Status status;
};

class AttributeReader {
 public:
  // Both outlive the reader.
  AttributeReader(ListingBudget* listing, File* file) : listing_(listing), file_(file) {}

  // All attributes of an object, in the order of the file, with their values in *tree. Errors: ResourceExhausted past
  // `listing`; those of the source. What is wrong with one attribute is its status.
  absl::StatusOr<std::vector<Attribute>> Read(const std::vector<Message>& header, ValueTree* tree);

 private:
  absl::Status Add(const Message& message, ValueTree* tree, std::vector<Attribute>* attributes);
  absl::Status ReadMany(const Message& message, ValueTree* tree, std::vector<Attribute>* attributes);
  absl::StatusOr<ValueTree::Id> ReadOne(const Message& message, std::string* name, ValueTree* tree);
  // The text that a reference at `in` leads to: its length, the address of a collection, and its number in that.
  absl::StatusOr<std::string> LongText(Cursor* in);
  absl::Status ReadCollection(uint64_t address);

  ListingBudget* const listing_;
  File* const file_;
  // Texts of the collections that were read, by address and number.
  absl::flat_hash_map<uint64_t, absl::flat_hash_map<uint64_t, std::string>> collections_;
};

}  // namespace tensorcask::hdf5

#endif  // TENSORCASK_SERIALIZE_HDF5_INTERNAL_ATTRIBUTES_H_
