#include "tensorcask/tests/support/crash_model.h"

#include <algorithm>
#include <functional>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tensorcask::testing {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kSectorBytes = 512;
constexpr size_t kTornAt[] = {0, 1, 511, 512, 4095, 4096};
constexpr int kFolder = -1;  // what a name stands for that is no file

// The content of a file where bytes are missing.
enum class Missing { kShort, kZeros, kGarbage };
constexpr Missing kAllMissing[] = {Missing::kShort, Missing::kZeros, Missing::kGarbage};

absl::string_view MissingName(Missing missing) {
  switch (missing) {
    case Missing::kShort:
      return "short";
    case Missing::kZeros:
      return "zeros";
    case Missing::kGarbage:
      return "garbage";
  }
  return "?";
}

// A part of an operation that is there or not on its own: an operation on names, or one page of a write.
struct Unit {
  size_t op = 0;
  bool is_name = false;
  uint64_t offset = 0;  // in the file
  size_t bytes = 1;     // the size of the page; 1 for a name
};

// The disk before the crash: what is durable, and what may be lost.
class Disk {
 public:
  Disk(const std::vector<CrashOp>& log, size_t prefix) : log_(log) {
    for (size_t n = 0; n < prefix; ++n) Perform(n);
  }

  const std::vector<Unit>& units() const { return units_; }
  const CrashOp& op(const Unit& unit) const { return log_[unit.op]; }
  std::string FolderOfUnit(size_t i) const { return FolderOf(op(units_[i]).path); }

  // The state in which kept[i] bytes of unit i are there.
  CrashState Build(const std::vector<size_t>& kept, absl::FunctionRef<Missing(int file)> missing) const {
    std::map<std::string, int> names = names_;
    std::vector<std::string> bytes = files_;
    for (size_t i = 0; i < units_.size(); ++i) {
      if (kept[i] == 0) continue;
      const Unit& unit = units_[i];
      if (unit.is_name) {
        Apply(op(unit), &names);
      } else {
        const CrashOp& write = op(unit);
        const auto at = static_cast<size_t>(unit.offset);
        std::string& file = bytes[static_cast<size_t>(write.file)];
        if (file.size() < at + kept[i]) Extend(at + kept[i], missing(write.file), &file);
        file.replace(at, kept[i], write.bytes, static_cast<size_t>(unit.offset - write.offset), kept[i]);
      }
    }
    CrashState state;
    std::set<std::string> folders = {"/", "."};
    for (const auto& [path, file] : names) {  // a folder sorts before what is in it
      if (folders.count(FolderOf(path)) == 0) continue;
      if (file == kFolder) {
        folders.insert(path);
        state.folders.push_back(path);
        continue;
      }
      std::string content = bytes[static_cast<size_t>(file)];
      const size_t whole = sizes_[static_cast<size_t>(file)];
      if (content.size() < whole && missing(file) != Missing::kShort) Extend(whole, missing(file), &content);
      state.files[path] = std::move(content);
    }
    return state;
  }

 private:
  static void Extend(size_t to, Missing missing, std::string* file) {
    size_t at = file->size();
    file->resize(to, '\0');
    if (missing != Missing::kGarbage) return;
    for (; at < to; ++at) (*file)[at] = static_cast<char>(0xa5 ^ (at * 131));
  }

  static void Apply(const CrashOp& op, std::map<std::string, int>* names) {
    if (op.kind == CrashOp::kRename) names->erase(op.from);
    if (op.kind == CrashOp::kRemove) {
      names->erase(op.path);
    } else {
      (*names)[op.path] = op.kind == CrashOp::kMakeFolder ? kFolder : op.file;
    }
  }

  void Perform(size_t n) {
    const CrashOp& op = log_[n];
    switch (op.kind) {
      case CrashOp::kCreate:
        files_.emplace_back();
        sizes_.push_back(0);
        [[fallthrough]];
      case CrashOp::kMakeFolder:
      case CrashOp::kRename:
      case CrashOp::kLink:
      case CrashOp::kRemove:
        units_.push_back({n, /*is_name=*/true});
        break;
      case CrashOp::kWrite:
        for (uint64_t done = 0; done < op.bytes.size();) {
          const uint64_t at = op.offset + done;
          const uint64_t bytes = std::min<uint64_t>(op.bytes.size() - done, kPageBytes - at % kPageBytes);
          units_.push_back({n, /*is_name=*/false, at, static_cast<size_t>(bytes)});
          done += bytes;
        }
        sizes_[static_cast<size_t>(op.file)] =
            std::max(sizes_[static_cast<size_t>(op.file)], static_cast<size_t>(op.offset) + op.bytes.size());
        break;
      case CrashOp::kSync:
        Harden([&](const Unit& unit) {
          return !unit.is_name && this->op(unit).file == op.file && dropped_.count(unit.op) == 0;
        });
        break;
      case CrashOp::kFailedSync:
        for (const Unit& unit : units_) {
          if (!unit.is_name && this->op(unit).file == op.file) dropped_.insert(unit.op);
        }
        break;
      case CrashOp::kSyncFolder:
        Harden([&](const Unit& unit) { return unit.is_name && FolderOf(this->op(unit).path) == op.path; });
        break;
      case CrashOp::kSettle:
        dropped_.clear();
        Harden([](const Unit&) { return true; });
        break;
    }
  }

