# Completion of tensorcask for bash. Written by `tensorcask --print bash`.

# Subcommands and options of the tool, or options of a subcommand.
_tensorcask_options() {
  case "$1" in
    '') echo 'ls show stats diff report browse verify salvage convert merge reshard edit clean cat save send recv serve demo help --help -h --version -V' ;;
    ls) echo '--help -h --json --checksum --tree --values --depth --sort --format --lenient --opaque-dtype --stored --constants --no-links --opaque-objects --base --limit --ignore-checksums --stats' ;;
    show) echo '--help -h --slice --max --format --lenient --opaque-dtype --stored --constants --no-links --opaque-objects --base --limit --ignore-checksums --stats' ;;
    stats) echo '--help -h --json --format --lenient --opaque-dtype --stored --constants --no-links --opaque-objects --base --limit --ignore-checksums --stats' ;;
    diff) echo '--help -h --rtol --atol --cast --rename --json --format --lenient --opaque-dtype --stored --constants --no-links --opaque-objects --base --limit --ignore-checksums --stats' ;;
    report) echo '--help -h --run --include --rename --singular-values --format --lenient --opaque-dtype --stored --constants --no-links --opaque-objects --base --limit --ignore-checksums --output -o --overwrite --stats' ;;
    browse) echo '--help -h --run --include --rename --singular-values --format --lenient --opaque-dtype --stored --constants --no-links --opaque-objects --base --limit --ignore-checksums --port --no-open --stats' ;;
    verify) echo '--help -h --json --names --format --lenient --opaque-dtype --stored --constants --no-links --opaque-objects --base --limit --stats' ;;
    salvage) echo '--help -h --json --to --overwrite --lenient --base --stats' ;;
    convert) echo '--help -h --format --lenient --opaque-dtype --stored --constants --no-links --opaque-objects --base --limit --ignore-checksums --to --level --alignment --no-checksums --shard-size --replace-in --external --overwrite --include --exclude --exclude-slots --rename --dtype --set --unset --allow-loss --dry-run --stats' ;;
    merge) echo '--help -h --overwrite --allow-missing --remove-sources --stats' ;;
    reshard) echo '--help -h --mesh --spec --exact --share --overwrite --stats' ;;
    edit) echo '--help -h --rename --set --unset --remove --output -o --dry-run --lenient --stats' ;;
    clean) echo '--help -h --delete --older-than --json --stats' ;;
    cat) echo '--help -h --exclude --allow-loss --format --lenient --opaque-dtype --stored --constants --no-links --opaque-objects --base --limit --ignore-checksums --stats' ;;
    save) echo '--help -h --to --level --alignment --no-checksums --shard-size --replace-in --external --overwrite --include --exclude --allow-loss --limit --stats' ;;
    send) echo '--help -h --unix --timeout --step --exclude --allow-loss --format --lenient --opaque-dtype --stored --constants --no-links --opaque-objects --base --limit --ignore-checksums --stats' ;;
    recv) echo '--help -h --unix --timeout --listen --insecure --certificate --key --client-ca --token-file --to --level --alignment --no-checksums --shard-size --replace-in --external --overwrite --allow-loss --stats' ;;
    serve) echo '--help -h --unix --timeout --listen --insecure --certificate --key --client-ca --token-file --follow --format --lenient --opaque-dtype --stored --constants --no-links --opaque-objects --base --limit --ignore-checksums --stats' ;;
    demo) echo '--help -h --stats' ;;
  esac
}

# What each operand of a subcommand is; further ones are as the last.
_tensorcask_operands() {
  case "$1" in
    ls) echo '@file @tensor' ;;
    show) echo '@file @tensor' ;;
    stats) echo '@file @tensor' ;;
    diff) echo '@file @file @tensor' ;;
    report) echo '@file' ;;
    browse) echo '@file' ;;
    verify) echo '@file' ;;
    salvage) echo '@file @file' ;;
    convert) echo '@file' ;;
    merge) echo '@file' ;;
    reshard) echo '@file @file' ;;
    edit) echo '@file' ;;
    clean) echo '@folder' ;;
    cat) echo '@file @tensor' ;;
    save) echo '@file' ;;
    send) echo '@file @tensor' ;;
    recv) echo '@file' ;;
    serve) echo '@file' ;;
  esac
}

