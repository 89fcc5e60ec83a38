#include "tensorcask/serialize/archive/rename_rules.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/decoded_archive.h"
#include "tensorcask/serialize/archive/internal/sed_rule.h"
#include "tensorcask/serialize/archive/record_stream.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::Eq;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

std::unique_ptr<ArchiveReader> ArchiveOf(const std::vector<std::string>& names) {
  KeptTensors tensors;
  for (const std::string& name : names) {
    NamedRecord record;
    record.entry.name = name;
    tensors.Add(std::move(record));
  }
  return MakeDecodedArchive("records", "made", std::move(tensors), /*has_names=*/true);
}

absl::StatusOr<std::string> NewName(const std::vector<std::string>& rules, const std::string& name) {
  const std::unique_ptr<ArchiveReader> archive = ArchiveOf({name});
  const auto rename = CompileRenames(rules, {archive.get()});
  if (!rename.ok()) return rename.status();
  return (*rename)(name);
}

std::string TextOf(const absl::StatusOr<std::string>& result) {
  return result.ok() ? *result : std::string(result.status().message());
}

std::string Repeated(absl::string_view text, size_t times) {
  std::string result;
  for (size_t i = 0; i < times; ++i) absl::StrAppend(&result, text);
  return result;
}

TEST(RenameRulesTest, ExactNamesComeFirstAndPatternsOneAfterTheOther) {
  const std::unique_ptr<ArchiveReader> archive = ArchiveOf({"a/w", "b/w", "k=v"});
  const auto rename = CompileRenames({"s,/,.,", "s/[.]w/.weight/", "a/w=first", "k=v=x=y"}, {archive.get()});
  ASSERT_TRUE(rename.ok()) << rename.status();
  EXPECT_THAT(TextOf((*rename)("a/w")), Eq("first"));
  EXPECT_THAT(TextOf((*rename)("b/w")), Eq("b.weight"));
  EXPECT_THAT(TextOf((*rename)("k=v")), Eq("x=y"));
  EXPECT_THAT(TextOf((*rename)("other")), Eq("other"));
  EXPECT_EQ(*CompileRenames({}, {archive.get()}), nullptr);
}

TEST(RenameRulesTest, WhatRenamesNothingIsAnError) {
  EXPECT_THAT(NewName({"nosuch=x"}, "a").status(), StatusIs(Code::kInvalidArgument, HasSubstr("no tensor \"nosuch\"")));
  EXPECT_THAT(NewName({R"(model\.(.*)=\1)"}, "model.a").status(),
              StatusIs(Code::kInvalidArgument, HasSubstr("s/REGEX/")));
  EXPECT_THAT(NewName({"model.*=*"}, "model.a").status(), StatusIs(Code::kInvalidArgument, HasSubstr("s/REGEX/")));
  EXPECT_THAT(NewName({"s/b/x/"}, "a").status(), StatusIs(Code::kInvalidArgument, HasSubstr("matches no tensor")));
  EXPECT_THAT(NewName({"a"}, "a").status(), StatusIs(Code::kInvalidArgument, HasSubstr("wanted FROM=TO")));
  EXPECT_THAT(NewName({"s/b"}, "b").status(), StatusIs(Code::kInvalidArgument, HasSubstr("wanted s/REGEX/TEXT/")));
}

TEST(RenameRulesTest, LongNamesAreRenamedLikeOthers) {
  const std::string name = absl::StrCat(Repeated("layer.", 11000), "weight");  // 64 KiB
  EXPECT_THAT(TextOf(NewName({"s/(.*)\\.weight$/\\1.w/"}, name)),
              Eq(absl::StrCat(Repeated("layer.", 10999), "layer.w")));
  EXPECT_THAT(TextOf(NewName({"s/layer\\.//g"}, name)), Eq("weight"));
  EXPECT_THAT(TextOf(NewName({"s/(a|b|[a-z]+[.])*x?weight/w/"}, name)), Eq("w"));
}

TEST(RenameRulesTest, NoRuleOrNameTakesQuadraticTimeOrMuchMemory) {
  const std::string name(65000, 'a');
  // Each of the 65,000 matches would look for a "b" in all of the rest.
  EXPECT_THAT(NewName({"s/a.*b|a/x/g"}, name).status(), StatusIs(Code::kResourceExhausted, HasSubstr("1000 times")));
  EXPECT_THAT(NewName({"s/a/" + std::string(100, 'x') + "/g"}, name).status(),
              StatusIs(Code::kResourceExhausted, HasSubstr("bytes longer")));
  EXPECT_THAT(NewName({"s/((((a{500}){500}){500}){500})/x/"}, name).status(),
              StatusIs(Code::kInvalidArgument, HasSubstr("too large")));
}

