#include "tensorcask/tools/output/loss_lines.h"

#include "absl/strings/string_view.h"

namespace tensorcask::tools {
namespace {

absl::string_view WordFor(ConvertLoss::Kind kind) {
  if (kind == ConvertLoss::Kind::kAcrossKinds) return "converted: ";
  return kind == ConvertLoss::Kind::kUntied ? "copied: " : "lost: ";
}

}  // namespace

void PrintLosses(const ConversionPlan& plan, Console& console) {
  for (const ConvertLoss& loss : plan.losses) {
    console.out << WordFor(loss.kind) << EscapeControls(loss.message) << '\n';
  }
}

}  // namespace tensorcask::tools
