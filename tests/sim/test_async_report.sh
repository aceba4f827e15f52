#!/usr/bin/env bash
# scenarios/local_sgd/async.sh on a generated table: four equal learners whose syncer takes only fresh updates. A
# learner adopts a version only at its second upload after the one merged into it, so every second of its 20 uploads
# is applied.
# Usage: test_async_report.sh DLSIM SOURCE
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/table.csv" <<'TABLE'
run_id,mode,num_learners,produced_updates,applied_updates,drop_reasons_json,dropped_superseded,dropped_stale,local_steps_total,local_steps_min,local_steps_max,complete_training_time_seconds,sync_scan_interval_seconds,merge_count,global_interval_seconds_mean,syncer_duty_cycle_percent,applied_staleness_mean,update_tensor_dtype,max_staleness_versions,inner_steps,completion_mode,global_adoption_strategy,grace_window_mode,grace_window_seconds,stop_reason
equal,full,4,80,40,"{""superseded"":36,""x"":4}",36,0,8000,2000,2000,450,2.0,10,44.5,2.0,0.0,float32,0,100,local_or_global,replace,fixed,10.0,input_exhausted
pieces,fragment,4,80,40,"{}",36,0,8000,2000,2000,450,2.0,10,44.5,2.0,0.0,float32,0,100,local_or_global,replace,fixed,10.0,input_exhausted
free,full,4,36,36,"{}",0,0,3600,800,1000,220,2.0,10,20,2.0,0.1,float32,2,100,global_only,rebase_post_publish_delta,fixed,10.0,stop_after_outer_steps
waiting,full,4,39,39,"{}",0,0,3950,960,1000,260,2.0,10,24,2.0,0.1,float32,2,100,local_or_global,predict_post_publish_global,fixed,10.0,stop_after_outer_steps
TABLE
found=$(DLSIM=$1 BUILD=$folder/out "$2/scenarios/local_sgd/async.sh" "$folder/table.csv")
for expected in \
    "equal +applied +40 of +80, +40.0 of +80.0 \(50.0, 50.0 %: .0.0 points\); staleness 0.000, 0.000" \
    "pieces: mode fragment is not simulated" "\(3 runs\)$"; do
    grep -qE -- "$expected" <<<"$found" || { echo "FAIL: no '$expected' in:"; echo "$found"; exit 1; }
done
# Learners that predict wait for one another: the fastest interval is that of "free", 200 s x 100 / 1000 steps, and not 240 s x
# 100 / 1000; the slowest does not wait, 240 s x 100 / 960. The run ends with its merges, not when each has done its steps.
for line in "samples_per_s = 80" "slow = 0:1.25000, 1:1.16667, 2:1.08333, 3:1.00000" "merge_s = 0.52" "adopt = predict" \
    "end = first"; do
    grep -q "$line" "$folder/out/waiting.ini" || { echo "FAIL: no '$line' in:"; cat "$folder/out/waiting.ini"; exit 1; }
done
DL_DATA=$folder DLSIM=$1 "$2/scenarios/local_sgd/async.sh" | grep -q "skipped, there is no" || { echo "FAIL: no data"; exit 1; }

# Half of the work is lost, so the batch over a measured throughput is not a worker's step: the page shows none.
printf 'workers,throughput_per_s,source\n4,100,by hand\n' >"$folder/measured.csv"
"$1" "$folder/out/equal.ini" --quiet --set "measured.file=$folder/measured.csv" --html "$folder/page.html" \
    -o "$folder/page.csv" || { echo "FAIL: no page"; exit 1; }
grep -q '>measured/s</th>' "$folder/page.html" && ! grep -q '>measured step</th>' "$folder/page.html" ||
    { echo "FAIL: a measured step in: $(grep '<th scope="row"' "$folder/page.html")"; exit 1; }
