#!/usr/bin/env bash
# The documentation against the repository: targets of links, and files and names in the source
# guides and in comments, exist; lines of text have at most 100 columns; README's errors are those of
# docs/accuracy.md.
# Usage: test_docs.sh ROOT
set -u
cd "$1" || exit 1
failures=0
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

text() { awk '/^```/ { code = !code; next } !code' "$1"; }
headings() { # as in the targets of links
    text "$1" | sed -n 's/^##* //p' | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

links=0
for page in *.md docs/*.md docs/studies/*.md; do
    for link in $(text "$page" | grep -o '](\([^)]*\))' | sed 's/^](//; s/)$//' | grep -v '^https\?:'); do
        links=$((links + 1))
        file=${link%%#*} heading=
        [ "$link" = "$file" ] || heading=${link#*#}
        target=$(dirname "$page")/$file
        [ -n "$file" ] || target=$page
        [ -e "$target" ] || { fail "$page links to $link, which is not there"; continue; }
        [ -z "$heading" ] || headings "$target" | grep -qx -- "$heading" ||
            fail "$page links to $link: no such heading"
    done
done
[ $links -ge 30 ] || fail "only $links links found"

names=0
for page in docs/source.md docs/method.md CONTRIBUTING.md; do
    for path in $(text "$page" | grep -o '`[a-z_]*/[A-Za-z_./]*`' | tr -d '`' | grep -v NAME); do
        names=$((names + 1))
        [ -e "$path" ] || fail "$page names $path, which is not there"
    done
    for name in $(text "$page" | grep -oE '`(dl|DL)_[A-Za-z0-9_]*' | tr -d '`' | grep -v NAME | sort -u); do
        names=$((names + 1))
        grep -rqw --include='*.[ch]' -- "$name" common trace kernels profiler sim calibrate ||
            fail "$page names $name, which no source has"
    done
done
[ $names -ge 30 ] || fail "only $names names found"

# Functions and types that comments mention.
sources() { find common trace kernels profiler sim calibrate tests -name '*.[ch]' -o -name '*.cu'; }
in_code=$(sources | xargs perl -0777 -pe 's{/\*.*?\*/}{}gs' | grep -oE '\bdl_[a-z0-9_]+' | sort -u)
in_comments=$(sources | xargs perl -0777 -ne 'while (m{/\*.*?\*/}gs) { print "$&\n" }' |
    grep -oE '\bdl_[a-z0-9_]*[a-z0-9]\b' | sort -u)
[ "$(wc -l <<<"$in_comments")" -ge 30 ] || fail "comments name nothing"
stale=$(comm -13 <(echo "$in_code") <(echo "$in_comments"))
[ -z "$stale" ] || fail "comments name what is not there: $stale"

# Each key of a scenario or machine file is used by a scenario, a script or a page that has its
# section's name, too, or its option. Programs write the rates of GPUs (dlsim --save-machine, dlprof
# shapes).
# shellcheck disable=SC2016 # the dollars are Perl's
unused=$(find scenarios scripts docs README.md quickstart reproduce -type f ! -path docs/keys.md \
    ! -name '*.png' -print0 | xargs -0 perl -e '
        undef $/;
        my @files = map {
            open(my $in, "<", $_) or die "$_: $!\n";
            my %has = map { $_ => 1 } <$in> =~ /\[\w+|--[\w-]+|\w+\.\w+|\w+/g;
            \%has
        } @ARGV;
        open(my $in, "<", "docs/keys.md") or die "docs/keys.md: $!\n";
        my $keys = 0;
        for (split /^### /m, <$in> =~ s/^## Cost file.*//msr) {
            my ($section) = /^\[(\w+)/ or next;
            next if $section =~ /^(gpu_model|kernels)$/;
            for my $key (grep { $_ ne "source" } /^\| `(\w+)/gm) {
                my $option = "--" . $key =~ tr/_/-/r;
                $keys++;
                print " [$section] $key" unless grep {
                    $_->{"[$section"} && $_->{$key} || $_->{"$section.$key"} || $_->{$option}
                } @files;
            }
        }
        print " only $keys keys found" if $keys < 200;')
[ -z "$unused" ] || fail "keys that nothing uses:$unused"

# Except tables and headings, and verdicts, which scripts write.
for page in README.md CONTRIBUTING.md docs/*.md docs/studies/*.md; do
    lines=$(text "$page" | grep -v '^[|#]\|^Verdict: ' | LC_ALL=C.UTF-8 grep -E '.{101}' | cut -c 1-40)
    [ -z "$lines" ] || fail "$page has lines of more than 100 columns: $lines"
done

# README's errors are those of docs/accuracy.md: each mean and maximum is in one of its tables.
section=$(sed -n '/^## Accuracy of the predictions/,/^## Documentation/p' README.md)
errors=$(awk -F'|' '/^\|/ { print $5, $6 }' <<<"$section" | grep -oE '[0-9]+(\.[0-9]+)?' | sort -u)
[ "$(wc -w <<<"$errors")" -ge 15 ] || fail "README has only these errors: $errors"
for number in $errors; do
    grep '^|' docs/accuracy.md | grep -qE "(^|[^0-9.])${number/./\\.}($|[^0-9.])" ||
        fail "README has an error of $number %, which docs/accuracy.md has not"
done

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
