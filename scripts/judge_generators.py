#!/usr/bin/env python3
"""Predicts measured rows of reinforcement learning with generators beside a trainer ($DL_DATA/rl) and
prints their errors. docs/rl.md says what is fitted to what.

Usage: judge_generators.py [DLSIM]     (default: dlsim; a minute and a half on two cores)
"""
import csv
import math
import os
import subprocess
import sys
import tempfile

DLSIM = sys.argv[1] if len(sys.argv) > 1 else "dlsim"
FOLDER = os.path.join(os.environ.get("DL_DATA", "data"), "rl")


def table(name):
    with open(os.path.join(FOLDER, name)) as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def simulate(keys, updates, swept=()):
    """The update's seconds, by the values of the keys that are swept: lists are tuples."""
    with tempfile.TemporaryDirectory() as folder:
        scenario, rows = os.path.join(folder, "s.ini"), os.path.join(folder, "rows.csv")
        with open(scenario, "w") as file:
            file.write(f"[scenario]\nsteps = {updates}\nwarmup = {updates // 3}\n[generators]\n")
            for key, value in keys.items():
                text = ", ".join(f"{v:.9g}" for v in value) if isinstance(value, tuple) else value
                file.write(f"{key} = {text}\n")
        subprocess.run([DLSIM, scenario, "-q", "-o", rows], check=True)
        with open(rows) as file:
            found = csv.DictReader(line for line in file if not line.startswith("#"))
            return {tuple(float(row[key]) for key in swept): float(row["update_s"]) for row in found}


def best(points, measured, kept):
    """The parameters, of points {parameters: [seconds]}, nearest to the rows kept, by logarithms."""
    return min(points, key=lambda p: sum(math.log(points[p][k] / measured[k]) ** 2 for k in kept))


def say(name, errors, order=None):
    sizes = [abs(e) for e in errors]
    print(f"{name}: {len(errors)} rows, each left out: mean {100 * sum(sizes) / len(sizes):.1f} %, "
          f"largest {100 * max(sizes):.1f} %: " + ", ".join(f"{100 * e:+.1f}" for e in errors)
          + ("" if order is None else f"; order {'right' if order else 'wrong'}"))


def marin():
    """A ladder of bounds. Given: GPUs, groups an update, seconds of a copy and of its pause; answers of
    a group and their mean length by the issue's tokens. Fitted: a, b, the update, group_share."""
    rows = table("marin.csv")
    bounds = [float(row["staleness_bound"]) for row in rows]
    measured = [float(row["seconds_100_updates"]) / 100 for row in rows]
    fitted = ("group_share", "train_fixed_s", "token_s", "request_token_s")
    keys = {
        "gpus": 40, "generator_gpus": 8, "prompts": 32, "answers": 8,
        "length_mean": 515, "length_cap": 1024, "copy_s": 20.96, "pause_s": 5.15,
        "train_token_gpu_s": 1e-9, "bound": tuple(bounds),
        "group_share": (0.3, 0.6, 0.9), "train_fixed_s": (6, 10, 14, 18, 22),
        "token_s": (0.005, 0.01, 0.015, 0.02, 0.03, 0.04),
        "request_token_s": (0.0005, 0.001, 0.002, 0.003),
    }
    points = {}
    for at, seconds in simulate(keys, 40, fitted + ("staleness_bound",)).items():
        points.setdefault(at[:-1], {})[bounds.index(at[-1])] = seconds
    errors, order = [], True
    for out in range(len(rows)):
        p = points[best(points, measured, [k for k in range(len(rows)) if k != out])]
        errors.append(p[out] / measured[out] - 1)
        order = order and all(p[k] >= p[k + 1] for k in range(len(rows) - 1))
    say("marin, bounds 0 to 4", errors, order)


ANSWERS, MEAN, PROMPT = 16, 3000, 100  # verl; the mean only scales what is fitted


def trainer_of_parts(rows):
    """Seconds an update and GPU seconds a token by the parts of colocated rows: parts are means over
    runs that get longer, and count as the hours to 100 steps do."""
    x = [1 / float(row["gpus"]) for row in rows]
    y = [float(row["update_actor_s"]) * float(row["hours_100"]) * 36 / float(row["step_s"])
         for row in rows]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x)
    return slope / (512 * ANSWERS * (MEAN + PROMPT)), (mean_y - slope * mean_x) / 4


