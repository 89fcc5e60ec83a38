#include "tensorcask/serialize/torch/internal/rebuild_values.h"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace tensorcask::torch {
namespace {

using Kind = Object::Kind;

bool IsNumeric(Kind kind) { return kind == Kind::kInt || kind == Kind::kFloat || kind == Kind::kBool; }

double AsDouble(const Object& object) {
  return object.kind == Kind::kFloat ? object.real : static_cast<double>(object.integer);
}

// The bytes of a text whose characters are all below 256.
std::optional<std::string> ToLatin1(absl::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80) {
      bytes += text[i];
      continue;
    }
    if ((byte != 0xc2 && byte != 0xc3) || i + 1 == text.size()) return std::nullopt;
    const auto next = static_cast<unsigned char>(text[++i]);
    bytes += static_cast<char>((byte << 6 & 0xc0) | (next & 0x3f));
  }
  return bytes;
}

}  // namespace

absl::StatusOr<Ref> MakeDict(const CallArguments& call, size_t first) {
  PickleBuilder& builder = call.builder();
  if (call.size() <= first) return builder.List(Kind::kDict, {});
  if (call.size() == first + 1 && call.Is(first, Kind::kDict)) {
    return builder.List(Kind::kDict, call.list(first));
  }
  if (call.size() != first + 1 || !call.IsList(first)) return call.Wrong("nothing, a dict or a list of pairs");
  std::vector<Ref> entries;
  for (const Ref pair : call.list(first)) {
    const Kind kind = builder.object(pair).kind;
    if ((kind != Kind::kList && kind != Kind::kTuple) || builder.pickle().items(pair).size() != 2) {
      return call.Wrong("nothing, a dict or a list of pairs");
    }
    const absl::Span<const Ref> items = builder.pickle().items(pair);
    entries.insert(entries.end(), items.begin(), items.end());
  }
  return builder.List(Kind::kDict, entries);
}

absl::StatusOr<Ref> MakeBytes(const CallArguments& call) {
  PickleBuilder& builder = call.builder();
  if (call.size() == 0) return builder.Text("", Kind::kBytes);
  if (call.size() == 1 && call.Is(0, Kind::kBytes)) return call.ref(0);
  const bool is_latin1 = call.size() == 2 && call.Is(0, Kind::kText) && call.Is(1, Kind::kText) &&
                         (call.at(1).text == "latin1" || call.at(1).text == "latin-1");
  if (!is_latin1) return call.Wrong("bytes, or a text and \"latin1\"");
  if (!builder.Charge(call.at(0).text.size())) return builder.None();
  std::optional<std::string> bytes = ToLatin1(call.at(0).text);
  if (!bytes.has_value()) return call.Wrong("a text of characters below 256");
  return builder.Text(builder.Keep(*std::move(bytes)), Kind::kBytes);
}

absl::StatusOr<Ref> MakeDevice(const CallArguments& call) {
  if (call.size() == 0 || call.size() > 2 || !call.Is(0, Kind::kText) ||
      (call.size() == 2 && !call.Is(1, Kind::kInt))) {
    return call.Wrong("a type and a number");
  }
  PickleBuilder& builder = call.builder();
  if (call.size() == 1) return builder.Text(call.at(0).text, Kind::kDevice);
  return builder.Text(builder.Keep(absl::StrCat(call.at(0).text, ":", call.at(1).integer)), Kind::kDevice);
}

absl::StatusOr<Ref> MakePath(const CallArguments& call, absl::string_view name) {
  std::string path;
  const char* const separator = absl::StrContains(name, "Windows") ? "\\" : "/";
  for (size_t i = 0; i < call.size(); ++i) {
    if (!call.Is(i, Kind::kText)) return call.Wrong("texts");
    if (!call.builder().Charge(call.at(i).text.size() + 1)) return call.builder().None();
    absl::StrAppend(&path, path.empty() || absl::EndsWith(path, separator) ? "" : separator, call.at(i).text);
  }
  return call.builder().Text(call.builder().Keep(std::move(path)));
}

absl::StatusOr<Ref> MakeComplex(const CallArguments& call) {
  if (call.size() != 2 || !IsNumeric(call.at(0).kind) || !IsNumeric(call.at(1).kind)) return call.Wrong("two numbers");
  return call.builder().Complex({AsDouble(call.at(0)), AsDouble(call.at(1))});
}

}  // namespace tensorcask::torch
