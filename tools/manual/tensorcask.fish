# Completion of tensorcask for fish. Written by `tensorcask --print fish`.

# The names of the tensors in the file that the command line names first.
function __tensorcask_tensors
    for word in (commandline -opc)[3..-1]
        string match -q -- '-*' $word; and continue
        set -l names (tensorcask ls $word 2>/dev/null | head -n 10000 | string match -v 'total: *' |
            string match -r '^[^" ]+')
        if set -q names[1]
            printf '%s\n' $names
            return
        end
    end
end

complete -c tensorcask -n __fish_use_subcommand -f
complete -c tensorcask -n __fish_use_subcommand -l help -s h -d 'Print this help'
complete -c tensorcask -n __fish_use_subcommand -l version -s V -d 'Print the version'

complete -c tensorcask -n __fish_use_subcommand -a ls -d 'List the tensors of a file'
complete -c tensorcask -n '__fish_seen_subcommand_from ls' -l help -s h -d 'Print this help'
complete -c tensorcask -n '__fish_seen_subcommand_from ls' -l json -d 'One JSON document'
complete -c tensorcask -n '__fish_seen_subcommand_from ls' -l checksum -d 'Read the elements and add their CRC-32 (of zlib)'
complete -c tensorcask -n '__fish_seen_subcommand_from ls' -l tree -d 'Instead list the objects that TensorFlow saved, and the tensors with their values'
complete -c tensorcask -n '__fish_seen_subcommand_from ls' -l sort -x -a 'name size' -d 'name (default) or size'
complete -c tensorcask -n '__fish_seen_subcommand_from ls' -l format -x -a 'checkpoint tensorproto records safetensors npy npz tensorproto-text graph' -d 'The format of PATH, if its content does not show it'
complete -c tensorcask -n '__fish_seen_subcommand_from ls' -l lenient -d 'Accept a safetensors file that breaks a rule in a known, harmless way, and say what it breaks'
complete -c tensorcask -n '__fish_seen_subcommand_from ls' -l base -r -F -d 'The base checkpoint of tensors that are stored as deltas'
complete -c tensorcask -n '__fish_seen_subcommand_from ls' -a '(__tensorcask_tensors)'

complete -c tensorcask -n __fish_use_subcommand -a show -d 'Print the values of a tensor'
complete -c tensorcask -n '__fish_seen_subcommand_from show' -l help -s h -d 'Print this help'
complete -c tensorcask -n '__fish_seen_subcommand_from show' -l slice -x -d 'Only this part: 0:2,: as in Python, or for each axis \'-\' or START,LENGTH, separated by \':\''
complete -c tensorcask -n '__fish_seen_subcommand_from show' -l max -x -d 'Entries shown at each end of an axis, or all (default 3)'
complete -c tensorcask -n '__fish_seen_subcommand_from show' -l format -x -a 'checkpoint tensorproto records safetensors npy npz tensorproto-text graph' -d 'The format of PATH, if its content does not show it'
complete -c tensorcask -n '__fish_seen_subcommand_from show' -l lenient -d 'Accept a safetensors file that breaks a rule in a known, harmless way, and say what it breaks'
complete -c tensorcask -n '__fish_seen_subcommand_from show' -l base -r -F -d 'The base checkpoint of tensors that are stored as deltas'
complete -c tensorcask -n '__fish_seen_subcommand_from show' -a '(__tensorcask_tensors)'

complete -c tensorcask -n __fish_use_subcommand -a stats -d 'Range, mean, spread and NaN, infinite and subnormal elements of each tensor'
complete -c tensorcask -n '__fish_seen_subcommand_from stats' -l help -s h -d 'Print this help'
complete -c tensorcask -n '__fish_seen_subcommand_from stats' -l json -d 'One JSON document'
complete -c tensorcask -n '__fish_seen_subcommand_from stats' -l format -x -a 'checkpoint tensorproto records safetensors npy npz tensorproto-text graph' -d 'The format of PATH, if its content does not show it'
complete -c tensorcask -n '__fish_seen_subcommand_from stats' -l lenient -d 'Accept a safetensors file that breaks a rule in a known, harmless way, and say what it breaks'
complete -c tensorcask -n '__fish_seen_subcommand_from stats' -l base -r -F -d 'The base checkpoint of tensors that are stored as deltas'
complete -c tensorcask -n '__fish_seen_subcommand_from stats' -a '(__tensorcask_tensors)'

