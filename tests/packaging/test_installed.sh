#!/usr/bin/env bash
# Installs the build, moves the installed tree, and uses it from another folder: programs find
# machines, scripts and libraries, manual pages have no faults, completion works.
# Usage: test_installed.sh BUILD SOURCE COMPILER SANITIZERS [NVTX_TARGET]
set -u
build=$1 source=$2 compiler=$3 sanitizers=$4 target=${5:-}
tested=$build/bin/dlsim
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
has() { grep -qF -- "$2" "$1" || fail "$1 lacks '$2': $(head -n 5 "$1")"; }
unset DLSCALE_SHARE CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH NCCL_PROFILER_PLUGIN

cmake --install "$build" --prefix "$folder/first" >install.log 2>&1 || { cat install.log; exit 1; }
mv first "moved here"
root=$(cd "moved here" && pwd -P)
share=$root/share/dlscale
mkdir elsewhere
cd elsewhere || exit 1
grep -rl --binary-files=text -F "$source" "$root/share/man" "$root/share/bash-completion" &&
    fail "the above name the source folder"

# The benchmark of exchanges between PyTorch's processes.
[ -f "$share/torch/bench_gloo.py" ] || fail "no bench_gloo.py"

# Machines by name, costs and plots come from the installation.
tested=$root/bin/dlsim
expect 0 "p2.8xlarge" --machines
"$tested" --costs "$share/scenarios/costs/mxnet_alexnet_p2.ini" --machine p2.8xlarge --batch 256 \
    --steps 5 --html page.html >table.txt || fail "dlsim --html: exit $?"
[ "$(grep -c '^[^#]' results.csv)" -eq 5 ] || fail "not 4 rows: $(cat results.csv)"
has page.html '<h1>'
has page.html 'dlscale.show();'
expect 0 "no costs are missing" --check "$share/scenarios/modes/cpu_wait_or_not.ini"
[ "$("$tested" --save saved.ini --check --costs "$share/scenarios/costs/mxnet_alexnet_p2.ini" \
    --machine p2.8xlarge --batch 256 >/dev/null && grep -c "^file *= $share/" saved.ini)" -eq 1 ] ||
    fail "the saved scenario does not name the installed machine: $(cat saved.ini)"
DLSCALE_SHARE=$source expect 0 "p2.8xlarge" --machines
DLSCALE_SHARE=/nowhere expect 1 "/nowhere/scenarios/machines" --machines

# dlprof run injects the library of the moved tree.
tested=$root/bin/dlprof
if [ -e "$root/lib/dlscale/libdlprof_inject.so" ]; then
    # shellcheck disable=SC2016 # expanded by the recorded shell
    expect 0 "$root/lib/dlscale/libdlprof_inject.so" run -q -- sh -c 'echo "$NVTX_INJECTION64_PATH"'
    if [ -n "$target" ]; then
        expect 0 "1 trace in" run -o traces -- "$target"
        expect 0 "complete" info traces/*.dlt
    fi
fi
"$tested" train --model mlp --batch 4 --data synthetic --steps 2 -o run.dlt >/dev/null || fail "train"

# The library: a user can compile the example, which predicts the same as dlsim; only functions that
# the header declares are exported.
library=$root/lib/libdlscale.so
if command -v pkg-config >/dev/null && [ -e "$library" ]; then
    ln -s "$root" ../plain # pkg-config before version 1 does not quote the space of a folder's name
    export PKG_CONFIG_PATH=$folder/plain/lib/pkgconfig
    [ "$(pkg-config --modversion dlscale)" = "$("$root/bin/dlsim" --version | cut -d' ' -f2)" ] || fail "dlscale.pc: version"
    [ -z "$sanitizers" ] || sanitize=-fsanitize=$sanitizers
    eval "\"$compiler\" -std=c99 -Wall -Wextra -Wpedantic -Werror ${sanitize:-} -o predict \
        \"$root/share/doc/dlscale/docs/examples/predict.c\" $(pkg-config --cflags --libs dlscale)" || fail "predict.c does not compile"
    scenario=$share/scenarios/modes/cpu_wait_or_not.ini
    LD_LIBRARY_PATH=$root/lib ./predict "$scenario" >predicted.csv || fail "predict: exit $?"
    "$root/bin/dlsim" -q "$scenario" -o scenario.csv || fail "dlsim $scenario"
    awk -F, '/^#/ { next }
        !names++ { for (i = 1; i <= NF; i++) at[$i] = i; print "workers,batch,speedup,throughput_per_s"; next }
        { printf "%.0f,%.0f,%.6g,%.6g\n", $at["workers"], $at["batch"], $at["speedup"], $at["throughput_per_s"] }' \
        scenario.csv >expected.csv
    [ "$(wc -l <expected.csv)" -gt 2 ] || fail "few rows: $(cat expected.csv)"
    cmp expected.csv predicted.csv || fail "predict: $(diff expected.csv predicted.csv)"
    printf '[machine]\nfile = p2.8xlarge\nworkers = 2\n[workload]\ncosts = %s\nbatch = 256\n[sync]\nmode = allreduce\n' \
        "$share/scenarios/costs/mxnet_alexnet_p2.ini" >by_name.ini
    LD_LIBRARY_PATH=$root/lib ./predict by_name.ini 2>error.txt | grep -q '^2,256,' || fail "a machine by name: $(cat error.txt)"
    LD_LIBRARY_PATH=$root/lib ./predict /nowhere.ini 2>error.txt && fail "predict of no file succeeds"
    has error.txt "/nowhere.ini:0: "
    declared=$(grep -o '\bdlscale_[a-z_]*(' "$root/include/dlscale.h" | tr -d '(' | sort -u)
    exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub("@.*", "", $3); print $3 }' | sort -u)
    [ "$declared" = "$exported" ] || fail "exported: $(diff <(echo "$declared") <(echo "$exported"))"
    readelf -d "$library" | grep -q 'SONAME.*\[libdlscale.so.0\]' || fail "soname: $(readelf -d "$library" | grep SONAME)"
fi

# All programs print the project's version.
version=$(sed -n 's/^project(dlscale VERSION \([0-9.]*\) .*/\1/p' "$source/CMakeLists.txt")
for program in dlprof dlcal dlsim; do
    tested=$root/bin/$program
    [ "$("$tested" --version)" = "$program $version" ] || fail "$program --version: $("$tested" --version)"
