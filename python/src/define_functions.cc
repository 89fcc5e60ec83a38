#include "tensorcask/python/src/bindings.h"

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/python/src/arguments.h"
#include "tensorcask/python/src/base/errors.h"
#include "tensorcask/python/src/base/interrupts.h"
#include "tensorcask/python/src/base/pickles.h"
#include "tensorcask/python/src/base/text.h"
#include "tensorcask/python/src/numpy_dtypes.h"
#include "tensorcask/python/src/store_files.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/salvage_archive.h"
#include "tensorcask/serialize/archive/save_load.h"

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

// ---- verify ---------------------------------------------------------------------------------------------------------

struct VerifyReport {
  TensorCounts counts;
  std::vector<ArchiveDamage> damage;
};

}  // namespace

template <>
struct FieldsOf<VerifyReport> {
  static constexpr auto kAll = std::make_tuple(&VerifyReport::counts, &VerifyReport::damage);
};

namespace {

VerifyReport Verify(nb::handle path, const nb::kwargs& reading) {
  const std::shared_ptr<const ArchiveReader> archive = Open(FromOpenArguments(path, reading));
  VerifyReport report;
  report.counts = Take(WithoutGil([&]() -> absl::StatusOr<TensorCounts> {
    return archive->VerifyAll([&](const ArchiveDamage& damage) { report.damage.push_back(damage); });
  }));
  return report;
}

void DefineVerify(nb::module_& m) {
  nb::class_<ArchiveDamage> damage(m, "Damage",
                                   "One thing that is wrong in a file: an element of ``VerifyReport.damage``.\n\n"
                                   "    >>> import numpy as np, tensorcask as tc\n"
                                   "    >>> _ = tc.save('model', {'w': np.ones(3)}, overwrite=True)\n"
                                   "    >>> with open('model.data-00000-of-00001', 'r+b') as file:\n"
                                   "    ...     _ = file.write(b'oops')\n"
                                   "    >>> damage, = tc.verify('model').damage\n"
                                   "    >>> damage.tensor, damage.offset\n"
                                   "    ('w', 0)\n");
  damage
      .def_prop_ro(
          "tensor", [](const ArchiveDamage& one) { return ToText(one.tensor); }, nb::sig("def tensor(self) -> str"),
          "Its name; '' if the damage is not that of one tensor.")
      .def_prop_ro(
          "file", [](const ArchiveDamage& one) { return ToText(one.file); }, nb::sig("def file(self) -> str"))
      .def_prop_ro("offset", [](const ArchiveDamage& one) { return one.offset; })
      .def_prop_ro(
          "message", [](const ArchiveDamage& one) { return ToText(one.status.message()); },
          nb::sig("def message(self) -> str"))
      .def(
          "__repr__",
          [](const ArchiveDamage& one) { return nb::str("Damage({!r})").format(ToText(one.status.message())); },
          nb::sig("def __repr__(self) -> str"));
  DefinePickle(damage);
  nb::class_<VerifyReport> report(m, "VerifyReport",
                                  "What ``verify`` found. True if nothing is damaged.\n\n"
                                  "    >>> import numpy as np, tensorcask as tc\n"
                                  "    >>> _ = tc.save('model', {'v': np.ones(3), 'w': np.ones(3)}, overwrite=True)\n"
                                  "    >>> report = tc.verify('model')\n"
                                  "    >>> bool(report), report.whole, report.damaged\n"
                                  "    (True, 2, 0)\n");
  report
      .def_prop_ro(
          "whole", [](const VerifyReport& report) { return report.counts.whole; },
          "The number of tensors whose every byte was checked as far as the format allows.")
      .def_prop_ro(
          "damaged", [](const VerifyReport& report) { return report.counts.damaged; },
          "The number of tensors with damage.")
      .def_prop_ro(
          "damaged_elsewhere", [](const VerifyReport& report) { return report.counts.damaged_elsewhere; },
          "The number of places of damage outside of tensors: in the index, or a data file that is missing.")
      .def_prop_ro(
          "incomplete", [](const VerifyReport& report) { return report.counts.incomplete; },
          "The number of tensors of which the file has only parts; these are whole, and no damage.")
      .def_prop_ro(
          "not_checked",
          [](const VerifyReport& report) {
            const TensorCounts& counts = report.counts;
            return counts.not_readable + counts.past_limit + counts.not_checked + counts.without_base;
          },
          "The number of tensors that could not be checked: deltas without their base, unknown forms.")
      .def_prop_ro(
          "damage",
          [](const VerifyReport& report) {
            nb::list list;
            for (const ArchiveDamage& one : report.damage) list.append(nb::cast(one));
            return list;
          },
          nb::sig("def damage(self) -> list[Damage]"))
      .def_prop_ro(
          "notes",
          [](const VerifyReport& report) {
            nb::list list;
            for (const std::string& note : report.counts.notes) list.append(ToText(note));
            return list;
          },
          nb::sig("def notes(self) -> list[str]"), "Sentences about what is unusual and harms nothing.")
      .def("__bool__", [](const VerifyReport& report) { return report.damage.empty() && report.counts.damaged == 0; })
      .def(
          "__repr__",
          [](const VerifyReport& report) {
            const TensorCounts& counts = report.counts;
            const std::string elsewhere =
                counts.damaged_elsewhere > 0 ? absl::StrCat(", ", counts.damaged_elsewhere, " damaged elsewhere") : "";
            const std::string incomplete =
                counts.incomplete > 0 ? absl::StrCat(", ", counts.incomplete, " incomplete") : "";
            return ToText(absl::StrCat("<VerifyReport: ", counts.whole, " whole, ", counts.damaged, " damaged",
                                       elsewhere, incomplete, ">"));
          },
          nb::sig("def __repr__(self) -> str"));
  DefinePickle(report);
  m.def("verify", &Verify, nb::arg("path"), nb::arg("reading"),
        nb::sig("def verify(path: " TENSORCASK_READABLE
                ", *, " TENSORCASK_READ_FORMAT TENSORCASK_READ_BASE TENSORCASK_READ_RULES ") -> VerifyReport"),
        "Reads all tensors and checks every checksum and every rule of structure. The arguments are those of "
        "``open``.\n\n"
        "Raises the errors of ``open`` if the file cannot be opened; all other damage is in the report.\n\n"
        "    >>> import numpy as np, tensorcask as tc\n"
        "    >>> _ = tc.save('model.safetensors', {'w': np.eye(2)}, overwrite=True)\n"
        "    >>> bool(tc.verify('model.safetensors'))\n"
        "    True\n");
}

// ---- convert --------------------------------------------------------------------------------------------------------

std::vector<DTypeRule> FromDTypes(nb::handle dtypes) {
  std::vector<DTypeRule> rules;
  if (dtypes.is_none()) return rules;
  if (!nb::hasattr(dtypes, "items")) {
    rules.push_back(MakeDTypeRule("*", FromDTypeArgument(dtypes)));
    return rules;
  }
  for (const nb::handle item : nb::iter(dtypes.attr("items")())) {
    rules.push_back(MakeDTypeRule(FromText(item[0], "a pattern of dtypes"), FromDTypeArgument(item[1])));
  }
  return rules;
}

// Of None or a mapping: a value of None leaves the key out.
void SetMetadata(nb::handle metadata, ConvertOptions* options) {
  if (metadata.is_none()) return;
  for (const nb::handle item : nb::iter(metadata.attr("items")())) {
    const std::string key = FromText(item[0], "a key of the metadata");
    if (item[1].is_none()) {
      options->unset_metadata.insert(key);
    } else {
      options->set_metadata[key] = FromText(item[1], "a value of the metadata");
    }
  }
}

nb::object Convert(nb::handle source, nb::handle destination, nb::handle include, nb::handle exclude, nb::handle rename,
                   nb::handle dtypes, bool allow_loss, nb::handle format, nb::handle level, nb::handle base, bool sync,
                   bool overwrite, uint64_t alignment, nb::handle threads, bool dry_run, nb::handle progress,
                   nb::handle metadata, nb::handle source_format, bool exclude_slots, const nb::kwargs& others) {
  const GivenFormatOptions of_formats = FromFormatOptions(others, FormatOption::Use::kWriting);
  OpenArguments open = FromOpenArguments(source, of_formats.others);
  open.base = FromPathOrNone(base);
  if (!source_format.is_none()) open.options.format = FromText(source_format, "source_format");
  const std::shared_ptr<const ArchiveReader> archive = Open(open);
  const std::string path = FromPath(destination);
  const AllFormats formats = FormatsWith(ForCopies(open.of_formats, of_formats.options));
  const ArchiveFormat& target = TargetFormat(path, format, formats.list());
  CheckGiven(of_formats, target);
  ConvertOptions options;
  options.include = FromNames(include, "a pattern of include").value_or(std::vector<std::string>());
  options.exclude = FromNames(exclude, "a pattern of exclude").value_or(std::vector<std::string>());
  options.exclude_slots = exclude_slots;
  options.dtypes = FromDTypes(dtypes);
  options.allow_loss = allow_loss;
  options.dry_run = dry_run;
  options.num_threads = FromThreads(threads);
  Progress reporter(progress);
  options.progress = [&](int64_t, uint64_t bytes) { return reporter.Report(bytes); };
  options.rename = FromRename(*archive, rename);
  SetMetadata(metadata, &options);
  ArchiveWriterOptions write;
  write.level = FromLevel(level);
  write.sync = sync;
  write.overwrite = overwrite;
  write.alignment = alignment;
  const std::shared_ptr<FileSystem> files = Take(FilesFor(path));
  write.file_system = files.get();
  if (write.level != PayloadLevel::kStored) write.base = OpenBase(FromPathOrNone(base));
  Check(CheckWriterOptions(target, write));
  absl::StatusOr<ConvertReport> converted = WithoutGil([&] {
    const ArchiveReader* const sources[] = {archive.get()};
    return ConvertArchives(sources, path, target, options, write);
  });
  reporter.Finish(converted.ok());
  // AlreadyExists is about the file, or about two tensors of one name.
  const bool is_file = absl::EndsWith(converted.status().message(), "exists already");
  const ConvertReport report = Take(std::move(converted), is_file ? About::kFile : About::kTensor);
  nb::dict result;
  nb::list messages;
  for (const ConvertLoss& loss : report.losses) messages.append(ToText(loss.message));
  result["tensors"] = report.tensors;
  result["bytes"] = report.bytes;
  result["file_bytes"] = report.file_bytes;
  result["losses"] = messages;
  result["removed"] = TextList(report.removed);
  result["notes"] = TextList(report.notes);
  return result;
}

void DefineConvert(nb::module_& m) {
  m.def(
      "convert", &Convert, nb::arg("source"), nb::arg("destination"), nb::kw_only(),
      nb::arg("include").none() = nb::none(), nb::arg("exclude").none() = nb::none(),
      nb::arg("rename").none() = nb::none(), nb::arg("dtypes").none() = nb::none(), nb::arg("allow_loss") = false,
      nb::arg("format").none() = nb::none(), nb::arg("level") = "stored", nb::arg("base").none() = nb::none(),
      nb::arg("sync") = true, nb::arg("overwrite") = false, nb::arg("alignment") = 64,
      nb::arg("threads").none() = nb::none(), nb::arg("dry_run") = false, nb::arg("progress").none() = nb::none(),
      nb::arg("metadata").none() = nb::none(), nb::arg("source_format").none() = nb::none(),
      nb::arg("exclude_slots") = false, nb::arg("others"),
      nb::sig("def convert(source: " TENSORCASK_READABLE ", destination: str | os.PathLike[str], *, "
              "include: str | collections.abc.Iterable[str] | None = None, "
              "exclude: str | collections.abc.Iterable[str] | None = None, "
              "rename: collections.abc.Callable[[str], str] | collections.abc.Mapping[str, str] | str | "
              "list[str] | tuple[str, ...] | None = None, dtypes: object = None, allow_loss: bool = False, "
              "format: str | None = None, level: str = 'stored', "
              "base: str | os.PathLike[str] | None = None, sync: bool = True, overwrite: bool = False, "
              "alignment: int = 64, " TENSORCASK_WRITE_OF_FORMATS
              ", threads: int | None = None, dry_run: bool = False, progress: object = None, "
              "metadata: collections.abc.Mapping[str, str | None] | None = None, source_format: str | None = None, "
              "exclude_slots: bool = False, " TENSORCASK_READ_VERIFY TENSORCASK_READ_RULES ") "
              "-> dict[str, typing.Any]"),
      "Copies the tensors of a file into another file, of any format, in bounded memory. ``source`` may be bytes or a "
      "file object, as for ``open``.\n\n"
      "``include`` and ``exclude`` are shell patterns of names. ``exclude_slots`` leaves out what an optimizer keeps "
      "beside the variables of a checkpoint of TensorFlow, such as momentum; ValueError for a format that does not say "
      "which tensors these are. ``rename`` is a function of the old name, a "
      "mapping, or one or several rules: ``old=new``, or ``s/REGEX/TEXT/`` as in ``sed -E``. ``dtypes`` is a dtype "
      "for all tensors, or a mapping of patterns to dtypes. A floating or complex dtype goes to floating and "
      "complex tensors only, unless the pattern begins with a kind: ``'int:*step'``, ``bool:``, ``float:``, "
      "``complex:``, ``quantized:``, ``any:``. With ``allow_loss``, what the new file cannot hold, tensors that "
      "cannot be read, and imaginary parts are left out; otherwise they are a ValueError. ``metadata`` is "
      "text that the new file keeps beside that of the old one; a value of None leaves the old text of that key out. "
      "``verify``, ``lenient``, ``constants``, ``links``, ``stored``, ``opaque_objects``, ``limits`` and "
      "``source_format`` (``format`` there) are those of ``open``, the other arguments are those of ``save``. With "
      "``dry_run`` all "
      "checks are made that need no "
      "elements, and nothing is written.\n\n"
      "Returns ``tensors``, ``bytes``, ``file_bytes``, ``losses`` (what is left out, tensors that became numbers "
      "of another kind, and tied tensors that became copies), ``removed`` (the files of the replaced model that were "
      "removed, or would be: only files that its old index lists) and ``notes``. FailedPreconditionError if a file "
      "that is read would be removed.\n\n"
      "    >>> import numpy as np, tensorcask as tc\n"
      "    >>> _ = tc.save('model.npz', {'old/w': np.eye(2)}, overwrite=True)\n"
      "    >>> tc.convert('model.npz', 'model.safetensors', rename={'old/w': 'w'}, dtypes='float32',\n"
      "    ...            overwrite=True)['tensors']\n"
      "    1\n");
}

// ---- salvage --------------------------------------------------------------------------------------------------------

nb::object Salvage(nb::handle source, nb::handle destination, nb::handle base, bool overwrite, bool sync,
                   nb::handle format, bool lenient) {
  const std::string from = FromPath(source);
  const std::string to = FromPath(destination);
  ArchiveReaderOptions read;
  const std::shared_ptr<FileSystem> files_of_source = Take(FilesFor(from));
  read.read.file_system = files_of_source.get();
  read.base = OpenBase(FromPathOrNone(base));
  read.lenient = lenient;
  ArchiveWriterOptions write;
  write.overwrite = overwrite;
  write.sync = sync;
  const std::shared_ptr<FileSystem> files = Take(FilesFor(to));
  write.file_system = files.get();
  const ArchiveFormat& target = TargetFormat(to, format, Formats());
  const ArchiveSalvage report = Take(
      WithoutGil([&] { return SalvageArchive(from, to, target, Formats(), read, write, [] { return KeepGoing(); }); }));
  nb::list lost;
  for (const ArchiveDamage& one : report.lost) lost.append(nb::cast(one));
  nb::list unverified;
  for (const std::string& name : report.unverified) unverified.append(ToText(name));
  nb::dict result;
  result["saved"] = report.saved;
  result["unverified"] = unverified;
  result["lost"] = lost;
  result["removed"] = TextList(report.removed);
  return result;
}

void DefineSalvage(nb::module_& m) {
  m.def(
      "salvage", &Salvage, nb::arg("source"), nb::arg("destination"), nb::kw_only(),
      nb::arg("base").none() = nb::none(), nb::arg("overwrite") = false, nb::arg("sync") = true,
      nb::arg("format").none() = nb::none(), nb::arg("lenient") = false,
      nb::sig("def salvage(source: str | os.PathLike[str], destination: str | os.PathLike[str], *, "
              "base: str | os.PathLike[str] | None = None, overwrite: bool = False, sync: bool = True, "
              "format: str | None = None, lenient: bool = False) -> dict[str, typing.Any]"),
      "Saves the intact tensors of a damaged file as a new one; writes nothing if all is lost.\n\n"
      "Any format; the extension of ``destination`` names that of the new file, unless ``format`` does. ``base`` and "
      "``lenient`` are those of ``open``. "
      "Returns ``saved`` (their number), ``unverified`` (names of saved tensors whose name and shape no checksum "
      "confirms), ``lost`` (a list of Damage) and ``removed`` (the files of the replaced model or checkpoint that were "
      "removed). Raises FileExistsError without ``overwrite``.\n\n"
      "    >>> import numpy as np, tensorcask as tc\n"
      "    >>> _ = tc.save('damaged', {'v': np.ones(3), 'w': np.ones(3)}, overwrite=True)\n"
      "    >>> with open('damaged.data-00000-of-00001', 'r+b') as file:\n"
      "    ...     _ = file.write(b'oops')\n"
      "    >>> result = tc.salvage('damaged', 'rescued', overwrite=True)\n"
      "    >>> result['saved'], [one.tensor for one in result['lost']]\n"
      "    (1, ['v'])\n");
}

}  // namespace

void DefineFunctions(nb::module_& m) {
  DefineVerify(m);
  DefineConvert(m);
  DefineSalvage(m);
}

}  // namespace tensorcask::python