complete -c tensorcask -n __fish_use_subcommand -a diff -d 'What differs between two files'
complete -c tensorcask -n '__fish_seen_subcommand_from diff' -l help -s h -d 'Print this help'
complete -c tensorcask -n '__fish_seen_subcommand_from diff' -l rtol -x -d 'Relative tolerance (default 0)'
complete -c tensorcask -n '__fish_seen_subcommand_from diff' -l atol -x -d 'Absolute tolerance (default 0)'
complete -c tensorcask -n '__fish_seen_subcommand_from diff' -l json -d 'One JSON document'
complete -c tensorcask -n '__fish_seen_subcommand_from diff' -l format -x -a 'checkpoint tensorproto records safetensors npy npz tensorproto-text graph' -d 'The format of PATH, if its content does not show it'
complete -c tensorcask -n '__fish_seen_subcommand_from diff' -l lenient -d 'Accept a safetensors file that breaks a rule in a known, harmless way, and say what it breaks'
complete -c tensorcask -n '__fish_seen_subcommand_from diff' -l base -r -F -d 'The base checkpoint of tensors that are stored as deltas'
complete -c tensorcask -n '__fish_seen_subcommand_from diff' -a '(__tensorcask_tensors)'

complete -c tensorcask -n __fish_use_subcommand -a verify -d 'Check every checksum and rule of structure'
complete -c tensorcask -n '__fish_seen_subcommand_from verify' -l help -s h -d 'Print this help'
complete -c tensorcask -n '__fish_seen_subcommand_from verify' -l json -d 'One JSON document'
complete -c tensorcask -n '__fish_seen_subcommand_from verify' -l format -x -a 'checkpoint tensorproto records safetensors npy npz tensorproto-text graph' -d 'The format of PATH, if its content does not show it'
complete -c tensorcask -n '__fish_seen_subcommand_from verify' -l lenient -d 'Accept a safetensors file that breaks a rule in a known, harmless way, and say what it breaks'
complete -c tensorcask -n '__fish_seen_subcommand_from verify' -l base -r -F -d 'The base checkpoint of tensors that are stored as deltas'

complete -c tensorcask -n __fish_use_subcommand -a salvage -d 'Save the undamaged tensors of a damaged checkpoint'
complete -c tensorcask -n '__fish_seen_subcommand_from salvage' -l help -s h -d 'Print this help'
complete -c tensorcask -n '__fish_seen_subcommand_from salvage' -l json -d 'One JSON document'
complete -c tensorcask -n '__fish_seen_subcommand_from salvage' -l overwrite -d 'Replace DST'
complete -c tensorcask -n '__fish_seen_subcommand_from salvage' -l base -r -F -d 'The base checkpoint of tensors that are stored as deltas'

complete -c tensorcask -n __fish_use_subcommand -a convert -d 'Copy tensors into another file or format'
complete -c tensorcask -n '__fish_seen_subcommand_from convert' -l help -s h -d 'Print this help'
complete -c tensorcask -n '__fish_seen_subcommand_from convert' -l format -x -a 'checkpoint tensorproto records safetensors npy npz tensorproto-text graph' -d 'The format of PATH, if its content does not show it'
complete -c tensorcask -n '__fish_seen_subcommand_from convert' -l lenient -d 'Accept a safetensors file that breaks a rule in a known, harmless way, and say what it breaks'
complete -c tensorcask -n '__fish_seen_subcommand_from convert' -l base -r -F -d 'The base checkpoint of tensors that are stored as deltas'
complete -c tensorcask -n '__fish_seen_subcommand_from convert' -l to -x -a 'checkpoint tensorproto records safetensors npy npz tensorproto-text' -d 'The format of DST, if its name does not show it'
complete -c tensorcask -n '__fish_seen_subcommand_from convert' -l level -x -a 'stored default high' -d 'Compression: stored (plain elements, the default), default or high; TensorFlow reads only stored'
complete -c tensorcask -n '__fish_seen_subcommand_from convert' -l alignment -x -d 'Each tensor starts at a multiple of N bytes (default 64); 1 is the layout of TensorFlow'
complete -c tensorcask -n '__fish_seen_subcommand_from convert' -l overwrite -d 'Replace DST'
complete -c tensorcask -n '__fish_seen_subcommand_from convert' -l include -x -a '(__tensorcask_tensors)' -d 'Only tensors with names that match; may be repeated'
complete -c tensorcask -n '__fish_seen_subcommand_from convert' -l exclude -x -a '(__tensorcask_tensors)' -d 'No tensors with names that match; may be repeated'
complete -c tensorcask -n '__fish_seen_subcommand_from convert' -l rename -x -d 'Rename a tensor: FROM=TO, or by s/REGEX/TEXT/; may be repeated'
complete -c tensorcask -n '__fish_seen_subcommand_from convert' -l dtype -x -d 'Convert the elements: \'*kernel=bfloat16\'; may be repeated'
complete -c tensorcask -n '__fish_seen_subcommand_from convert' -l allow-loss -d 'Leave out what DST cannot hold: metadata, strides, tensors of a dtype; each is listed'
complete -c tensorcask -n '__fish_seen_subcommand_from convert' -l dry-run -d 'Only print what would be written'