TEST(RenameRulesTest, DeepGroupsAreRefused) {
  for (const std::string& inside : {std::string("a"), std::string()}) {
    const std::string deep = absl::StrCat("s/", std::string(20000, '('), inside, std::string(20000, ')'), "/x/");
    EXPECT_THAT(NewName({deep}, "a").status(),
                StatusIs(Code::kInvalidArgument, HasSubstr("nested more than 100 deep")));
  }
  EXPECT_THAT(NewName({absl::StrCat("s/", std::string(20000, '('), "/x/")}, "a").status(),
              StatusIs(Code::kInvalidArgument, HasSubstr("nested more than 100 deep")));
  EXPECT_THAT(NewName({absl::StrCat("s/a", std::string(20000, '*'), "/x/")}, "a").status(),
              StatusIs(Code::kInvalidArgument, HasSubstr("too many signs")));
  EXPECT_THAT(TextOf(NewName({absl::StrCat("s/", Repeated("(a)", 5000), "/x/")}, std::string(5000, 'a'))), Eq("x"));
}

TEST(RenameRulesTest, ErrorsShowThePlace) {
  EXPECT_THAT(NewName({"s/ab(c/x/"}, "a").status(),
              StatusIs(Code::kInvalidArgument, HasSubstr("rename s/ab(c/x/: at byte 5, \"(c/x/\": this '(' is not")));
  EXPECT_THAT(NewName({"s/a/\\Ub/"}, "a").status(),
              StatusIs(Code::kInvalidArgument, HasSubstr("at byte 5, \"\\\\Ub/\"")));
}

TEST(RenameRulesTest, AGroupThatIsRepeatedHasNoText) {
  EXPECT_THAT(NewName({R"(s/(a)(b*)*c/\2/)"}, "abbc").status(),
              StatusIs(Code::kInvalidArgument, HasSubstr("\\2 is a group inside a part that is repeated")));
  EXPECT_THAT(TextOf(NewName({R"(s/(a)(b*)*c/\1/)"}, "abbc")), Eq("a"));
}

TEST(RenameRulesTest, AClassOfCharactersBeginsNoRange) {
  EXPECT_THAT(NewName({"s/[[:alpha:]-z]/x/"}, "a-").status(),
              StatusIs(Code::kInvalidArgument, HasSubstr("not supported as the begin of a range")));
  EXPECT_THAT(TextOf(NewName({"s/[[:alpha:]-]/x/g"}, "a-1")), Eq("xx1"));
}

TEST(RenameRulesTest, SeveralWaysToDivideANameAreAnError) {
  EXPECT_THAT(NewName({"s/(a|ab)(c|bcd)(d*)/\\1-/"}, "abcd").status(),
              StatusIs(Code::kInvalidArgument, HasSubstr("matches in more than one way")));
  EXPECT_THAT(TextOf(NewName({"s/(a|ab)(c|bcd)(d*)/-/"}, "abcd")), Eq("-"));
  EXPECT_THAT(TextOf(NewName({"s/(encoder|decoder)\\.(weight|w)$/\\2.\\1/"}, "decoder.weight")), Eq("weight.decoder"));
}

TEST(RenameRulesTest, NamesAreCharactersIfTheyAreUtf8AndBytesIfNot) {
  EXPECT_THAT(TextOf(NewName({"s/^.//"}, "\xc3\xa9t")), Eq("t"));
  EXPECT_THAT(TextOf(NewName({"s/./_/g"}, "\xc3\xa9t")), Eq("__"));
  EXPECT_THAT(TextOf(NewName({"s/./_/g"}, "\xc3t")), Eq("__"));
  EXPECT_THAT(TextOf(NewName({"s/t/_/"}, "\xff\xfet")), Eq("\xff\xfe_"));
  EXPECT_THAT(TextOf(NewName({"s/(\xc3\xa9)+/e/"}, "\xc3\xa9\xc3\xa9t")), Eq("et"));
  EXPECT_THAT(TextOf(NewName({"s/\xc3\xa9+/e/"}, "\xc3\xa9\xc3\xa9t")), Eq("et"));
  EXPECT_THAT(TextOf(NewName({"s/x*/-/g"}, "\xc3\xa9")), Eq("-\xc3\xa9-"));
  EXPECT_THAT(TextOf(NewName({"s/\xff/x/"}, "a\xff")), Eq("ax"));
  EXPECT_THAT(TextOf(NewName({"s/a/x/"}, std::string("\0a", 2))), Eq(std::string("\0x", 2)));
  EXPECT_THAT(TextOf(NewName({"s/^$/x/"}, "")), Eq("x"));
}

}  // namespace
}  // namespace tensorcask