# What follows an option of a subcommand; nothing for a flag.
_tensorcask_value() {
  case "$1 $2" in
    'ls --depth') echo '@text' ;;
    'ls --sort') echo 'name size' ;;
    'ls --format') echo 'checkpoint tensorproto records safetensors npy npz gguf torch dcp onnx hdf5 tensorproto-text graph' ;;
    'ls --opaque-dtype') echo '@text' ;;
    'ls --base') echo '@file' ;;
    'ls --limit') echo '@text' ;;
    'show --slice') echo '@text' ;;
    'show --max') echo '@text' ;;
    'show --format') echo 'checkpoint tensorproto records safetensors npy npz gguf torch dcp onnx hdf5 tensorproto-text graph' ;;
    'show --opaque-dtype') echo '@text' ;;
    'show --base') echo '@file' ;;
    'show --limit') echo '@text' ;;
    'stats --format') echo 'checkpoint tensorproto records safetensors npy npz gguf torch dcp onnx hdf5 tensorproto-text graph' ;;
    'stats --opaque-dtype') echo '@text' ;;
    'stats --base') echo '@file' ;;
    'stats --limit') echo '@text' ;;
    'diff --rtol') echo '@text' ;;
    'diff --atol') echo '@text' ;;
    'diff --rename') echo '@text' ;;
    'diff --format') echo 'checkpoint tensorproto records safetensors npy npz gguf torch dcp onnx hdf5 tensorproto-text graph' ;;
    'diff --opaque-dtype') echo '@text' ;;
    'diff --base') echo '@file' ;;
    'diff --limit') echo '@text' ;;
    'report --include') echo '@tensor' ;;
    'report --rename') echo '@text' ;;
    'report --singular-values') echo '@tensor' ;;
    'report --format') echo 'checkpoint tensorproto records safetensors npy npz gguf torch dcp onnx hdf5 tensorproto-text graph' ;;
    'report --opaque-dtype') echo '@text' ;;
    'report --base') echo '@file' ;;
    'report --limit') echo '@text' ;;
    'report --output') echo '@file' ;;
    'browse --include') echo '@tensor' ;;
    'browse --rename') echo '@text' ;;
    'browse --singular-values') echo '@tensor' ;;
    'browse --format') echo 'checkpoint tensorproto records safetensors npy npz gguf torch dcp onnx hdf5 tensorproto-text graph' ;;
    'browse --opaque-dtype') echo '@text' ;;
    'browse --base') echo '@file' ;;
    'browse --limit') echo '@text' ;;
    'browse --port') echo '@text' ;;
    'verify --format') echo 'checkpoint tensorproto records safetensors npy npz gguf torch dcp onnx hdf5 tensorproto-text graph' ;;
    'verify --opaque-dtype') echo '@text' ;;
    'verify --base') echo '@file' ;;
    'verify --limit') echo '@text' ;;
    'salvage --to') echo 'checkpoint tensorproto records safetensors npy npz gguf torch onnx tensorproto-text' ;;
    'salvage --base') echo '@file' ;;
    'convert --format') echo 'checkpoint tensorproto records safetensors npy npz gguf torch dcp onnx hdf5 tensorproto-text graph' ;;
    'convert --opaque-dtype') echo '@text' ;;
    'convert --base') echo '@file' ;;
    'convert --limit') echo '@text' ;;
    'convert --to') echo 'checkpoint tensorproto records safetensors npy npz gguf torch onnx tensorproto-text' ;;
    'convert --level') echo 'stored default high' ;;
    'convert --alignment') echo '@text' ;;
    'convert --shard-size') echo '@text' ;;
    'convert --replace-in') echo '@file' ;;
    'convert --include') echo '@tensor' ;;
    'convert --exclude') echo '@tensor' ;;
    'convert --rename') echo '@text' ;;
    'convert --dtype') echo '@text' ;;
    'convert --set') echo '@text' ;;
    'convert --unset') echo '@text' ;;
    'reshard --mesh') echo '@text' ;;
    'reshard --spec') echo '@text' ;;
    'reshard --share') echo 'none host' ;;
    'edit --rename') echo '@text' ;;
    'edit --set') echo '@text' ;;
    'edit --unset') echo '@text' ;;
    'edit --remove') echo '@tensor' ;;
    'edit --output') echo '@file' ;;
    'clean --older-than') echo '@text' ;;
    'cat --exclude') echo '@tensor' ;;
    'cat --format') echo 'checkpoint tensorproto records safetensors npy npz gguf torch dcp onnx hdf5 tensorproto-text graph' ;;
    'cat --opaque-dtype') echo '@text' ;;
    'cat --base') echo '@file' ;;
    'cat --limit') echo '@text' ;;
    'save --to') echo 'checkpoint tensorproto records safetensors npy npz gguf torch onnx tensorproto-text' ;;
    'save --level') echo 'stored default high' ;;
    'save --alignment') echo '@text' ;;
    'save --shard-size') echo '@text' ;;
    'save --replace-in') echo '@file' ;;
    'save --include') echo '@tensor' ;;
    'save --exclude') echo '@tensor' ;;
    'save --limit') echo '@text' ;;
    'send --unix') echo '@file' ;;
    'send --timeout') echo '@text' ;;
    'send --step') echo '@text' ;;
    'send --exclude') echo '@tensor' ;;
    'send --format') echo 'checkpoint tensorproto records safetensors npy npz gguf torch dcp onnx hdf5 tensorproto-text graph' ;;
    'send --opaque-dtype') echo '@text' ;;
    'send --base') echo '@file' ;;
    'send --limit') echo '@text' ;;
    'recv --unix') echo '@file' ;;
    'recv --timeout') echo '@text' ;;
    'recv --listen') echo '@text' ;;
    'recv --certificate') echo '@file' ;;
    'recv --key') echo '@file' ;;
    'recv --client-ca') echo '@file' ;;
    'recv --token-file') echo '@file' ;;
    'recv --to') echo 'checkpoint tensorproto records safetensors npy npz gguf torch onnx tensorproto-text' ;;
    'recv --level') echo 'stored default high' ;;
    'recv --alignment') echo '@text' ;;
    'recv --shard-size') echo '@text' ;;
    'recv --replace-in') echo '@file' ;;
    'serve --unix') echo '@file' ;;
    'serve --timeout') echo '@text' ;;
    'serve --listen') echo '@text' ;;
    'serve --certificate') echo '@file' ;;
    'serve --key') echo '@file' ;;
    'serve --client-ca') echo '@file' ;;
    'serve --token-file') echo '@file' ;;
    'serve --format') echo 'checkpoint tensorproto records safetensors npy npz gguf torch dcp onnx hdf5 tensorproto-text graph' ;;
    'serve --opaque-dtype') echo '@text' ;;
    'serve --base') echo '@file' ;;
    'serve --limit') echo '@text' ;;
  esac
}

