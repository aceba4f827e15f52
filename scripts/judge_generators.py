#!/usr/bin/env python3
"""Predicts measured rows of reinforcement learning with separate generators and a trainer ($DL_DATA/rl)
and prints their errors. docs/studies/generators.md describes the fits.

Usage: judge_generators.py [DLSIM [STUDY...]]     (default: dlsim, marin verl nemo parts; two minutes on two
cores)
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


def run(keys, updates=20, head="", *options):
    """The rows of dlsim's results file; a tuple among the values of `keys` is a list of values."""
    with tempfile.TemporaryDirectory() as folder:
        scenario, rows = os.path.join(folder, "s.ini"), os.path.join(folder, "rows.csv")
        with open(scenario, "w") as file:
            file.write(f"[scenario]\nsteps = {updates}\nwarmup = {updates // 3}\n{head}[generators]\n")
            for key, value in keys.items():
                text = ", ".join(f"{v:.9g}" for v in value) if isinstance(value, tuple) else value
                file.write(f"{key} = {text}\n")
        subprocess.run([DLSIM, scenario, "-q", "-o", rows, *options], check=True)
        with open(rows) as file:
            return list(csv.DictReader(line for line in file if not line.startswith("#")))


def simulate(keys, updates, swept=()):
    """Seconds per update, by the values of the swept keys."""
    return {tuple(float(row[key]) for key in swept): float(row["update_s"]) for row in run(keys, updates)}


def best(points, measured, kept):
    """The parameters of `points` {parameters: seconds by row} with the least squared log error on the
    rows `kept`."""
    return min(points, key=lambda p: sum(math.log(points[p][k] / measured[k]) ** 2 for k in kept))


def say(name, errors, order=None):
    sizes = [abs(e) for e in errors]
    print(f"{name}: {len(errors)} rows, each left out: mean {100 * sum(sizes) / len(sizes):.1f} %, "
          f"largest {100 * max(sizes):.1f} %: " + ", ".join(f"{100 * e:+.1f}" for e in errors)
          + ("" if order is None else f"; order {'right' if order else 'wrong'}"))


def marin():
    """A series of staleness bounds. Given: GPUs, groups per update, seconds of a copy and of its pause;
    answers per group and their mean length, from the issue's tokens. Fitted: a, b, the update's time and
    group_share."""
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


ANSWERS, MEAN, PROMPT = 16, 3000, 100  # verl; the mean only scales the fitted times per token


def trainer_of_parts(rows):
    """GPU seconds per token and fixed seconds per update, from the update times of colocated rows. These
    times are means over runs that get longer, so they are scaled by the hours to 100 steps."""
    x = [1 / float(row["gpus"]) for row in rows]
    y = [float(row["update_actor_s"]) * float(row["hours_100"]) * 36 / float(row["step_s"])
         for row in rows]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x)
    return slope / (512 * ANSWERS * (MEAN + PROMPT)), (mean_y - slope * mean_x) / 4


def verl():
    """Hours to 100 steps. Given: the page's settings, the trainer's times from the colocated rows that
    are not left out, log-probabilities as measured (0.4 of an update). Fitted: a, b, and the remaining
    time of a colocated step (switches between generation and training, prompts assigned in advance)."""
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


# dlsim's network, and GPUs per replica.
NEMO = {"LLAMA3.1_8B": ("llama3_8b", 1),
        "Qwen3-32B": ("qwen3_14b:layers=64,width=5120,heads=64,head_width=128,feed_forward=25600", 4)}


def verdict(least, most, measured):
    """Verdict on predicted gains over on-policy training, from `least` to `most`."""
    if least < 1.1 and most > 0.9:
        return "cannot tell"
    return "sign right" if (least > 1) == (measured > 1) else "sign WRONG"


def nemo():
    """Pairs of an on-policy row and a row one step off policy. Generation follows dlsim's roofline; half of
    the remaining time does not scale. The on-policy row gives [generators] on_policy_s. For the off-policy
    row, --solve finds the trainer's time per token at which the step takes the measured time."""
    rows = [row for row in table("nemo_rl.csv") if row["hardware"] == "H100" and row["model"] in NEMO]
    forth, back, inside = [], [], 0
    for row in (row for row in rows if row["off_policy_steps"] == "1"):
        network, tensor = NEMO[row["model"]]
        on = next(r for r in rows if r["model"] == row["model"] and r["off_policy_steps"] == "0")
        head = (f"[machine]\nfile = dgx_h100\nnodes = {int(row['gpus']) // 8}\n"
                f"[workload]\nmodel = {network}\n")
        keys = {"gpus": row["gpus"], "replica_gpus": tensor, "prompts": 64, "answers": 32,
                "generator_gpus": row["generation_gpus"], "length_mean": row["mean_tokens"],
                "length_cap": row["max_tokens"], "prompt_tokens": 115, "copy_s": 1}
        step, measured = float(on["step_s"]), float(row["step_s"])
        (found,) = run({**keys, "on_policy_s": step, "on_policy_gpus": on["gpus"],
                        "on_policy_length": on["mean_tokens"]}, 20, head)
        predicted = float(found["update_s"])
        samples = predicted * float(found["throughput_per_s"])
        low, high = (samples / float(found[f"throughput_{end}_per_s"]) for end in ("high", "low"))
        forth.append(predicted / measured - 1)
        inside += low <= measured <= high
        print(f"NeMo-RL {row['model']}: from on policy, a step off {predicted:.1f} s ({low:.0f} to {high:.0f}), "
              f"measured {measured:.1f}; gain {step / predicted:.2f}, measured {step / measured:.2f}: "
              f"{verdict(step / predicted, step / predicted, step / measured)}")
        fixed = {**keys, "train_fixed_s": f"{measured / 2:.6g}"}
        (solved,) = run({**fixed, "train_token_gpu_s": 1e-4}, 20, head, "--solve",
                        "generators.train_token_gpu_s", "--target", f"update_s={measured}")
        turns = {**fixed, "train_token_gpu_s": solved["solved_train_token_gpu_s"], "gpus": on["gpus"],
                 "length_mean": on["mean_tokens"], "place": "colocated"}
        del turns["generator_gpus"]
        (found,) = run(turns, 20, head)
        back.append(float(found["update_s"]) / step - 1)
        print(f"NeMo-RL {row['model']}: from a step off, on policy {float(found['update_s']):.1f} s, measured "
              f"{step:.1f}")
    say("NeMo-RL, a step off from the on-policy row", forth)
    print(f"  {inside} of {len(forth)} within the 95 % interval of the results")
    say("NeMo-RL, on policy from the row a step off", back)


