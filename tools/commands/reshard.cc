// tensorcask reshard SRC DST: a checkpoint in the pieces that the processes of a job want
// (serialize/sharded/reshard.h).

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/serialize/sharded/communicator.h"
#include "tensorcask/serialize/sharded/mesh.h"
#include "tensorcask/serialize/sharded/reshard.h"
#include "tensorcask/serialize/sharded/sharded_load.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tools/formats.h"
#include "tensorcask/tools/output/console.h"
#include "tensorcask/tools/output/table.h"
#include "tensorcask/tools/read_progress.h"
#include "tensorcask/tools/siblings/job_tools.h"
#include "tensorcask/tools/subcommand.h"
#include "tensorcask/tools/tool_files.h"

namespace tensorcask::tools {
namespace {

struct ReshardFlags {
  std::string source;
  std::string destination;
  std::string mesh;
  std::vector<std::string> specs;
  std::string share = "none";
  bool exact = false;
  bool overwrite = false;
};

// "dense/*=model,-": the text before the last '=' is a pattern of names.
absl::StatusOr<PartitionRule> ParseRule(const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) {
    return Misuse(absl::StrCat("--spec ", Printable(text), ": wanted GLOB=AXIS,..., as in 'dense/*=model,-'"));
  }
  absl::StatusOr<PartitionSpec> spec = ParsePartitionSpec(absl::string_view(text).substr(equals + 1));
  if (!spec.ok()) return Misuse(absl::StrCat("--spec ", Printable(text), ": ", spec.status().message()));
  return PartitionRule{text.substr(0, equals), *std::move(spec)};
}

// This process as a rank of the job of mpirun; null without a job of several processes.
absl::StatusOr<std::unique_ptr<Communicator>> JoinJob() {
  if (GetJobTools() == nullptr) return std::unique_ptr<Communicator>();
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> job, GetJobTools()->join());
  if (job->size() == 1) job.reset();
  return job;
}

absl::StatusOr<ExitCode> Reshard(const ReshardFlags& flags, Console& console) {
  const absl::StatusOr<Mesh> mesh = Mesh::Parse(flags.mesh);
  if (!mesh.ok()) return Misuse(absl::StrCat("--mesh: ", mesh.status().message()));
  ReshardOptions options;
  for (const std::string& text : flags.specs) {
    CASK_ASSIGN_OR_RETURN(PartitionRule rule, ParseRule(text));
    for (const std::string& axis : rule.spec) {
      const absl::StatusOr<HeldPiece> known = PieceOf(TensorShape({1}), *mesh, {axis}, 0);
      if (!known.ok()) return Misuse(absl::StrCat("--spec ", Printable(text), ": ", known.status().message()));
    }
    options.rules.push_back(std::move(rule));
  }
  if (flags.exact) options.division = Division::kExact;
  options.writer.file_system = ToolFiles();
  options.writer.overwrite = flags.overwrite;
  if (flags.share == "host") options.share = ReadSharing::kHost;
  options.go_on = [] { return !Interrupted(); };
  const std::string target(absl::StripSuffix(flags.destination, ".index"));
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> job, JoinJob());
  const bool speaks = job == nullptr || job->rank() == 0;  // for all processes of the job
  CatchInterrupts();
  absl::StatusOr<ReshardReport> report = absl::UnknownError("");
  {
    ReadProgress progress(console, absl::StrCat("resharding ", Printable(flags.source)));
    options.reader.read.file_system = speaks ? &progress : ToolFiles();
    report = job != nullptr ? ReshardCheckpoint(job.get(), flags.source, target, *mesh, options)
                            : ReshardCheckpoint(flags.source, target, *mesh, options);
  }
  if (Interrupted()) return InterruptedExitCode();
  if (!speaks) return kDone;  // mpirun ends all when one fails: before rank 0 has said why
  if (absl::IsAlreadyExists(report.status())) return AppendToMessage(report.status(), "; --overwrite replaces it");
  CASK_RETURN_IF_ERROR(report.status());
  for (const std::string& glob : report->unmatched) {
    NoteUnmatched("reshard", absl::StrCat("--spec ", glob), console);
  }
  PrintNotes("reshard", report->notes, console);
  PrintRemoved(report->removed, console);
  for (size_t rank = 0; rank < report->bytes_of_ranks.size(); ++rank) {
    console.out << "rank " << rank << ": " << HumanBytes(report->bytes_of_ranks[rank]) << '\n';
  }
  console.out << Printable(target) << ": " << report->num_tensors
              << (report->num_tensors == 1 ? " tensor in " : " tensors in ") << report->num_pieces
              << (report->num_pieces == 1 ? " piece" : " pieces") << '\n';
  return kDone;
}

}  // namespace

Action DeclareReshard(CLI::App& app) {
  auto flags = std::make_shared<ReshardFlags>();
  app.add_option("SRC", flags->source, "The prefix of a checkpoint, or its .index")->required();
  app.add_option("DST", flags->destination, "The prefix of the new checkpoint")->required();
  app.add_option("--mesh", flags->mesh, "The ranks of the job as a grid with named axes: data=2,model=4")
      ->required()
      ->type_name("NAME=SIZE,...");
  app.add_option("--spec", flags->specs,
                 "For tensors whose names match GLOB: which axis of the mesh divides each axis of the tensor; '-' for "
                 "none, A+B for two. Others stay whole. The first that matches counts; may be repeated")
      ->type_name("GLOB=AXIS,...");
  app.add_flag(
      "--exact", flags->exact,
      "Refuse an axis that the ranks do not divide (JAX), instead of giving the last ranks less (torch.chunk)");
  app.add_option(
         "--share", flags->share,
         "In a job of mpirun: with 'host', one process of each host reads a tensor that several need; with 'none', the "
         "default, each process reads it")
      ->check(CLI::IsMember({"none", "host"}))
      ->type_name("none|host");
  app.add_flag("--overwrite", flags->overwrite, "Replace DST");
  app.footer(
      "DST has one data file for each rank, with the pieces that this rank has; of pieces that several ranks have, "
      "one\n"
      "is written. It reads each tensor with its checksum, and holds one piece in memory. Programs read DST as any "
      "other\n"
      "checkpoint, also in other pieces.\n\n"
      "It runs in one process. Started by mpirun with as many processes as the mesh has ranks, it runs as a job: each\n"
      "process writes one data file. That needs the program tensorcask-mpi beside this one.\n\n"
      "Examples:\n"
      "  tensorcask reshard step-100 for-4 --mesh model=4 --spec 'dense/*=model,-'\n"
      "  mpirun -n 4 tensorcask reshard step-100 for-4 --mesh model=4 --spec 'dense/*=model,-' --share host");
  return [flags](Console& console) { return Reshard(*flags, console); };
}

}  // namespace tensorcask::tools
