// Files to publish, and what a reader finds of them.

#ifndef TENSORCASK_TESTS_SERIALIZE_IO_PUBLICATION_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_IO_PUBLICATION_TESTING_H_

#include <cstddef>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tests/support/faulty_file_system.h"

namespace tensorcask::testing {

struct Content {
  std::string path;
  std::string bytes;
};

// Publishes `files` in this order; the first thing that goes wrong.
inline absl::Status PublishAll(const PublishOptions& options, const std::vector<Content>& files) {
  Publication publish(options);
  std::vector<FileSink*> sinks;
  for (const Content& file : files) {
    CASK_ASSIGN_OR_RETURN(FileSink * sink, publish.Add(file.path));
    sinks.push_back(sink);
  }
  for (size_t i = 0; i < files.size(); ++i) CASK_RETURN_IF_ERROR(sinks[i]->Append(files[i].bytes));
  return publish.Commit();
}

inline PublishOptions On(FileSystem* files, bool sync = true, bool overwrite = false) {
  return {files, sync, overwrite};
}

inline const std::vector<Content> kNew = {
    {"m.data-0", "new data 0"}, {"m.data-1", "new data 1"}, {"m.index", "new index"}};
// Data files of other names than those of kNew, as a caller who overwrites gives them.
inline const std::vector<Content> kOld = {
    {"m.old-0", "old data 0"}, {"m.old-1", "old data 1"}, {"m.index", "old index"}};

inline void PutAll(MemoryFileSystem* files, const std::vector<Content>& contents) {
  for (const Content& content : contents) files->Put(content.path, content.bytes);
}

// "new", "old", "none" or "mixed": what a reader finds who begins with the index.
inline std::string WhatReadersFind(const MemoryFileSystem& files) {
  if (files.Find("m.index") == nullptr) return "none";
  std::string kind = files.Find("m.index")->substr(0, 3);
  for (const Content& content : kind == "new" ? kNew : kOld) {
    if (files.Find(content.path) == nullptr || *files.Find(content.path) != content.bytes) return "mixed";
  }
  return kind;
}

// The steps on whose order durability rests, without the random part of temporary names.
inline std::vector<std::string> StepsAfterWriting(const FaultyFileSystem& files) {
  std::vector<std::string> steps;
  for (const FaultyFileSystem::Record& record : files.log()) {
    std::string path = record.path;
    for (size_t at; (at = path.find(".tmp-")) != std::string::npos;) path.replace(at, 21, "~");
    switch (record.operation) {
      case FileOperation::kSync:
      case FileOperation::kRename:
      case FileOperation::kSyncFolder:
      case FileOperation::kRemove:
        steps.push_back(std::string(FileOperationName(record.operation)) + " " + path);
        break;
      default:
        break;
    }
  }
  return steps;
}

inline std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  EXPECT_EQ(FileSystem::Posix()->List(folder, &names), 0);
  return names;
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_IO_PUBLICATION_TESTING_H_
