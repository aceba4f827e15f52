#!/usr/bin/env bash
# Measures the structure of the product's code: lines by folder, cycles of sources that call each
# other's public functions, and the number of sources in sim/ whose code names a setting of the
# exchange, without comments and texts.
#
# Usage: scripts/measure_structure.sh [BUILD]     BUILD: a built folder (default build/release); nm
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
build=${1:-build/release}
folders="common trace kernels profiler sim calibrate"
[ -f "$build/sim/libdl_sim.a" ] || { echo "measure_structure.sh: $build is not built" >&2; exit 2; }

echo "folder       sources   lines"
for folder in $folders; do
    find "$folder" \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' \) -print0 |
        xargs -0 wc -l | awk -v folder="$folder" '
            $2 != "total" { sources++; lines += $1 }
            END { printf "%-12s %7d %7d\n", folder, sources, lines }'
done | awk '{ print; sources += $2; lines += $3 } END { printf "%-12s %7d %7d\n", "all", sources, lines }'

# symbols: prints, for each object whose source exists, "SOURCE d NAME" for every global symbol that it
# defines and "SOURCE u NAME" for every undefined one.
symbols() {
    local folder object source
    for folder in $folders; do
        while read -r object; do
            source=$folder/${object#*.dir/}
            source=${source%.o}
            [ -f "$source" ] || continue
            nm --extern-only "$object" | awk -v source="$source" '
                NF == 2 { print source, "u", $2 }
                NF == 3 && $2 ~ /[TDRBC]/ { print source, "d", $3 }'
        done < <(find "$build/$folder" -name '*.o' | sort)
    done
}

# Cycles are the strongly connected components of the graph of sources (Tarjan 1972).
echo
echo "circles of sources"
symbols | awk '
    $2 == "d" { of[$3] = $1 }
    $2 == "u" { asks[$1] = asks[$1] " " $3 }
    function visit(v,    i, n, names, w) {
        number[v] = low[v] = ++count
        stack[++top] = v
        on[v] = 1
        n = split(asks[v], names, " ")
        for (i = 1; i <= n; i++) {
            w = of[names[i]]
            if (w == "" || w == v) continue
            if (!(w in number)) {
                visit(w)
                if (low[w] < low[v]) low[v] = low[w]
            } else if (on[w] && number[w] < low[v]) {
                low[v] = number[w]
            }
        }
        if (low[v] != number[v]) return
        n = 0
        circle = ""
        do {
            w = stack[top--]
            on[w] = 0
            circle = circle " " w
            n++
        } while (w != v)
        if (n > 1) printf "%3d %s\n", n, circle
    }
    END { for (v in asks) if (!(v in number)) visit(v) }' | sort -k1,1nr -k2 |
    awk '{ all++; if ($1 > 3) large++; print } END { printf "%d circles, %d of more than 3\n", all, large }'

echo
# Cost files have keys of the same names, which describe the program that was measured.
echo "sources of sim/ (except costs/) whose code names a setting"
# shellcheck disable=SC2016
find sim -name '*.[ch]' -not -path 'sim/costs/*' -print0 | xargs -0 perl -e '
    my @settings = ([overlap => "overlap"], [sharded => "sharded|dl_scenario_sharded"],
                    [bucket_bytes => "bucket_bytes"], [compression => "compression"],
                    [lag => "DL_SYNC_LAG"], [param_dtype => "param_dtype"], [fetch => "fetch"]);
    my %count;
    for my $source (@ARGV) {
        open(my $in, "<", $source) or die "$source: $!\n";
        my $code = do { local $/; <$in> };
        $code =~ s{/\*.*?\*/|//[^\n]*|"(?:[^"\\]|\\.)*"}{}gs;
        for (@settings) { $count{$_->[0]}++ if $code =~ /\b(?:$_->[1])\b/ }
    }
    printf "%-14s %3d\n", $_->[0], $count{$_->[0]} // 0 for @settings'
