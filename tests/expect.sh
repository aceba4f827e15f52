# For tests of programs: sourced with `tested` naming the program. Changes to a new empty folder,
# which is removed at the end.
folder=$(mktemp -d "${TMPDIR:-/tmp}/test_program.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failures=0

# expect STATUS TEXT ARGUMENTS...: fails unless the program exits with STATUS and its output
# contains TEXT, in one line or across lines joined by a hanging indent.
expect() {
    local status=$1 text=$2 output actual
    shift 2
    output=$("$tested" "$@" 2>&1)
    actual=$?
    if [ "$actual" -ne "$status" ]; then
        echo "FAIL: ${tested##*/} $*: exit $actual, not $status: $output"
        failures=$((failures + 1))
    elif [[ $output != *"$text"* && ${output//$'\n      '/ } != *"$text"* ]]; then
        echo "FAIL: ${tested##*/} $*: no '$text' in: $output"
        failures=$((failures + 1))
    fi
}
