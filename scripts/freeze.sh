#!/usr/bin/env bash
# Keeps the results of all scenario files and of 2,000 random scenarios, and compares two of these
# folders, to check that a change leaves results as they were at the commit before it. Takes a few
# minutes on two cores.
#
# Usage: scripts/freeze.sh FOLDER                    runs them, results in FOLDER (a new one)
#        scripts/freeze.sh FOLDER BASE               runs those of BASE, then compares with BASE
#        scripts/freeze.sh --compare BASE FOLDER     compares only
#
# The program is $DLSIM (default build/release/bin/dlsim); FOLDER/about.txt names the commit of the
# program's checkout. Random scenarios come from test_random_keys of the same build, which draws every
# key of the tables. Each scenario is run twice: unchanged (plain/), and with log-normal noise of
# sigma 1e-6 (noisy/), so that no two events occur at the same time. A run that takes more than $LIMIT
# seconds of processor time (default 30) is skipped. $JOBS run in parallel (default: one per core).
#
# Numbers are equal within 1e-12 of the larger one, texts if they are identical; rows are matched by
# their keys, columns by their names. Exit status: 0 all equal, 1 a difference, 2 bad usage. If a run
# differs only without noise, the order of simultaneous events may have changed: it is listed as a tie,
# and makes the status 1 unless $TIES=accept.
set -euo pipefail
export LC_ALL=C
root=$(cd "$(dirname "$0")/.." && pwd)

complain() { echo "freeze.sh: $*" >&2; exit 2; }

count() { find "$1/plain" -name '*.txt' | wc -l; } # scenarios of a folder

# run_one FOLDER SCENARIO: keeps results and messages of one scenario, without and with noise.
run_one() {
    local folder=$1 scenario=$2 name way code
    name=$(tr / _ <<<"${scenario%.ini}")
    cd "$folder/scenarios"
    for way in plain noisy; do
        local out=../$way/$name noise=()
        [ "$way" = plain ] || noise=(--set noise.kind=lognormal --set noise.sigma=1e-6)
        code=0
        {
            (ulimit -t "$LIMIT"; exec "$DLSIM" --threads 1 --long --quiet --journal off "${noise[@]}" "$scenario" \
                -o "$out.csv" --histogram "$out.histogram.csv") >"$out.messages" 2>&1 || code=$?
        } 2>/dev/null # the shell's own message of a kill
        if [ "$code" = 137 ] || [ "$code" = 152 ]; then
            rm -f "$out.csv" "$out.histogram.csv"
            echo "skipped" >"$out.txt"
        else
            # The reported progress of a run depends on the machine.
            { echo "exit $code"; grep -v '^dlsim: [0-9.]* % of the work is done' "$out.messages" || true; } >"$out.txt"
        fi
        rm "$out.messages"
    done
}

freeze() { # FOLDER [BASE]
    local folder=$1 base=${2:-} tests commit
    [ ! -e "$folder" ] || complain "'$folder' exists"
    DLSIM=$(realpath -e "${DLSIM:-$root/build/release/bin/dlsim}") || complain "no dlsim; build it, or name it in DLSIM"
    commit=$(git -C "$(dirname "$DLSIM")" rev-parse HEAD 2>/dev/null || echo unknown)
    git -C "$(dirname "$DLSIM")" diff --quiet HEAD 2>/dev/null || commit+=" and changes"
    mkdir -p "$folder"/{plain,noisy,scenarios}
    folder=$(cd "$folder" && pwd)
    if [ -n "$base" ]; then
        cp -r "$base/scenarios/." "$folder/scenarios"
        LIMIT=$(sed -n 's/^limit_s=//p' "$base/about.txt")
    else
        tests=$(dirname "$DLSIM")/../tests
        cp -r "$root/scenarios" "$root/tests/golden" "$folder/scenarios"
        mkdir "$folder/scenarios/random"
        (cd "$folder/scenarios/random" && RANDOM_KEYS="write" "$tests/test_random_keys" >messages 2>&1) ||
            complain "$tests/test_random_keys writes no scenarios"
    fi
    export DLSIM LIMIT=${LIMIT:-30}
    # Files other than scenarios (machines, costs) have no [workload].
    (cd "$folder/scenarios" && grep -rlE '^\[workload\]' --include='*.ini' . | sed 's,^\./,,' | sort) |
        xargs -P "${JOBS:-$(nproc)}" -I{} "$0" --one "$folder" {}
    printf 'commit=%s\nversion=%s\nlimit_s=%s\n' "$commit" "$("$DLSIM" --version)" "$LIMIT" >"$folder/about.txt"
    echo "$(count "$folder") scenarios of $commit"
}

