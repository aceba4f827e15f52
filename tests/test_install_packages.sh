#!/usr/bin/env bash
# scripts/install_packages.sh with and without the right to install. Usage: test_install_packages.sh
# SCRIPT
set -u
tested=$1
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/expect.sh"
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

# A system with all packages but two, on which only basic tools of the real system are available.
mkdir bin
for tool in bash env cat chmod id mktemp rm sed tail touch; do ln -s "$(command -v $tool)" bin/; done
make_program() { printf '#!/usr/bin/env bash\n%s\n' "$2" >"bin/$1" && chmod +x "bin/$1"; }
# shellcheck disable=SC2016 # the texts are scripts
{
    make_program dpkg-query 'case "$3" in libgsl-dev | gnuplot-nox) exit 1 ;; esac; echo -n "install ok installed"'
    make_program apt-get 'echo "$*" >>"$CALLS"; [ ! -e no-network ] || { echo "E: no network"; exit 100; }'
    rm bin/id
    make_program id 'echo "$USER_ID"'
}
export PATH=$PWD/bin CALLS=$PWD/calls USER_ID=1000
unset CMAKE_PREFIX_PATH

expect 0 "neither root nor sudo" # 0: the build continues
expect 0 "libgsl-dev        fits of dlcal"
expect 0 "gnuplot-nox       figures (optional)"
expect 0 "set CMAKE_PREFIX_PATH"
[ ! -e calls ] || fail "apt-get was called without rights: $(cat calls)"
[[ $("$tested" 2>&1) != *libcmocka-dev* ]] || fail "lists a package that is there"
CMAKE_PREFIX_PATH=/opt/libraries expect 0 "in CMAKE_PREFIX_PATH (/opt/libraries)"

USER_ID=0 expect 0 "installing with apt-get: libgsl-dev gnuplot-nox"
[ "$(tail -n 1 calls)" = "install -y -qq --no-install-recommends libgsl-dev gnuplot-nox" ] ||
    fail "apt-get was called with: $(cat calls)"
touch no-network
USER_ID=0 expect 0 "E: no network"
USER_ID=0 expect 0 "apt-get could not install; packages that are missing:"
rm bin/apt-get
USER_ID=0 expect 0 "no apt-get on this system"

make_program dpkg-query 'echo -n "install ok installed"'
[ -z "$("$tested" 2>&1)" ] || fail "prints something though all is there: $("$tested" 2>&1)"
expect 2 "takes no argument" --all

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
