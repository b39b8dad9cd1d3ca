# bash completion for PROGRAM; made by: PROGRAM completion bash
_PROGRAM_complete() {
  local current=${COMP_WORDS[COMP_CWORD]} line offers IFS=$'\x1f'
  line="${COMP_WORDS[*]:1:$COMP_CWORD}"
  IFS=$'\n'
  # A name with a colon is several words here, and would be put together wrongly.
  offers=$(PROGRAM completion bash --after="$line" 2>/dev/null | grep -v :)
  if [[ $offers == @files ]]; then COMPREPLY=($(compgen -f -- "$current"))
  else COMPREPLY=($offers); fi
}
complete -o filenames -F _PROGRAM_complete PROGRAM