def gains(keys, unknown):
    """Least and largest gain over on-policy training, over values of the settings that the source omits."""
    found = [float(row["speedup"]) for row in run({**keys, **unknown}, 20)]
    return min(found), max(found)


def parts():
    """Whether asynchronous training is faster: two pairs with times of parts, two with step times only.
    Settings that a source omits are varied."""
    rows = {(row["source"], row["mode"]): row for row in table("parts.csv")}

    def part(source, mode, name="step_or_total_s"):
        return float(rows[source, mode][name])

    found = []
    # 512 prompts x 12 on 16 H20, two per replica. Both rows have times of parts: generation
    # (generate_sequences) 247 s on 16 GPUs and 458 s on 4; log-probabilities and updates on 16 and 12.
    sync, beside = "colocated FSDP2", "async FSDP2"
    train = [part("one_step_off", mode, "old_log_prob_s") + part("one_step_off", mode, "update_or_train_s")
             for mode in (sync, beside)]
    slope = (train[1] - train[0]) / (1 / 12 - 1 / 16)
    for length in (1000, 2000, 3000):
        keys = {"gpus": 16, "replica_gpus": 2, "prompts": 512, "answers": 12, "length_mean": length,
                "length_cap": 20480, "length_cv": 1, "requests_max": 1024}
        shares = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
        points = []
        for share in shares:
            decode = {"token_s": 0.001, "request_token_s": f"{0.001 * share / 10:.6g}",
                      "train_token_gpu_s": 1e-12}
            both = [simulate({**keys, **decode, **other}, 8)[()] for other in (
                {"place": "colocated"}, {"gpus": 16, "generator_gpus": 4, "bound": 0})]
            points.append((abs(math.log(both[1] / both[0] / (458 / 247))), 247 / both[0], share))
        _, scale, share = min(points)
        tokens = 512 * 12 * (length + 100)
        (row,) = run({**keys, "generator_gpus": 4, "token_s": f"{0.001 * scale:.6g}",
                      "request_token_s": f"{0.0001 * share * scale:.6g}", "copy_s": 0.3,
                      "train_fixed_s": f"{train[0] - slope / 16:.6g}",
                      "train_token_gpu_s": f"{slope / tokens:.6g}"}, 20)
        found.append(part("one_step_off", sync) / float(row["update_s"]))
    pairs = [("verl one_step_off, parts of both rows", (min(found), max(found)),
              part("one_step_off", sync) / part("one_step_off", beside))]
    copies = part("marin_qwen", "async copy every update age at most 1", "copy_s") / 25
    pause = part("marin_qwen", "async copy every update age at most 1", "of_which_pause_s") / 25
    marin_keys = {"gpus": 16, "prompts": 64, "answers": 4, "length_cap": 1024, "age_max": 1,
                  "length_mean": 165, "on_policy_s": part("marin_qwen", "sync") / 25,
                  "copy_s": f"{copies:.6g}", "pause_s": f"{pause:.6g}"}
    unknown = {"token_s": (0.002, 0.004, 0.008), "request_token_s": (0.00002, 0.0001),
               "train_fixed_frac": (0.25, 0.5, 0.75)}
    pairs.append(("marin 8936, a step on policy, and copies", gains(marin_keys, unknown),
                  part("marin_qwen", "sync") / part("marin_qwen", "async copy every update age at most 1")))
    v1_keys = {"gpus": 32, "prompts": 64, "answers": 8, "length_cap": 32768, "copy_s": 1,
               "length_mean": 12854, "on_policy_length": 12720, "on_policy_s": part("v1", "sync")}
    pairs.append(("verl v1_async_trainer, a step on policy alone", gains(v1_keys, {
        **unknown, "token_s": (0.005, 0.008, 0.012), "generator_gpus": (8, 16, 24)}),
        part("v1", "sync") / part("v1", "colocated async")))
    vime_keys = {"gpus": 4, "prompts": 32, "answers": 8, "length_cap": 8192, "copy_s": 0.5,
                 "on_policy_s": part("vime358 setup 1", "sync")}
    pairs.append(("vime 358, a step on policy alone", gains(vime_keys, {**unknown, "length_mean": (500, 1000, 2000)}),
                  part("vime358 setup 1", "sync") / part("vime358 setup 1", "async 2 + 2")))
    for name, (least, most), measured in pairs:
        print(f"{name}: gain {least:.2f} to {most:.2f}, measured {measured:.2f}: "
              f"{verdict(least, most, measured)}")


if not os.path.isdir(FOLDER):
    print(f"skipped: {FOLDER} is not there ($DL_DATA names the folder of measured data)")
    sys.exit(0)
for study in (marin, verl, nemo, parts):
    if len(sys.argv) < 3 or study.__name__ in sys.argv[2:]:
        study()
