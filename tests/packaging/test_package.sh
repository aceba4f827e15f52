#!/usr/bin/env bash
# Builds the Debian packages, checks their contents, and runs the unpacked programs.
# Usage: test_package.sh BUILD; 77 = a tool is missing
set -u
build=$1
tested=$build/bin/dlsim
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
for tool in cpack dpkg-deb dpkg-shlibdeps; do
    command -v $tool >/dev/null || { echo "no $tool: skipped"; exit 77; }
done
unset DLSCALE_SHARE

cpack -G DEB --config "$build/CPackConfig.cmake" -B "$folder/made" >cpack.log 2>&1 || { tail -n 20 cpack.log; exit 1; }
version=$("$tested" --version | cut -d' ' -f2)
field() { dpkg-deb -f made/"$1"_*.deb "$2"; }
for package in dlscale libdlscale0 libdlscale-dev; do
    [ -e "$(echo made/${package}_"$version"_*.deb)" ] || { fail "no package $package: $(ls made)"; continue; }
    [ "$(field $package Version)" = "$version" ] || fail "$package: version $(field $package Version)"
    dpkg-deb -c made/${package}_*.deb | sed 's/.* \.\//\//' >$package.list
    for file in copyright changelog.gz; do
        grep -qx "/usr/share/doc/$package/$file" $package.list || fail "$package lacks $file"
    done
    dpkg-deb -x made/${package}_*.deb root || fail "$package cannot be unpacked"
done

# Package names of the libraries vary between releases; these parts are common to all.
for depends in 'libc6 (>=' libgsl libopenblas libsimdjson libsqlite3 zlib1g; do
    [[ $(field dlscale Depends) == *"$depends"* ]] || fail "dlscale does not depend on $depends: $(field dlscale Depends)"
done
[[ $(field libdlscale0 Depends) == libc6* ]] || fail "libdlscale0 depends on $(field libdlscale0 Depends)"
[ "$(field libdlscale-dev Depends)" = "libdlscale0 (= $version)" ] || fail "libdlscale-dev depends on $(field libdlscale-dev Depends)"
for file in /usr/bin/dlprof /usr/bin/dlcal /usr/bin/dlsim /usr/share/man/man1/dlsim.1.gz \
    /usr/share/man/man5/dlscale-scenario.5.gz /usr/share/bash-completion/completions/dlprof \
    /usr/share/dlscale/scenarios/machines/p2.8xlarge.ini /usr/share/dlscale/plots/speedup.gp \
    /usr/share/doc/dlscale/LICENSES.md; do
    grep -qx "$file" dlscale.list || fail "dlscale lacks $file"
done
grep -q '^/usr/lib/libdlscale.so.0 -> ' libdlscale0.list || fail "libdlscale0: $(cat libdlscale0.list)"
grep -qx '/usr/include/dlscale.h' libdlscale-dev.list || fail "libdlscale-dev: $(cat libdlscale-dev.list)"
[ "$(cat ./*.list | grep -v '/$' | sort | uniq -d)" = "" ] || fail "in two packages: $(cat ./*.list | grep -v '/$' | sort | uniq -d)"
grep -rlF --binary-files=text "$build" root && fail "the above name the build folder"

tested=$folder/root/usr/bin/dlsim
expect 0 "p2.8xlarge" --machines
expect 0 "points in" --costs root/usr/share/dlscale/scenarios/costs/mxnet_alexnet_p2.ini \
    --machine p2.8xlarge --batch 256 --steps 5 -o results.csv
if command -v lintian >/dev/null; then
    lintian --fail-on error --tag-display-limit 0 made/*.deb >lintian.txt 2>&1 || fail "lintian: $(grep '^E' lintian.txt)"
    grep -E '^[EW]:' lintian.txt
fi

[ "$failures" -eq 0 ]