# Files. A checkpoint is offered by its prefix, which is the name of its index without ".index".
_tensorcask_files() {
  local path
  compopt -o filenames 2>/dev/null
  while IFS= read -r path; do
    [[ "$path" == *.data-[0-9][0-9][0-9][0-9][0-9]-of-* ]] || COMPREPLY+=("${path%.index}")
  done < <(compgen "$1" -- "$2")
}

# The names of the tensors in the file that the command line names first.
_tensorcask_tensors() {
  local name
  [[ -n "$2" ]] || return
  while IFS= read -r name; do
    [[ "$name" == "$1"* ]] && COMPREPLY+=("$name")
  done < <("$_tensorcask_program" ls "$2" 2>/dev/null | head -n 10000 | sed -n -e '/^total: /d' -e 's/^\([^" ]*\) .*/\1/p')
}

_tensorcask_values() {
  case "$1" in
    @file) _tensorcask_files -f "$2" ;;
    @folder) _tensorcask_files -d "$2" ;;
    @tensor) _tensorcask_tensors "$2" "$3" ;;
    @text) ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2") ;;
  esac
}

_tensorcask() {
  local _tensorcask_program="$1" words=() word i
  COMPREPLY=()
  # bash splits "--format=npz" into three words.
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ "${COMP_WORDS[i]}" == = ]] || words+=("${COMP_WORDS[i]}")
  done
  word="${COMP_WORDS[COMP_CWORD]}"
  [[ "$word" == = ]] && word=""
  local command="${words[0]:-}"
  if ((${#words[@]} == 0)) || [[ "$command" == help ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_tensorcask_options "")" -- "$word")
    return
  fi
  local operands=() expected="" previous=""
  for ((i = 1; i < ${#words[@]}; ++i)); do
    if [[ -n "$previous" && -n "$(_tensorcask_value "$command" "$previous")" ]]; then
      previous=""
      continue
    fi
    previous=""
    if [[ "${words[i]}" == -* ]]; then previous="${words[i]}"; else operands+=("${words[i]}"); fi
  done
  [[ -n "$previous" ]] && expected="$(_tensorcask_value "$command" "$previous")"
  if [[ -n "$expected" ]]; then
    _tensorcask_values "$expected" "$word" "${operands[0]:-}"
  elif [[ "$word" == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_tensorcask_options "$command")" -- "$word")
  else
    local kinds=()
    read -r -a kinds <<< "$(_tensorcask_operands "$command")"
    ((${#kinds[@]})) || return
    i=$((${#operands[@]} < ${#kinds[@]} ? ${#operands[@]} : ${#kinds[@]} - 1))
    _tensorcask_values "${kinds[i]}" "$word" "${operands[0]:-}"
  fi
}

complete -F _tensorcask tensorcask
