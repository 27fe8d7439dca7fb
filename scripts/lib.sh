# shellcheck shell=bash
# What the scripts share. Source it; it defines functions only.

# Messages go to stderr: stdout belongs to the program or the tool that a script runs.
say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() {
  say "$@"
  exit 1
}

# Parallel jobs: one per processor, but not more than memory carries (a gigabyte for each compiler).
# HEDDLE_JOBS overrides.
jobs_count() {
  local count memory_kib key value
  if [[ -n "${HEDDLE_JOBS:-}" ]]; then
    echo "$HEDDLE_JOBS"
    return
  fi
  count=$(nproc 2>/dev/null || echo 2)
  if [[ -r /proc/meminfo ]]; then
    memory_kib=
    while read -r key value _; do
      if [[ "$key" == MemAvailable: ]]; then memory_kib=$value; fi
    done </proc/meminfo
    if [[ -n "$memory_kib" ]] && ((memory_kib / 1048576 < count)); then
      count=$((memory_kib / 1048576))
    fi
  fi
  echo $((count > 0 ? count : 1))
}

# Sources of the project, one path a line, relative to the root: what git tracks or would track, or, outside a git
# checkout, what lies in the source folders.
project_sources() {
  local root=$1
  shift
  if git -C "$root" rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git -C "$root" ls-files --cached --others --exclude-standard --deduplicate -- "$@" | while IFS= read -r path; do
      if [[ -f "$root/$path" ]]; then printf '%s\n' "$path"; fi
    done
  else
    local pattern names=()
    for pattern in "$@"; do names+=(-o -name "$pattern"); done
    (cd "$root" && find models platforms testbenches -type f \( "${names[@]:1}" \) -print | sort)
  fi
}

# configure ROOT PRESET: runs cmake where there is no usable build folder yet. Later changes of CMake files are ninja's
# own business; only the presets file is not among its dependencies.
configure() {
  local root=$1 preset=$2 build=$1/build/$2 fresh=() log
  if [[ -f "$build/CMakeCache.txt" ]]; then
    if ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt"; then
      say "build/$preset was configured for another folder: starting afresh"
      fresh=(--fresh)
    elif [[ -f "$build/build.ninja" && ! "$root/CMakePresets.json" -nt "$build/build.ninja" ]]; then
      return 0
    fi
  fi
  say "configuring build/$preset"
  log=$build/configure.log
  mkdir -p "$build"
  # cmake finds its presets in the current folder only.
  if ! (cd "$root" && cmake "${fresh[@]}" --preset "$preset") >"$log" 2>&1; then
    cat "$log" >&2
    die "cmake failed; the output above is also in $log"
  fi
  touch "$build/build.ninja"
}

# ninja's output, made bearable: one line that renews itself on a terminal, a line every ten seconds in a pipe, nothing
# at all when there is nothing to build. What the compilers say passes through.
build_progress() {
  local line shown=0 now last=$SECONDS terminal=false
  if [[ -t 2 ]]; then terminal=true; fi
  while IFS= read -r line; do
    if [[ "$line" == "ninja: no work to do." || "$line" == "ninja: Entering directory"* || "$line" == "-- "* ]]; then
      continue  # the last are cmake's, when ninja runs it again
    elif [[ "$line" =~ ^\[[0-9]+/[0-9]+\]\  ]]; then
      # Checking the source folders for new files is the first step of every build, also of one that does nothing.
      if [[ "$line" == "[0/"* ]]; then continue; fi
      if $terminal; then
        printf '\r\033[K%.*s' "$((${COLUMNS:-100} - 1))" "$line" >&2
        shown=1
      else
        now=$SECONDS
        if ((now - last >= 10)); then
          say "$line"
          last=$now
        fi
      fi
    else
      if ((shown)); then printf '\r\033[K' >&2; fi
      shown=0
      printf '%s\n' "$line" >&2
    fi
  done
  if ((shown)); then printf '\r\033[K' >&2; fi
}

# build ROOT PRESET [TARGET…]: configures where needed and builds. One at a time per build folder.
build() {
  local root=$1 preset=$2 folder=$1/build/$2 lock start=$SECONDS targets=()
  shift 2
  if (($#)); then targets=(--target "$@"); fi
  mkdir -p "$folder"
  exec {lock}>"$folder/.scripts.lock"
  if command -v flock >/dev/null && ! flock -n "$lock"; then
    say "waiting for another build in build/$preset"
    flock "$lock"
  fi
  configure "$root" "$preset"
  if ! NINJA_STATUS='[%f/%t] ' cmake --build "$folder" -j "$(jobs_count)" "${targets[@]}" 2>&1 | build_progress; then
    die "the build of build/$preset failed"
  fi
  exec {lock}>&-
  if ((SECONDS - start >= 10)); then say "built build/$preset in $((SECONDS - start)) s"; fi
}