  // Units become durable.
  void Harden(absl::FunctionRef<bool(const Unit&)> which) {
    std::vector<Unit> rest;
    for (const Unit& unit : units_) {
      const CrashOp& op = this->op(unit);
      if (!which(unit)) {
        rest.push_back(unit);
      } else if (unit.is_name) {
        Apply(op, &names_);
      } else {
        std::string& file = files_[static_cast<size_t>(op.file)];
        const auto at = static_cast<size_t>(unit.offset);
        if (file.size() < at + unit.bytes) file.resize(at + unit.bytes);
        file.replace(at, unit.bytes, op.bytes, static_cast<size_t>(unit.offset - op.offset), unit.bytes);
      }
    }
    units_ = std::move(rest);
  }

  const std::vector<CrashOp>& log_;
  std::map<std::string, int> names_;  // durable
  std::vector<std::string> files_;    // durable bytes of each file
  std::vector<size_t> sizes_;         // the size of each file, as its writer sees it
  std::vector<Unit> units_;           // not durable, in the order of the log
  std::set<size_t> dropped_;          // writes that a failed sync gave up
};

// Puts the states of one prefix together.
class States {
 public:
  States(const Disk& disk, CrashMode mode, absl::FunctionRef<bool(const CrashState&)> visit)
      : disk_(disk), units_(disk.units()), mode_(mode), visit_(visit) {
    for (const Unit& unit : units_) all_.push_back(unit.bytes);
  }

  int64_t count() const { return count_; }

  void All() {
    Emit(all_, Missing::kShort, [] { return std::string("all"); });
  }

  void Systematic() {
    const std::vector<size_t> none(units_.size(), 0);
    EmitEach(none, "only what was synced");
    std::vector<size_t> names = none;
    for (size_t i = 0; i < units_.size(); ++i) {
      if (units_[i].is_name) names[i] = 1;
    }
    EmitEach(names, "names without data");
    for (size_t i = 0; i < units_.size(); ++i) {
      std::vector<size_t> kept = all_;
      kept[i] = 0;
      if (Ordered(i)) LoseAfter(i, &kept);
      EmitEach(kept, "all but ", i);
      kept = none;
      kept[i] = units_[i].bytes;
      if (Ordered(i)) KeepBefore(i, &kept);
      EmitEach(kept, "only ", i);
      if (units_[i].is_name) continue;
      kept = names;
      kept[i] = units_[i].bytes;
      EmitEach(kept, "names and only ", i);
    }
    Torn();
  }

