# Functions of the report's scripts, sourced from the project's root.
# shellcheck shell=bash
parts=scripts/report

# groups: the groups of studies that are there, a line each, in the report's order.
groups() {
    awk -F, '!/^#/ && $1 != "group" { print $1 }' "$parts/groups.csv" | while read -r group; do
        if compgen -G "scenarios/$group/*.ini" >/dev/null; then echo "$group"; fi
    done
}

group_title() { # group
    awk -F, -v group="$1" '$1 == group { sub(/^[^,]*,/, ""); print }' "$parts/groups.csv"
}

studies() { # group: names of its scenarios
    local file
    for file in "scenarios/$1"/*.ini; do basename "$file" .ini; done
}

# setting SCENARIO SECTION KEY: the value in an INI file, nothing if it has none.
setting() {
    awk -v section="[$2]" -v key="$3" '
        /^\[/ { inside = $1 == section }
        inside && $1 == key && $2 == "=" {
            sub(/^[^=]*= */, ""); sub(/ +;.*$/, ""); sub(/ +$/, ""); print; exit
        }' "$1"
}

# measured_file SCENARIO: its measured table from the root, nothing if it has none.
measured_file() {
    local file
    file=$(setting "$1" measured file)
    [ -z "$file" ] || echo "$(dirname "$1")/$file"
}

# fit_of GROUP NAME: the costs that are fitted for a scenario, as `dlcal table --fit` takes them; nothing
# if there are none.
fit_of() {
    [ ! -f "scenarios/$1/fits.csv" ] || awk -v name="$2" -f "$parts/csv.awk" -f <(cat <<'AWK'
        !/^#/ && csv_cells($0, cell) >= 2 && cell[1] == name { print cell[2] }
AWK
    ) "scenarios/$1/fits.csv"
}

# measured_rows GROUP NAME RESULTS [1]: rows.csv of a result file; 1: the file itself with each row's use.
measured_rows() {
    local lists=()
    [ ! -f "scenarios/$1/fitted.csv" ] || lists+=(list=fitted "scenarios/$1/fitted.csv")
    [ ! -f "scenarios/$1/contradictions.csv" ] || lists+=(list=contradiction "scenarios/$1/contradictions.csv")
    awk -v scenario="$2" -v group="$1" -v mark="${4:-}" -f "$parts/csv.awk" -f "$parts/rows.awk" "${lists[@]}" list= "$3"
}

# program NAME: where it lies; stops if it is not there.
program() {
    local variable=${1^^}
    local path=${!variable:-build/release/bin/$1}
    [ -x "$path" ] || { echo "${0##*/}: no $path; build it, or name it in $variable" >&2; exit 2; }
    echo "$path"
}

escape() { sed 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g; s/"/\&quot;/g'; } # text to HTML
calc() { awk "BEGIN { printf \"$1\", $2 }"; }                          # format, arithmetic

# inputs SCENARIO: the files that a scenario's outcome depends on: itself and those that it names.
inputs() {
    echo "$1"
    grep -v '^ *;' "$1" | sed 's/ ;.*//' | grep -oE '[^ ,=]+\.(ini|csv)' | sed "s#^#$(dirname "$1")/#" |
        while read -r file; do [ ! -f "$file" ] || echo "$file"; done
}

# draw FIGURE OUTPUT TITLE VARIABLES...: a figure as OUTPUT.svg and .png, and narrow for the page as
# OUTPUT.page.svg. Says which it could not draw, and goes on.
draw() {
    local figure=$1 output=$2 title=$3 variables="" variable extension
    shift 3
    for variable; do variables+="${variable%%=*}='${variable#*=}'; "; done
    for extension in svg png; do
        gnuplot -e "$variables output='$output.$extension'; title='${title//\'/}'" "plots/$figure.gp" || return 0
    done
    gnuplot -e "$variables output='$output.page.svg'; compact=1" "plots/$figure.gp" || return 0
}

# picture FILE TEXT CAPTION: a figure as HTML, FILE.page.svg within it; nothing if it is not there. Those
# that are not narrow may be scrolled.
picture() {
    local file=$1.page.svg class=
    [ -s "$file" ] || return 0
    [ "$(sed -n 's/.*viewBox="0 0 \([0-9]*\).*/\1/p' "$file" | head -n 1)" -le 500 ] ||
        class=' class="wide" tabindex="0" role="region" aria-label="figure"'
    printf '<figure%s><img alt="%s" src="data:image/svg+xml;base64,%s"><figcaption>%s</figcaption></figure>\n' \
        "$class" "$(escape <<<"$2")" "$(base64 -w0 "$file")" "$(escape <<<"$3")"
}
