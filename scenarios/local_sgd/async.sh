#!/usr/bin/env bash
# Compares measured runs of asynchronous DiLoCo (learners and a syncer over a shared file system,
# UnbearableFate/fsb_decoupled_diloco) with what dlsim predicts from their configuration, the learners' speeds and the
# time of a merge: what became of the uploads, their staleness, the time between merges. The table lies in
# $DL_DATA/scaling/local_sgd (default ./data); without it this script says so and does nothing. Another table with the
# same columns is compared the same way. Quorum is half of the learners, steps vary by 5 % (assumed).
#
# Usage: scenarios/local_sgd/async.sh [TABLE]     needs bin/dlsim in build/release (or $DLSIM)
# $BUILD: folder for scenarios and results (default build/local_sgd_async)
set -euo pipefail
cd "$(dirname "$0")/../.."
case "${1:-}" in
    -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
dlsim=${DLSIM:-build/release/bin/dlsim}
table=${1:-${DL_DATA:-data}/scaling/local_sgd/async_diloco_8learners.csv}
out=${BUILD:-build/local_sgd_async}
[ -f "$table" ] || { echo "async.sh: skipped, there is no $table"; exit 0; }
[ -x "$dlsim" ] || { echo "async.sh: no $dlsim; build it, or name it in DLSIM" >&2; exit 2; }
mkdir -p "$out"
awk -v out="$out" -v machine="$PWD/scenarios/machines/gh200_9x.ini" -f scenarios/local_sgd/async.awk "$table" "$table" \
    >"$out/rows"
while read -r run rest; do
    [ "${rest#- }" = "$rest" ] || { echo "$run - - - - - - - $rest"; continue; }
    "$dlsim" --quiet "$out/$run.ini" -o "$out/$run.csv"
    awk -F, -v run="$run" -v measured="$rest" '
        /^#/ { next }
        !n { for (n = 1; n <= NF; n++) at[$n] = n; next }
        { print run, measured, $at["uploads"], $at["uploads_applied"], $at["uploads_superseded"], $at["uploads_too_stale"],
            $at["staleness_mean"], $at["merges"], $at["outer_step_mean_s"] }' "$out/$run.csv"
done <"$out/rows" >"$out/compared"
echo "asynchronous DiLoCo: measured, simulated"
awk '
    $2 == "-" { print $1 ": " substr($0, index($0, "- - - - - - - - ") + 16); next }
    { m = 100 * $3 / $2; s = 100 * $10 / $9; d = s - m; e = $13 - $6
      printf "%-24s applied %3d of %3d, %5.1f of %5.1f (%.1f, %.1f %%: %+.1f points); staleness %.3f, %.3f (%+.3f); " \
          "superseded %d, %.1f; too stale %d, %.1f; merges %d, %.1f; every %.1f, %.1f s\n", $1, $3, $2, $10, $9, m, s, d,
          $6, $13, e, $4, $11, $5, $12, $7, $14, $8, $15
      d = d < 0 ? -d : d; e = e < 0 ? -e : e; n++; ds += d; es += e; if (d > dm) dm = d; if (e > em) em = e }
    END { if (n) printf "share applied: off by %.1f points on average, %.1f at most; mean staleness by %.3f, %.3f (%d runs)\n",
        ds / n, dm, es / n, em, n }' "$out/compared"