  void Random(int states, uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int n = 0; n < states && !stopped_; ++n) {
      const uint64_t keep_of_8 = 1 + random() % 7;
      const uint64_t fill = random();
      std::vector<size_t> kept(units_.size());
      std::map<std::string, bool> lost;  // by folder: has lost an operation
      for (size_t i = 0; i < units_.size(); ++i) {
        const bool keeps = random() % 8 < keep_of_8;
        kept[i] = keeps ? units_[i].bytes : 0;
        if (Ordered(i)) {
          bool& gone = lost[disk_.FolderOfUnit(i)];
          gone = gone || !keeps;
          if (gone) kept[i] = 0;
        } else if (keeps && units_[i].bytes > kSectorBytes && random() % 8 == 0) {
          kept[i] = (random() % (units_[i].bytes / kSectorBytes)) * kSectorBytes;
        }
      }
      Emit(
          kept, [&](int file) { return kAllMissing[(fill >> (file * 2 % 60)) % 3]; },
          [&] { return absl::StrCat("random ", n, " of seed ", seed); });
    }
  }

  void Exhaustive() {
    const uint64_t subsets = uint64_t{1} << units_.size();
    for (uint64_t subset = 0; subset < subsets && !stopped_; ++subset) {
      std::vector<size_t> kept(units_.size());
      std::map<std::string, bool> lost;
      bool possible = true;
      for (size_t i = 0; i < units_.size(); ++i) {
        kept[i] = (subset >> i) % 2 != 0 ? units_[i].bytes : 0;
        if (!Ordered(i)) continue;
        bool& gone = lost[disk_.FolderOfUnit(i)];
        gone = gone || kept[i] == 0;
        if (gone && kept[i] != 0) possible = false;
      }
      if (possible) EmitEach(kept, absl::StrCat("subset ", absl::Hex(subset)));
    }
  }

 private:
  bool Ordered(size_t i) const { return mode_ == CrashMode::kOrdered && units_[i].is_name; }

  void LoseAfter(size_t i, std::vector<size_t>* kept) const {
    for (size_t j = i + 1; j < units_.size(); ++j) {
      if (units_[j].is_name && disk_.FolderOfUnit(j) == disk_.FolderOfUnit(i)) (*kept)[j] = 0;
    }
  }

  void KeepBefore(size_t i, std::vector<size_t>* kept) const {
    for (size_t j = 0; j < i; ++j) {
      if (units_[j].is_name && disk_.FolderOfUnit(j) == disk_.FolderOfUnit(i)) (*kept)[j] = 1;
    }
  }

  // The last write that is not durable, cut.
  void Torn() {
    size_t last = units_.size();
    while (last > 0 && units_[last - 1].is_name) --last;
    if (last == 0) return;
    const size_t op = units_[last - 1].op;
    const CrashOp& write = disk_.op(units_[last - 1]);
    for (const size_t cut : kTornAt) {
      if (cut >= write.bytes.size()) continue;
      std::vector<size_t> kept = all_;
      for (size_t i = 0; i < units_.size(); ++i) {
        if (units_[i].is_name || units_[i].op != op) continue;
        const auto before = static_cast<size_t>(units_[i].offset - write.offset);
        kept[i] = cut <= before ? 0 : std::min(units_[i].bytes, cut - before);
      }
      EmitEach(kept, absl::StrCat("last write cut after ", cut, " bytes"));
    }
  }

  void EmitEach(const std::vector<size_t>& kept, absl::string_view what, size_t unit = SIZE_MAX) {
    // Names alone leave no bytes missing.
    bool whole = true;
    for (size_t i = 0; i < units_.size(); ++i) whole = whole && (units_[i].is_name || kept[i] == units_[i].bytes);
    for (const Missing missing : kAllMissing) {
      Emit(kept, missing, [&] {
        std::string text(what);
        if (unit != SIZE_MAX) absl::StrAppend(&text, disk_.op(units_[unit]).ToString());
        if (unit != SIZE_MAX && !units_[unit].is_name) absl::StrAppend(&text, " page at ", units_[unit].offset);
        return absl::StrCat(text, ", ", MissingName(missing));
      });
      if (whole) break;
    }
  }

  void Emit(const std::vector<size_t>& kept, Missing missing, absl::FunctionRef<std::string()> what) {
    Emit(
        kept, [&](int) { return missing; }, what);
  }

  void Emit(const std::vector<size_t>& kept, absl::FunctionRef<Missing(int)> missing,
            absl::FunctionRef<std::string()> what) {
    if (stopped_) return;
    CrashState state = disk_.Build(kept, missing);
    state.what = what();
    ++count_;
    stopped_ = !visit_(state);
  }

  const Disk& disk_;
  const std::vector<Unit>& units_;
  const CrashMode mode_;
  const absl::FunctionRef<bool(const CrashState&)> visit_;
  std::vector<size_t> all_;
  int64_t count_ = 0;
  bool stopped_ = false;
};

}  // namespace

void CrashState::Restore(MemoryFileSystem* to) const {
  for (const std::string& folder : folders) to->MakeFolder(folder);
  for (const auto& [path, bytes] : files) to->Put(path, bytes);
}

uint64_t CrashState::Fingerprint() const {
  uint64_t sum = 0;
  const auto add = [&](const std::string& text) {
    sum = (sum ^ std::hash<std::string>()(text)) * 0x9e3779b97f4a7c15u + (sum >> 29);
  };
  for (const std::string& folder : folders) add(folder);
  for (const auto& [path, bytes] : files) {
    add(path);
    add(bytes);
  }
  return sum;
}

int64_t CrashModel::ForEachState(size_t prefix, const CrashSampling& sampling,
                                 absl::FunctionRef<bool(const CrashState&)> visit) const {
  const Disk disk(log_, std::min(prefix, log_.size()));
  States states(disk, mode_, visit);
  if (sampling.systematic) states.All();
  if (mode_ == CrashMode::kProcess) return states.count();
  if (sampling.systematic) states.Systematic();
  states.Random(sampling.random_states, sampling.seed + prefix * 0x9e3779b97f4a7c15u);
  if (disk.units().size() <= sampling.max_exhaustive) states.Exhaustive();
  return states.count();
}

}  // namespace tensorcask::testing
