# Completion of heddle's commands, options and what these take, for bash. It knows none of them by itself: the program's
# own help says which there are, `heddle show` names presets and parameters.

_heddle_ask() {
  "$_heddle_program" "$@" 2>/dev/null
}

# The commands of the help's list, which stand in lines "  heddle COMMAND ...".
_heddle_commands() {
  _heddle_ask --help | sed -n 's/^  heddle \([a-z]*\).*/\1/p' | sort -u
}

# The options of a command, one a line: --name, and what it takes, if anything.
_heddle_options() {
  _heddle_ask "$1" --help | sed -n -E 's/^  (-[a-z] \[ )?(--[a-z-]+)( \])?( ([^ ]+))?.*/\2 \5/p'
}

# What an option takes, as the help writes it: at|fast|lt.
_heddle_value() {
  _heddle_options "$1" | sed -n "s/^$2 //p"
}

_heddle_presets() {
  _heddle_ask show presets | sed -n 's/^\([a-z0-9-]\{1,\}\) .*/\1/p'
}

_heddle_parameters() {
  _heddle_ask show params --format table | sed 's/ .*/=/'
}

_heddle_reply() {  # candidates one a line; the word
  local candidate
  while IFS= read -r candidate; do
    if [[ -n "$candidate" && "$candidate" == "$2"* ]]; then COMPREPLY+=("$option$candidate"); fi
  done <<<"$1"
}

_heddle_files() {  # the word; folders alone: -d
  local candidate
  while IFS= read -r candidate; do
    if [[ -n "$candidate" ]]; then COMPREPLY+=("$option$candidate"); fi
  done < <(compgen "${2:--f}" -- "$1")
  compopt -o filenames 2>/dev/null
}

_heddle() {
  local _heddle_program=${1:-heddle} word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  local command=${COMP_WORDS[1]-} value option=''
  COMPREPLY=()
  # --timing=f is three words where = breaks words, as it usually does, and one where it does not.
  if [[ "$word" == = && "$before" == --* ]]; then
    word=''
  elif ((COMP_CWORD > 2)) && [[ "$before" == = && "${COMP_WORDS[COMP_CWORD - 2]}" == --* ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  elif [[ "$word" == --*=* ]]; then
    option=${word%%=*}=
    before=${word%%=*}
    word=${word#*=}
  fi
  if ((COMP_CWORD == 1)); then
    _heddle_reply "$(_heddle_commands)"$'\n'"--help"$'\n'"--version" "$word"
    return
  fi
  if [[ "$before" == -* && "$word" != -* ]]; then
    value=$(_heddle_value "$command" "$before")
    case $value in
      PRESET\|FILE)
        _heddle_reply "$(_heddle_presets)" "$word"
        _heddle_files "$word"
        return
        ;;
      K=V)
        _heddle_reply "$(_heddle_parameters)" "$word"
        compopt -o nospace 2>/dev/null
        return
        ;;
      *=*)
        _heddle_reply "$(tr '|' '\n' <<<"$value" | sed 's/=.*/=/')" "$word"
        compopt -o nospace 2>/dev/null
        return
        ;;
      DIR)
        _heddle_files "$word" -d
        return
        ;;
      FILE | OUT)
        _heddle_files "$word"
        return
        ;;
      '') ;;  # it takes nothing: whatever follows is a word of its own
      *[a-z]*)
        _heddle_reply "$(tr '|' '\n' <<<"$value")" "$word"
        return
        ;;
      *) return ;;  # a number, a name: nobody knows
    esac
  fi
  if [[ "$word" == -* ]]; then
    _heddle_reply "$(_heddle_options "$command" | sed 's/ .*//')" "$word"
    return
  fi
  if ((COMP_CWORD == 2)); then
    case $command in
      show) _heddle_reply "$(_heddle_ask show --help | sed -n 's/^heddle show \([a-z-]*\).*/\1/p')" "$word" ;;
      import) _heddle_reply "$(_heddle_ask import --help | sed -n '1s/^heddle import \([a-z|]*\).*/\1/p' | tr '|' '\n')" "$word" ;;
      sweep)
        _heddle_reply "$(_heddle_ask sweep --help | sed -n 's/^heddle sweep \([a-z]*\) FILE.*/\1/p')" "$word"
        _heddle_files "$word"
        ;;
      compare | test) _heddle_files "$word" -d ;;
      *) _heddle_files "$word" ;;
    esac
    return
  fi
  case $command in
    show)
      if [[ "${COMP_WORDS[2]}" == params ]]; then
        _heddle_reply "$(_heddle_parameters | sed 's/=$//')" "$word"
      fi
      ;;
    compare) _heddle_files "$word" -d ;;
    *) _heddle_files "$word" ;;
  esac
}

complete -F _heddle heddle
