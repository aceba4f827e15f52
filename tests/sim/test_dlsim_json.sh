#!/usr/bin/env bash
# dlsim --json equals the CSV file. Usage: test_dlsim_json.sh DLSIM
set -u
tested=$(realpath "$1")
source=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

# Without --output there is no CSV file; standard output has only the document.
expect 0 "points in only.json" "$source/golden/modes.ini" --json only.json
[ ! -e results.csv ] || fail "results.csv was written beside JSON alone"
"$tested" "$source/golden/modes.ini" --json - >stdout.json || fail "--json -: exit $?"
cmp only.json stdout.json || fail "standard output differs from the file"
expect 0 "" -q "$source/golden/modes.ini" --json modes.json -o modes.csv
cmp only.json modes.json || fail "with --output the JSON differs"
expect 0 "" -q "$source/golden/gpu_reduce.ini" --explain --json gpu.json -o gpu.csv
expect 0 "" -q "$source/golden/noise.ini" --json noise.json -o noise.csv
expect 0 "" -q --samples-per-s 300 --parameters 25e6 --batch-per-worker 32 --machine dgx1_v100 \
    --workers 2 --mode average --json number.json -o number.csv
expect 2 "--json is the same file as --output" "$source/golden/modes.ini" --json a -o a

python3 - modes gpu noise number <<'END_OF_PYTHON' || failures=$((failures + 1))
import csv, json, sys

def refuse(text):
    raise ValueError(text)

bad = 0
for name in sys.argv[1:]:
    document = json.load(open(name + ".json"), parse_constant=refuse)
    lines = open(name + ".csv").read().splitlines()
    comments = [line[2:] for line in lines if line.startswith("# ")]
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    kinds = lambda kind: [c[len(kind) + 2:] for c in comments if c.startswith(kind + ": ")]
    checks = {
        "format": document["format"] == "dlsim results" and document["schema"] == 1,
        "columns": document["columns"] == list(rows[0]),
        "rows": len(document["rows"]) == len(rows) > 0,
        "notes": document["notes"] == kinds("note"),
        "swept": [f"[{s['section']}] {s['key']}" for s in document["swept"]] == kinds("swept"),
        "defaults": [f"[{d['section']}] {d['key']}={d['value']} rows={d['rows']}"
                     for d in document["defaults"]]
                    == [" ".join(d.split(" ")[:3]) for d in kinds("default")],
        "assumed": [f"[{a['section']}] {a['key']}={a['value']:.6g}" for a in document["assumed"]]
                   == [" ".join(a.split(" ")[:2]) for a in kinds("assumed")],
        "gains": [" ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}"
                           for k, v in g.items()) for g in document.get("gains", [])]
                 == kinds("gain"),
        "scenario": document["scenario"] == kinds("scenario")[0],
        "version": document["version"] == kinds("version")[0],
        "settings": [f"{k}={v:g}" if isinstance(v, (int, float)) else f"{k}={v}"
                     for k, v in document["settings"].items()] == kinds("settings")[0].split(" "),
    }
    for what, good in checks.items():
        if not good:
            bad += 1
            print(f"FAIL: {name}: {what} differ from the CSV file's")
    for number, (have, want) in enumerate(zip(document["rows"], rows)):
        for column, text in want.items():
            value = have[column]
            if value is None:
                same = text in ("", "inf", "-inf")
            elif isinstance(value, list):
                same = value == [float(part) for part in text.split(";")]
            elif isinstance(value, str):
                same = value == text
            else:
                same = value == float(text)
            if not same:
                bad += 1
                print(f"FAIL: {name} row {number} {column}: {value!r}, not {text!r}")
sys.exit(bad > 0)
END_OF_PYTHON

[ "$failures" -eq 0 ]