# differences A B: one line for each kind of difference between two result files.
differences() {
    awk '
        # Splits a line of CSV into f[1..].
        function fields(line, f,    n, c, i, quoted, part) {
            n = split(line, part, ",")
            c = 0
            for (i = 1; i <= n; i++) {
                if (quoted) f[c] = f[c] "," part[i]
                else f[++c] = part[i]
                if (gsub(/"/, "\"", part[i]) % 2) quoted = !quoted
            }
            return c
        }
        function is_number(text) { return text ~ /^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$/ }
        function size(x) { return x < 0 ? -x : x }
        FNR == 1 { file++; named = 0; split("", times) }
        /^# version/ { next }
        !/,/ || /^#/ { if (file == 1) texts[$0] = 1; else if ($0 in texts) delete texts[$0]; else more[$0] = 1; next }
        !named {
            named = 1
            columns = fields($0, f)
            keys = 0
            for (i = 1; i <= columns; i++) {
                name[i] = f[i]
                if (file == 1) here[f[i]] = 1; else there[f[i]] = 1
                if (!keys && (f[i] == "step_mean_s" || f[i] == "count")) keys = i - 1
            }
            if (!keys) keys = columns
            next
        }
        {
            split("", f)
            fields($0, f)
            key = ""
            for (i = 1; i <= keys; i++) key = key (i > 1 ? "," : "") f[i]
            if (times[key]++) key = key " again " times[key]
            if (file == 1) {
                rows[key] = 1
                for (i = 1; i <= columns; i++) value[key, name[i]] = f[i]
                next
            }
            if (!(key in rows)) { extra[key] = 1; next }
            delete rows[key]
            for (i = 1; i <= columns; i++) {
                if (!(name[i] in here)) continue
                a = value[key, name[i]]
                b = f[i]
                if (a == b) continue
                if (!is_number(a) || !is_number(b)) { print "row " key ": " name[i] " was \"" a "\", is \"" b "\""; continue }
                larger = size(a + 0) > size(b + 0) ? size(a + 0) : size(b + 0)
                frac = larger > 0 ? size(a - b) / larger : 0
                if (frac <= 1e-12) continue
                differing++
                if (frac > worst) { worst = frac; where = "row " key ": " name[i] " was " a ", is " b }
            }
        }
        END {
            if (differing) printf "%d numbers, the largest difference %.2g: %s\n", differing, worst, where
            for (i in rows) print "missing row " i
            for (i in extra) print "extra row " i
            for (i in here) if (!(i in there)) print "missing column " i
            for (i in there) if (!(i in here)) print "extra column " i
            for (i in texts) print "missing text: " i
            for (i in more) print "extra text: " i
        }' "$1" "$2"
}

# compare_run BASE FOLDER plain/NAME or noisy/NAME: prints the differences.
compare_run() {
    local kind
    for kind in txt csv histogram.csv; do
        local a=$1/$3.$kind b=$2/$3.$kind
        if [ -e "$a" ] && [ -e "$b" ]; then differences "$a" "$b"
        elif [ -e "$a" ]; then echo "missing file $3.$kind"
        elif [ -e "$b" ]; then echo "extra file $3.$kind"
        fi
    done | sed "s,^,    ${3%%/*}: ,"
}

compare() { # BASE FOLDER
    local folder name plain noisy differ=0 ties=0 skipped
    for folder in "$1" "$2"; do
        [ -e "$folder/about.txt" ] || complain "'$folder' holds no frozen results"
        echo "$folder: $(paste -sd' ' "$folder/about.txt")"
    done
    skipped=$(cd "$1" && { grep -lxs skipped ./*/*.txt; cd "$2" && grep -lxs skipped ./*/*.txt; } | sort -u) || true
    [ -z "$skipped" ] || sed 's,^\./\(.*\)\.txt$,\1: skipped\, not compared,' <<<"$skipped"
    while read -r name; do
        plain="" noisy=""
        grep -qx "./plain/$name.txt" <<<"$skipped" || plain=$(compare_run "$1" "$2" "plain/$name")
        grep -qx "./noisy/$name.txt" <<<"$skipped" || noisy=$(compare_run "$1" "$2" "noisy/$name")
        if [ -n "$noisy" ]; then
            differ=$((differ + 1))
            printf '%s: differs\n%s\n' "$name" "$plain${plain:+$'\n'}$noisy"
        elif [ -n "$plain" ]; then
            ties=$((ties + 1))
            printf '%s: differs only without noise\n%s\n' "$name" "$plain"
        fi
    done < <(for folder in plain noisy; do diff -rq "$1/$folder" "$2/$folder"; done |
        sed -E 's,^Files .*/([^/]*) and .* differ$,\1,; s,^Only in .*: ,,; s,(\.histogram)?\.(csv|txt)$,,' | sort -u)
    echo "$(($(count "$1") - differ - ties)) of $(count "$1") scenarios equal, $differ differ," \
        "$ties differ only without noise; $(grep -c . <<<"$skipped" || true) runs skipped"
    [ "$differ" = 0 ] && { [ "$ties" = 0 ] || [ "${TIES:-}" = accept ]; }
}

case ${1:-} in
    -h | --help) sed -n '2,22s/^# \{0,1\}//p' "$0" ;;
    --one) run_one "$2" "$3" ;;
    --compare)
        [ $# = 3 ] || complain "--compare takes two folders; see $0 --help"
        compare "$(realpath "$2")" "$(realpath "$3")"
        ;;
    "" | -*) complain "unknown argument '${1:-}'; see $0 --help" ;;
    *)
        [ $# -le 2 ] || complain "takes one or two folders; see $0 --help"
        [ $# = 1 ] || [ -e "$2/about.txt" ] || complain "'$2' holds no frozen results"
        freeze "$@"
        [ $# = 1 ] || compare "$(realpath "$2")" "$(realpath "$1")"
        ;;
esac
