#include "tensorcask/tools/siblings/job_tools.h"

#include <algorithm>
#include <cstdlib>

#include "tensorcask/tools/siblings/sibling_program.h"

namespace tensorcask::tools {
namespace {

// Of Open MPI; of MPICH and Intel's MPI; of srun with PMIx.
constexpr const char* kVariables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"};

const JobTools*& ToolsOfJobs() {
  static const JobTools* tools = nullptr;
  return tools;
}

}  // namespace

void SetJobTools(const JobTools* tools) { ToolsOfJobs() = tools; }
const JobTools* GetJobTools() { return ToolsOfJobs(); }

bool RunsInJob(absl::Span<const std::string> arguments) {
  const auto asks_for_help = [](const std::string& argument) { return argument == "--help" || argument == "-h"; };
  return !arguments.empty() && arguments[0] == "reshard" &&
         std::none_of(arguments.begin(), arguments.end(), asks_for_help) &&
         std::any_of(std::begin(kVariables), std::end(kVariables),
                     [](const char* variable) { return std::getenv(variable) != nullptr; });
}

absl::Status RunJobProgram(char** argv) {
  return RunSiblingProgram("tensorcask-mpi", "jobs of mpirun",
                           "it is built where MPI is installed: bazel build //tools:tensorcask-mpi", argv);
}

}  // namespace tensorcask::tools
