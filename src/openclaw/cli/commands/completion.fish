# fish completion for PROGRAM; made by: PROGRAM completion fish
function __PROGRAM_offers
  set -l line (string join -- \x1f (commandline -opc)[2..] (commandline -ct))
  set -l offers (PROGRAM completion fish --after="$line" 2>/dev/null)
  if test "$offers" = @files
    __fish_complete_path (commandline -ct)
  else
    printf '%s\n' $offers
  end
end
complete -c PROGRAM -f -a '(__PROGRAM_offers)'
