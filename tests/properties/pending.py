"""What the property tests leave out for the time being, each as narrow as it can be. Nothing should stay here."""

# Replacing a safetensors model takes every file beside it that looks like one of its parts.
PARTS_OF_NO_INDEX = True
# An entry of the metadata whose value is the name of a tensor becomes another name of that tensor.
NAMES_AS_VALUES = True
# `--dtype '*=bfloat16'` takes integers, too.
DTYPE_OF_ALL_KINDS = True
# `convert --dry-run` does not try names.
DRY_RUN_OF_NAMES = True
# Of two sources with one key of metadata the first counts.
KEY_TWICE = True
# Arrays of a rank above 64 are written, although NumPy cannot read them.
RANK_ABOVE_64 = True
