// The progress of a command whose work is reading files: how many bytes it has read, and how long the rest will take.
//
//   ReadProgress progress(console, absl::StrCat("verifying ", path));
//   options.files = &progress;                      // the reader counts by itself (InputOptions, formats.h)
//   progress.SetTotal(bytes);
//   ... progress.Print([&] { console.out << "damaged: ...\n"; }); ...

#ifndef TENSORCASK_TOOLS_READ_PROGRESS_H_
#define TENSORCASK_TOOLS_READ_PROGRESS_H_

#include <cstdint>
#include <mutex>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/tools/output/console.h"

namespace tensorcask::tools {

// ToolFiles(), which counts the bytes that are read, and shows the count on a terminal. Must outlive the readers
// that use it. Thread-safe.
class ReadProgress final : public ForwardingFileSystem {
 public:
  // `text` stands before the count.
  ReadProgress(Console& console, std::string text);

  void SetTotal(uint64_t bytes);  // of the work; 0: unknown
  // Calls print(), which may write to the console. On a terminal the progress line gives way before, and console.out is
  // flushed after that.
  void Print(absl::FunctionRef<void()> print);

  IoResult OpenToReadSoon(const std::string& path) override { return behind()->OpenToReadSoon(path); }
  IoResult ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) override;
  IoResult ReadManyAt(IoResult handle, absl::Span<const ReadRange> ranges) override;
  IoResult ReadPieceAt(IoResult handle, absl::Span<const ReadRange> ranges) override;
  IoResult ReadPieceSoon(IoResult handle, absl::Span<ReadRange> ranges, absl::FunctionRef<bool()> find_memory) override;

 private:
  void Add(uint64_t bytes);
  IoResult AddAll(absl::Span<const ReadRange> ranges, IoResult result);

  Console& console_;
  std::mutex mutex_;  // guards all below
  const std::string text_;
  uint64_t bytes_ = 0;
  uint64_t total_ = 0;
  ProgressLine line_;
};

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_READ_PROGRESS_H_