done
has "$source/CITATION.cff" "version: $version"
has "$source/CHANGELOG.md" "$version"
date=$(sed -n 's/^set(DL_RELEASE_DATE \(.*\))/\1/p' "$source/CMakeLists.txt")
has "$source/CITATION.cff" "date-released: $date"

# The documentation: the targets of its links are installed too.
pages=0
for page in "$root"/share/doc/dlscale/*.md "$root"/share/doc/dlscale/docs/*.md \
    "$root"/share/doc/dlscale/docs/studies/*.md; do
    pages=$((pages + 1))
    for link in $(grep -o '](\([^)#]*\)[^)]*)' "$page" | sed 's/^](//; s/[#)].*//' | grep -v '^https\?:'); do
        [ -e "$(dirname "$page")/$link" ] || fail "${page#"$root"/} links to $link, which is not installed"
    done
done
[ "$pages" -ge 15 ] || fail "only $pages pages of documentation"

# Manual pages.
for page in man1/dlprof.1 man1/dlcal.1 man1/dlsim.1 man5/dlscale-scenario.5 man5/dlscale-costs.5 \
    man5/dlscale-machine.5; do
    zcat "$root/share/man/$page.gz" >"${page#*/}" || { fail "no page $page"; continue; }
    if command -v mandoc >/dev/null; then
        mandoc -T lint -W warning "${page#*/}" || fail "mandoc: $page"
    fi
    if command -v groff >/dev/null; then
        groff -man -Tutf8 -ww -z "${page#*/}" >warnings 2>&1 || fail "groff: $page"
        [ ! -s warnings ] || fail "$page: $(head -n 5 warnings)"
    fi
    if command -v man >/dev/null; then
        LC_ALL=C MANWIDTH=80 man -l "${page#*/}" >"${page#*/}.txt" 2>warnings || fail "man -l $page"
        has "${page#*/}.txt" "$version"
    fi
done
for text in '--histogram' '--workers' 'DLSCALE_SHARE' 'EXIT STATUS'; do
    sed 's/\\//g' dlsim.1 | grep -qF -- "$text" || fail "dlsim.1 lacks $text"
done
for text in 'dlprof train' '--preset' 'overhead.dlt' '130, 143'; do
    sed 's/\\//g' dlprof.1 | grep -qF -- "$text" || fail "dlprof.1 lacks $text"
done
for key in $("$root/bin/dlsim" --keys | sed -n 's/^  \([a-z_*]*\)$/\1/p' | sort -u); do
    pattern="^fB${key//\*/[*]}fR = "
    cat ./*.5 | sed 's/\\//g' | grep -q "$pattern" || fail "no page has the key $key"
done

# Completion as bash calls it: complete WORDS... prints the completions of the last word.
for program in dlprof dlcal dlsim; do
    # shellcheck disable=SC1090
    source "$root/share/bash-completion/completions/$program" || fail "completion of $program"
    complete -p "$program" >/dev/null || fail "no completion of $program"
done
completed() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    "_$1"
    echo "${COMPREPLY[*]}"
}
is() { [ "$2" = "$3" ] || fail "completion of '$1': '$2', not '$3'"; }
is "dlprof tr" "$(completed dlprof tr)" train
is "dlprof train --mod" "$(completed dlprof train --mod)" "--model="
is "dlprof train --model = res" "$(completed dlprof train --model = res)" resnet50
is "dlprof train --model =" "$(completed dlprof train --model =)" "$(completed dlprof train --model '')"
is "dlprof run -p f" "$(completed dlprof run -p f)" full
is "dlprof run -- --mod" "$(completed dlprof run -- --mod)" ""
is "dlsim --hist" "$(completed dlsim --hist)" "--histogram="
is "dlsim -q --ch" "$(completed dlsim -q --ch)" "--check"
is "dlsim --output x" "$(completed dlsim --output x)" ""
is "dlcal fit --j" "$(completed dlcal fit --j)" "--json="

[ "$failures" -eq 0 ]
