#include "tensorcask/tensor/memory/memory_snapshot.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/check.h"

namespace tensorcask {
namespace {

absl::string_view NameOf(MemoryBlock::State state) {
  switch (state) {
    case MemoryBlock::State::kAllocated:
      return "active_allocated";
    case MemoryBlock::State::kAwaitingFree:
      return "active_pending_free";
    case MemoryBlock::State::kInactive:
      return "inactive";
  }
  return "";
}

char MarkOf(MemoryBlock::State state) {
  if (state == MemoryBlock::State::kAllocated) return '#';
  return state == MemoryBlock::State::kAwaitingFree ? '~' : '.';
}

// The few operations of pickle protocol 2 that a snapshot needs. A list or dict is followed by Append or SetItem for
// each of its elements.
class Pickle {
 public:
  void Dict() { text_ += '}'; }
  void List() { text_ += ']'; }
  void Append() { text_ += 'a'; }   // adds the last value to the list before it
  void SetItem() { text_ += 's'; }  // adds the last key and value to the dict before them
  void Pair() { text_ += '\x86'; }  // makes a tuple of the last two values
  void Bool(bool value) { text_ += value ? '\x88' : '\x89'; }

  void Text(absl::string_view text) {
    text_ += 'X';
    LittleEndian(text.size(), 4);
    text_.append(text.data(), text.size());
  }
  void Number(uint64_t value) {
    if (value <= 0xff) {
      text_ += 'K';
      LittleEndian(value, 1);
    } else if (value <= 0x7fffffff) {
      text_ += 'J';
      LittleEndian(value, 4);
    } else {
      // Bytes of a signed number. Addresses and sizes are below 2^63.
      text_ += "\x8a\x08";
      LittleEndian(value, 8);
    }
  }
  void Item(absl::string_view key, uint64_t value) {
    Text(key);
    Number(value);
    SetItem();
  }
  void Item(absl::string_view key, absl::string_view value) {
    Text(key);
    Text(value);
    SetItem();
  }

  std::string Finish() { return text_ + '.'; }

 private:
  void LittleEndian(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> (8 * i) & 0xff);
  }

  std::string text_ = "\x80\x02";
};

// Which of two marks a cell shows that has both.
char Stronger(char a, char b) {
  if (a == '#' || b == '#') return '#';
  return a == '~' || b == '~' ? '~' : '.';
}

}  // namespace

std::string MemorySnapshot::ToJson() const {
  std::string json = "{\"segments\": [";
  absl::string_view separator;
  for (const MemorySegment& segment : segments) {
    absl::StrAppend(&json, separator, "\n  {\"device\": \"", device, "\", \"address\": ", segment.address,
                    ", \"total_size\": ", segment.bytes, ", \"allocated_size\": ", segment.allocated_bytes,
                    ", \"active_size\": ", segment.active_bytes, ", \"stream\": ", segment.stream,
                    ", \"segment_type\": \"", segment.is_large ? "large" : "small", "\", \"segment_pool_id\": [",
                    segment.pool_id, ", 0], \"blocks\": [");
    absl::string_view block_separator;
    for (const MemoryBlock& block : segment.blocks) {
      absl::StrAppend(&json, block_separator, "\n    {\"address\": ", block.address, ", \"size\": ", block.bytes,
                      ", \"requested_size\": ", block.requested_bytes, ", \"state\": \"", NameOf(block.state), "\"}");
      block_separator = ",";
    }
    absl::StrAppend(&json, "]}");
    separator = ",";
  }
  absl::StrAppend(&json, "]}\n");
  return json;
}

std::string MemorySnapshot::ToPickle() const {
  Pickle pickle;
  const auto no_frames = [&pickle] {
    pickle.Text("frames");
    pickle.List();
    pickle.SetItem();
  };
  pickle.Dict();
  pickle.Text("segments");
  pickle.List();
  for (const MemorySegment& segment : segments) {
    pickle.Dict();
    pickle.Item("device", static_cast<uint64_t>(device_index));
    pickle.Item("address", segment.address);
    pickle.Item("total_size", segment.bytes);
    pickle.Item("allocated_size", segment.allocated_bytes);
    pickle.Item("active_size", segment.active_bytes);
    pickle.Item("stream", static_cast<uint64_t>(segment.stream));
    pickle.Item("segment_type", segment.is_large ? "large" : "small");
    pickle.Text("segment_pool_id");
    pickle.Number(static_cast<uint64_t>(segment.pool_id));
    pickle.Number(0);
    pickle.Pair();
    pickle.SetItem();
    pickle.Text("is_expandable");
    pickle.Bool(segment.is_expandable);
    pickle.SetItem();
    no_frames();
    pickle.Text("blocks");
    pickle.List();
    for (const MemoryBlock& block : segment.blocks) {
      pickle.Dict();
      pickle.Item("address", block.address);
      pickle.Item("size", block.bytes);
      pickle.Item("requested_size", block.requested_bytes);
      pickle.Item("state", NameOf(block.state));
      no_frames();
      pickle.Append();
    }
    pickle.SetItem();
    pickle.Append();
  }
  pickle.SetItem();
  // A list of events for each device up to this one, without events.
  pickle.Text("device_traces");
  pickle.List();
  for (int32_t i = 0; i <= device_index; ++i) {
    pickle.List();
    pickle.Append();
  }
  pickle.SetItem();
  return pickle.Finish();
}

std::string MemorySnapshot::Draw(int width) const {
  CASK_CHECK(width > 0, "a drawing has at least one column");
  std::string text;
  for (const MemorySegment& segment : segments) {
    std::string cells(static_cast<size_t>(width), '.');
    const double bytes_per_cell = static_cast<double>(segment.bytes) / width;
    size_t start = 0;
    for (const MemoryBlock& block : segment.blocks) {
      const auto first = static_cast<size_t>(static_cast<double>(start) / bytes_per_cell);
      start += block.bytes;
      const auto last = static_cast<size_t>(static_cast<double>(start - 1) / bytes_per_cell);
      for (size_t cell = first; cell <= std::min(last, cells.size() - 1); ++cell) {
        cells[cell] = Stronger(cells[cell], MarkOf(block.state));
      }
    }
    absl::StrAppendFormat(&text, "0x%x  %d bytes  %s  stream %d  %s\n", segment.address, segment.bytes,
                          segment.is_large ? "large" : "small", segment.stream, cells);
  }
  return text;
}

}  // namespace tensorcask