complete -c tensorcask -n __fish_use_subcommand -a edit -d 'Change names and metadata of a file, not its elements'
complete -c tensorcask -n '__fish_seen_subcommand_from edit' -l help -s h -d 'Print this help'
complete -c tensorcask -n '__fish_seen_subcommand_from edit' -l rename -x -d 'Rename a tensor: FROM=TO, or by s/REGEX/TEXT/; may be repeated'
complete -c tensorcask -n '__fish_seen_subcommand_from edit' -l set -x -d 'Set an entry of the file\'s metadata (safetensors); may be repeated'
complete -c tensorcask -n '__fish_seen_subcommand_from edit' -l unset -x -d 'Remove an entry of the file\'s metadata; may be repeated'
complete -c tensorcask -n '__fish_seen_subcommand_from edit' -l remove -x -a '(__tensorcask_tensors)' -d 'Remove tensors; may be repeated'
complete -c tensorcask -n '__fish_seen_subcommand_from edit' -l output -s o -r -F -d 'Write the result to this new file or checkpoint; PATH stays as it is'
complete -c tensorcask -n '__fish_seen_subcommand_from edit' -l dry-run -d 'Only print what would change'

complete -c tensorcask -n __fish_use_subcommand -a clean -d 'Find the temporary files that killed writers left'
complete -c tensorcask -n '__fish_seen_subcommand_from clean' -l help -s h -d 'Print this help'
complete -c tensorcask -n '__fish_seen_subcommand_from clean' -l delete -d 'Remove the stale files; without this they are only listed'
complete -c tensorcask -n '__fish_seen_subcommand_from clean' -l json -d 'One JSON document'

complete -c tensorcask -n __fish_use_subcommand -a cat -d 'Write tensors to a pipe as records'
complete -c tensorcask -n '__fish_seen_subcommand_from cat' -l help -s h -d 'Print this help'
complete -c tensorcask -n '__fish_seen_subcommand_from cat' -l exclude -x -a '(__tensorcask_tensors)' -d 'No tensors with names that match; may be repeated'
complete -c tensorcask -n '__fish_seen_subcommand_from cat' -l allow-loss -d 'Leave out metadata that cannot be read, and the name in the metadata if it differs'
complete -c tensorcask -n '__fish_seen_subcommand_from cat' -l format -x -a 'checkpoint tensorproto records safetensors npy npz tensorproto-text graph' -d 'The format of PATH, if its content does not show it'
complete -c tensorcask -n '__fish_seen_subcommand_from cat' -l lenient -d 'Accept a safetensors file that breaks a rule in a known, harmless way, and say what it breaks'
complete -c tensorcask -n '__fish_seen_subcommand_from cat' -l base -r -F -d 'The base checkpoint of tensors that are stored as deltas'
complete -c tensorcask -n '__fish_seen_subcommand_from cat' -a '(__tensorcask_tensors)'

complete -c tensorcask -n __fish_use_subcommand -a save -d 'Save records from a pipe to a file'
complete -c tensorcask -n '__fish_seen_subcommand_from save' -l help -s h -d 'Print this help'
complete -c tensorcask -n '__fish_seen_subcommand_from save' -l to -x -a 'checkpoint tensorproto records safetensors npy npz tensorproto-text' -d 'The format of DST, if its name does not show it'
complete -c tensorcask -n '__fish_seen_subcommand_from save' -l level -x -a 'stored default high' -d 'Compression: stored (plain elements, the default), default or high; TensorFlow reads only stored'
complete -c tensorcask -n '__fish_seen_subcommand_from save' -l alignment -x -d 'Each tensor starts at a multiple of N bytes (default 64); 1 is the layout of TensorFlow'
complete -c tensorcask -n '__fish_seen_subcommand_from save' -l overwrite -d 'Replace DST'
complete -c tensorcask -n '__fish_seen_subcommand_from save' -l include -x -a '(__tensorcask_tensors)' -d 'Only tensors with names that match; may be repeated'
complete -c tensorcask -n '__fish_seen_subcommand_from save' -l exclude -x -a '(__tensorcask_tensors)' -d 'No tensors with names that match; may be repeated'
complete -c tensorcask -n '__fish_seen_subcommand_from save' -l allow-loss -d 'Leave out metadata (a device, attributes) that cannot be read'
complete -c tensorcask -n '__fish_seen_subcommand_from save' -l limit -x -d 'Refuse a stream with more than BYTES of records, before it reads the record that is too much'

