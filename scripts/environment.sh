# Sourced by demo, test and check: find a Python, keep one virtual environment complete.
# shellcheck shell=bash

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
say() { printf '%s\n' "$*" >&2; }

# The newest Python that every dependency has wheels for, unless PYTHON names one.
find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3.13 python3.12 python3.11 python3; do
        if [[ -n "$candidate" ]] && command -v "$candidate" >/dev/null 2>&1 && "$candidate" -c '
import sys, venv, ensurepip
sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null; then
            command -v "$candidate"
            return 0
        fi
    done
    say "No suitable Python: 3.11, 3.12 or 3.13 with its venv module is needed (Debian: apt install python3-venv)."
    return 1
}

# (Each step says `|| return`: called from an `if`, a function does not stop at its first error.)
# prepare_environment EXTRA FOLDER...: make `python` the interpreter of a complete environment.
# The first FOLDER that is complete for this pyproject.toml is used, else the last one is filled.
prepare_environment() {
    local extra="$1" folder wanted base sum
    shift
    base="$(find_python)" || return 1
    sum="$(cksum <"$root/pyproject.toml")"
    wanted="${extra:-run} $sum"
    for folder in "$@"; do
        python="$root/$folder/bin/python"
        # A complete development environment can run the product too.
        case "$(cat "$root/$folder/.pegas-complete" 2>/dev/null)" in
            "$wanted" | "dev $sum") "$python" -c 'import pegas_memory' 2>/dev/null && return 0 ;;
        esac
    done
    say "Setting up $folder with $("$base" --version) (once; later runs reuse it)."
    if ! { [[ -x "$python" ]] && "$python" -m pip --version >/dev/null 2>&1; }; then
        rm -rf "${root:?}/$folder"
        "$base" -m venv "$root/$folder" || return 1
    fi
    rm -f "$root/$folder/.pegas-complete"
    export PIP_DISABLE_PIP_VERSION_CHECK=1
    local target="$root"
    [[ -n "$extra" ]] && target="$root[$extra]"
    "$python" -m pip install --quiet --prefer-binary --editable "$target" || return 1
    # Without .pyc files a first start takes three times as long.
    "$python" -m compileall -q -j 0 "$root/$folder/lib" "$root/pegas_memory" >/dev/null 2>&1 || true
    printf '%s\n' "$wanted" >"$root/$folder/.pegas-complete"
}
