// Makes bundles of one data file by hand, for forms that our writer does not write.
//
//   BundleForge bundle;
//   bundle.Add("w", 1, {2}, BytesOfValues<float>({1, 2}));
//   bundle.AddSliced("e", 1, {4}, {"0,2", "2,2"});
//   bundle.AddPiece("e", "0,2", 1, {2}, ...);
//   bundle.Put(&files);                                  // "/m"

#ifndef TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_BUNDLE_FORGE_H_
#define TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_BUNDLE_FORGE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tensorcask/proto/checkpoint.pb.h"
#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"

namespace tensorcask::testing {

template <typename T>
std::string BytesOfValues(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

struct BundleForge {
  // Entries keep their addresses: a test may change an entry after adding it.
  BundleEntryProto& Add(const std::string& key, int dtype, const std::vector<int64_t>& dims, const std::string& bytes) {
    BundleEntryProto& entry = entries[key] = EntryOf(dtype, dims, bytes, static_cast<int64_t>(data.size()));
    data += bytes;
    return entry;
  }
  BundleEntryProto& AddPiece(const std::string& name, const std::string& slice, int dtype,
                             const std::vector<int64_t>& dims, const std::string& bytes) {
    return Add(checkpoint::EncodeSliceKey(name, *TensorSlice::Parse(slice)), dtype, dims, bytes);
  }
  BundleEntryProto& AddSliced(const std::string& name, int dtype, const std::vector<int64_t>& dims,
                              const std::vector<std::string>& slices) {
    BundleEntryProto& entry = entries[name] = EntryOf(dtype, dims, "");
    entry.clear_crc32c();
    for (const std::string& text : slices) {
      TensorSliceProto* const slice = entry.add_slices();
      const TensorSlice parsed = *TensorSlice::Parse(text);
      for (int axis = 0; axis < parsed.rank(); ++axis) {
        TensorSliceProto::Extent* const extent = slice->add_extent();
        if (parsed.IsFullAt(axis)) continue;
        extent->set_start(parsed.extent(axis).start);
        extent->set_length(parsed.extent(axis).length);
      }
    }
    return entry;
  }
  void Put(MemoryFileSystem* files) const {
    BundleHeaderProto header;
    header.set_num_shards(1);
    header.mutable_version()->set_producer(1);
    if (big_endian) header.set_endianness(BundleHeaderProto::BIG);
    std::map<std::string, std::string> content = {{"", header.SerializeAsString()}};
    for (const auto& [key, entry] : entries) content[key] = entry.SerializeAsString();
    files->Put("/m.index", IndexOf(content));
    files->Put("/m.data-00000-of-00001", data);
  }

  bool big_endian = false;
  std::map<std::string, BundleEntryProto> entries;
  std::string data;
};

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_BUNDLE_FORGE_H_