def verl():
    """Hours to 100 steps. Given: the page's settings, the trainer by the parts of the colocated rows
    that are not left out, log-probabilities as their parts (0.4 of an update). Fitted: a, b, and what a
    colocated step has besides (changes of sides, prompts dealt out before)."""
    rows = table("verl.csv")
    measured = [float(row["hours_100"]) for row in rows]
    fitted = ("token_s", "request_token_s", "switch_s")
    errors, widest = [], 0
    for out in range(len(rows)):
        kept = [k for k in range(len(rows)) if k != out]
        token, fixed = trainer_of_parts([rows[k] for k in kept if rows[k]["mode"] == "colocated"])
        points = {}
        for k, row in enumerate(rows):
            keys = {
                "gpus": row["gpus"], "prompts": 128, "answers": ANSWERS, "copy_every": 4,
                "rule": "window", "in_flight_of_replica": 16, "length_mean": MEAN,
                "prompt_tokens": PROMPT, "length_cap": 28672, "length_cv": 1, "log_probs": "on_policy",
                "log_prob_frac": 0.4, "copy_s": 0.5, "train_fixed_s": f"{fixed:.6g}",
                "train_token_gpu_s": f"{token:.6g}", "token_s": (0.002, 0.003, 0.004, 0.005, 0.006),
                "request_token_s": (0.00005, 0.0001, 0.0002), "switch_s": (0, 30, 60, 90),
            }
            if row["mode"] == "colocated":
                keys["place"] = "colocated"
            else:
                keys.update(generator_gpus=row["generator_gpus"], bound=row["staleness_threshold"],
                            partial=row["partial_rollout"])
            for at, seconds in simulate(keys, 12, fitted).items():
                points.setdefault(at, {})[k] = seconds * 400 / 3600
        p = points[best(points, measured, kept)]
        errors.append(p[out] / measured[out] - 1)
    say("verl, hours to 100 steps", errors)


# Of H100: weights' bytes, their GPUs, cache bytes of a token (layers x 2 x 8 heads x 128 x 2).
NEMO = {"LLAMA3.1_8B": (16.06e9, 1, 32 * 4096), "Qwen3-32B": (65.5e9, 4, 64 * 4096)}
MEMORY_PER_S, FLOP_PER_S = 0.6 * 3.35e12, 0.5 * 989e12  # as sim/generate/generate.c


def nemo():
    """One step off, from the on-policy row alone: generation by a roofline, the rest of the measured
    step is training, half of which does not depend on the GPUs."""
    rows = [row for row in table("nemo_rl.csv") if row["hardware"] == "H100" and row["model"] in NEMO]
    errors = []
    for row in (row for row in rows if row["off_policy_steps"] == "1"):
        weights, tensor, cache = NEMO[row["model"]]
        on = next(r for r in rows if r["model"] == row["model"] and r["off_policy_steps"] == "0")

        def keys(of):
            mean = float(of["mean_tokens"])
            context = 115 + mean * 1.64 / 2
            return {
                "gpus": of["gpus"], "replica_gpus": tensor, "prompts": 64, "answers": 32,
                "length_mean": mean, "length_cap": of["max_tokens"], "prompt_tokens": 115,
                "token_s": f"{weights / tensor / MEMORY_PER_S:.6g}",
                "request_token_s":
                    f"{cache * context / tensor / MEMORY_PER_S + weights / tensor / FLOP_PER_S:.6g}",
            }

        step, gpus = float(on["step_s"]), float(on["gpus"])
        generation = simulate({**keys(on), "place": "colocated", "train_token_gpu_s": 1e-12}, 20)[()]
        rest = step - generation
        tokens = 2048 * (float(on["mean_tokens"]) + 115)
        predicted = simulate({
            **keys(row), "generator_gpus": row["generation_gpus"], "copy_s": 1,
            "train_fixed_s": f"{rest / 2:.6g}",
            "train_token_gpu_s": f"{rest / 2 * gpus / tokens:.6g}"}, 20)[()]
        measured = float(row["step_s"])
        errors.append(predicted / measured - 1)
        gain, seen = step / predicted, step / measured
        verdict = "cannot tell" if 0.9 < gain < 1.1 else "sign " + (
            "right" if (gain > 1) == (seen > 1) else "wrong")
        print(f"NeMo-RL {row['model']}: step {predicted:.1f} s, measured {measured:.1f} s; over on policy "
              f"{gain:.2f}, measured {seen:.2f}: {verdict}")
    sizes = [abs(e) for e in errors]
    inside = sum(1 / 1.45 <= 1 / (1 + e) <= 1.45 for e in errors)
    print(f"NeMo-RL, from the on-policy row alone: {len(errors)} rows, mean "
          f"{100 * sum(sizes) / len(sizes):.1f} %, largest {100 * max(sizes):.1f} %; {inside} within "
          f"+-45 %")


if not os.path.isdir(FOLDER):
    print(f"skipped: {FOLDER} is not there ($DL_DATA names the folder of measured data)")
    sys.exit(0)
marin()
verl()
nemo()