complete -c tensorcask -n __fish_use_subcommand -a send -d 'Send tensors to a waiting recv'
complete -c tensorcask -n '__fish_seen_subcommand_from send' -l help -s h -d 'Print this help'
complete -c tensorcask -n '__fish_seen_subcommand_from send' -l unix -r -F -d 'Where a `tensorcask recv` waits'
complete -c tensorcask -n '__fish_seen_subcommand_from send' -l timeout -x -d 'Give up on a silent peer (default 600)'
complete -c tensorcask -n '__fish_seen_subcommand_from send' -l exclude -x -a '(__tensorcask_tensors)' -d 'No tensors with names that match; may be repeated'
complete -c tensorcask -n '__fish_seen_subcommand_from send' -l allow-loss -d 'Leave out metadata that cannot be read, and a second name that a tensor may have'
complete -c tensorcask -n '__fish_seen_subcommand_from send' -l format -x -a 'checkpoint tensorproto records safetensors npy npz tensorproto-text graph' -d 'The format of PATH, if its content does not show it'
complete -c tensorcask -n '__fish_seen_subcommand_from send' -l lenient -d 'Accept a safetensors file that breaks a rule in a known, harmless way, and say what it breaks'
complete -c tensorcask -n '__fish_seen_subcommand_from send' -l base -r -F -d 'The base checkpoint of tensors that are stored as deltas'
complete -c tensorcask -n '__fish_seen_subcommand_from send' -a '(__tensorcask_tensors)'

complete -c tensorcask -n __fish_use_subcommand -a recv -d 'Receive tensors from a send'
complete -c tensorcask -n '__fish_seen_subcommand_from recv' -l help -s h -d 'Print this help'
complete -c tensorcask -n '__fish_seen_subcommand_from recv' -l unix -r -F -d 'The socket to make, for one sender of the same user'
complete -c tensorcask -n '__fish_seen_subcommand_from recv' -l timeout -x -d 'Give up on a silent peer (default 600)'
complete -c tensorcask -n '__fish_seen_subcommand_from recv' -l to -x -a 'checkpoint tensorproto records safetensors npy npz tensorproto-text' -d 'The format of DST, if its name does not show it'
complete -c tensorcask -n '__fish_seen_subcommand_from recv' -l level -x -a 'stored default high' -d 'Compression: stored (plain elements, the default), default or high; TensorFlow reads only stored'
complete -c tensorcask -n '__fish_seen_subcommand_from recv' -l alignment -x -d 'Each tensor starts at a multiple of N bytes (default 64); 1 is the layout of TensorFlow'
complete -c tensorcask -n '__fish_seen_subcommand_from recv' -l overwrite -d 'Replace DST'

complete -c tensorcask -n __fish_use_subcommand -a serve -d 'Serve the tensors of files on a socket'
complete -c tensorcask -n '__fish_seen_subcommand_from serve' -l help -s h -d 'Print this help'
complete -c tensorcask -n '__fish_seen_subcommand_from serve' -l unix -r -F -d 'The socket to make, for clients of the same user'
complete -c tensorcask -n '__fish_seen_subcommand_from serve' -l timeout -x -d 'Give up on a silent peer (default 60)'
complete -c tensorcask -n '__fish_seen_subcommand_from serve' -l format -x -a 'checkpoint tensorproto records safetensors npy npz tensorproto-text graph' -d 'The format of PATH, if its content does not show it'
complete -c tensorcask -n '__fish_seen_subcommand_from serve' -l lenient -d 'Accept a safetensors file that breaks a rule in a known, harmless way, and say what it breaks'
complete -c tensorcask -n '__fish_seen_subcommand_from serve' -l base -r -F -d 'The base checkpoint of tensors that are stored as deltas'

complete -c tensorcask -n __fish_use_subcommand -a demo -d 'Save, verify, list and read back a small model'
complete -c tensorcask -n '__fish_seen_subcommand_from demo' -l help -s h -d 'Print this help'
