// Reads pickles from standard input, each after its length (4 bytes, little-endian), and prints a line for each: the
// value that serialize/torch makes of it, or "refused: " and why. pickle_grammar_test.py compares the lines with
// Python.
//
//   none true 7 f3ff0000000000000 t6162 b00ff (..) [..] {key: value, ..} set(..) size(..) complex(f..,f..)
//   dtype(float32) device(6370) object(argparse.Namespace, arguments, state)
//
// Items of sets are sorted.

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/torch/internal/pickle.h"
#include "tensorcask/serialize/torch/internal/tensor_walk.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/tensor/base/endian.h"

namespace tensorcask::torch {
namespace {

std::string Hex(absl::string_view bytes) { return absl::BytesToHexString(bytes); }

std::string Float(double value) {
  char bytes[sizeof(value)];
  StoreLittleEndian(value, bytes);
  std::reverse(bytes, bytes + sizeof(bytes));
  return absl::StrCat("f", Hex({bytes, sizeof(bytes)}));
}

// Recursive: pickles of this test are shallow.
std::string Print(Value value) {
  std::vector<std::string> items;
  for (size_t i = 0; i < value.size() && value.kind() != ValueKind::kMap; ++i) items.push_back(Print(value.item(i)));
  const std::string joined = absl::StrJoin(items, ", ");
  switch (value.kind()) {
    case ValueKind::kNone:
      return "none";
    case ValueKind::kBool:
      return value.bool_value() ? "true" : "false";
    case ValueKind::kInt:
      return absl::StrCat(value.int_value());
    case ValueKind::kUint:
      return absl::StrCat(value.uint_value());
    case ValueKind::kBigInt:
      return std::string(value.text());
    case ValueKind::kFloat:
      return Float(value.float_value());
    case ValueKind::kComplex:
      return absl::StrCat("complex(", Float(value.complex_value().real()), ",", Float(value.complex_value().imag()),
                          ")");
    case ValueKind::kText:
      return absl::StrCat("t", Hex(value.text()));
    case ValueKind::kBytes:
      return absl::StrCat("b", Hex(value.text()));
    case ValueKind::kDType:
      return absl::StrCat("dtype(", value.text(), ")");
    case ValueKind::kDevice:
      return absl::StrCat("device(", Hex(value.text()), ")");
    case ValueKind::kTensor:
      return absl::StrCat("tensor(", value.tensor(), ")");
    case ValueKind::kFileArray:
      return "array";
    case ValueKind::kList:
      return absl::StrCat("[", joined, "]");
    case ValueKind::kTuple:
      return absl::StrCat("(", joined, ")");
    case ValueKind::kSize:
      return absl::StrCat("size(", joined, ")");
    case ValueKind::kSet:
      std::sort(items.begin(), items.end());
      return absl::StrCat("set(", absl::StrJoin(items, ", "), ")");
    case ValueKind::kMap:
      for (size_t i = 0; i < value.size(); ++i) {
        items.push_back(absl::StrCat(Print(value.key(i)), ": ", Print(value.entry(i))));
      }
      return absl::StrCat("{", absl::StrJoin(items, ", "), "}");
    case ValueKind::kObject:
      return absl::StrCat("object(", value.class_name(), ", ", Print(value.arguments()), ", ", Print(value.state()),
                          ")");
  }
  return "";
}

absl::StatusOr<std::string> Answer(const std::string& bytes) {
  const DecodeLimits limits;
  DecodeQuota quota = DecodeQuota::ForUnbacked(limits, bytes.size());
  absl::StatusOr<Pickle> pickle = ReadPickle(bytes, {}, &quota);
  if (!pickle.ok()) return pickle.status();
  if (pickle->size_bytes != bytes.size()) return absl::DataLossError("bytes behind the end");
  ListingBudget budget(limits);
  const auto tensors = FindTensors(*pickle, "", NameForm::kJoined, limits, &budget);
  if (!tensors.ok()) return tensors.status();
  const ValueTree tree = ToValues(*pickle, {});
  constexpr uint64_t kMostPrinted = 100'000;
  if (tree.root().num_values() > kMostPrinted) return std::string("large");
  return Print(tree.root());
}

int Main() {
  char length[sizeof(uint32_t)];
  while (std::cin.read(length, sizeof(length))) {
    std::string bytes(LoadLittleEndian<uint32_t>(length), '\0');
    if (!std::cin.read(&bytes[0], static_cast<std::streamsize>(bytes.size()))) return 1;
    const absl::StatusOr<std::string> answer = Answer(bytes);
    if (answer.ok()) {
      std::cout << *answer << '\n';
    } else {
      std::cout << "refused: " << absl::StrReplaceAll(answer.status().message(), {{"\n", " "}}) << '\n';
    }
  }
  return 0;
}

}  // namespace
}  // namespace tensorcask::torch

int main() { return tensorcask::torch::Main(); }
