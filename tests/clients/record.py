"""Turns the scripts of usual.py into predictions, each with three commands: dlprof run, dlcal costs,
dlsim. Checks steps, batch and parameters against the scripts; compares no times.

  record.py --bin build/release/bin [SCRIPT...]
"""

import argparse
import glob
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
USUAL = os.path.join(HERE, "usual.py")
MLP, CNN, TRANSFORMER = 4 * 669706, 4 * 1070986, 4 * 661736  # bytes of the parameters
PASS, UPDATED = "the gradients that a pass adds", "those that the optimizer updates"
# script: (launcher, traces, batch, bytes of parameters, maximum of regular steps, a text in dlcal's
# output). The first of the 20 recorded steps may be incomplete; one step of `validate` contains the
# validation.
SCRIPTS = {
    "loader": ([], 1, 16, CNN, 19, "processor time of these processes per step"),
    "accumulate": ([], 1, 32, TRANSFORMER, 19, "the gradients of 4 passes of 8 each"),
    "validate": ([], 1, 128, MLP, 18, UPDATED),
    "by_hand": ([], 1, 64, MLP, 20, PASS),
    "inside": ([], 1, 64, MLP, 20, PASS),
    "launched": (["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"], 2, 32,
                 MLP, 19, "those of the gradients exchanged in a step"),
}


def call(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise RuntimeError("%s: exit code %d\n%s" % (" ".join(command), done.returncode, done.stdout))
    return done.stdout


def follow(name, programs, folder):
    launcher, traces, batch, parameter_bytes, most, text = SCRIPTS[name]
    call(os.path.join(programs, "dlprof"), "run", "-o", folder, sys.executable, *launcher, USUAL, name)
    files = sorted(glob.glob(os.path.join(folder, "*.json.gz")))
    costs, results = os.path.join(folder, "costs.ini"), os.path.join(folder, "results.csv")
    said = call(os.path.join(programs, "dlcal"), "costs", files[0], "-o", costs)
    with open(costs, encoding="utf-8") as file:
        kept = file.read()
    predicted = call(os.path.join(programs, "dlsim"), "--costs", costs, "--workers", "1,2", "--mode",
                     "allreduce,average,async", "-o", results)
    wrong = []
    if len(files) != traces:
        wrong.append("%d traces, not %d" % (len(files), traces))
    if "\nbatch = %d\n" % batch not in kept:  # of a whole step
        wrong.append("the batch is not %d" % batch)
    if "parameter_bytes = %d\n" % parameter_bytes not in kept:
        wrong.append("the parameters are not %d bytes" % parameter_bytes)
    for part in ("forward", "backward", "update"):
        if "[op step.%s]" % part not in kept:
            wrong.append("there is no %s part" % part)
    steps = re.search(r"samples, (\d+) steps of", said)
    if steps is None or not most - 4 <= int(steps.group(1)) <= most:
        wrong.append("not %d to %d steps" % (most - 4, most))
    if text not in re.sub(r"\s+", " ", said + kept):
        wrong.append("no '%s'" % text)
    if predicted.count("allreduce") < 2:
        wrong.append("nothing was predicted")
    return ["%s: %s" % (name, w) for w in wrong] + [said] * bool(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of dlprof, dlcal and dlsim")
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT", help="one of " + ", ".join(SCRIPTS))
    args = parser.parse_args()
    wrong = []
    for name in args.scripts or SCRIPTS:
        with tempfile.TemporaryDirectory() as folder:
            wrong += follow(name, args.bin, os.path.join(folder, "profile"))
        print("%s: recorded" % name, flush=True)
    print("\n".join(wrong) if wrong else "all scripts were recorded and predicted")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
