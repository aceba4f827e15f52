"""warm.py with programs in place of train.py and bench_gloo.py: output, exit code, processor time,
and the end of the other processes. No PyTorch."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = '''
import os, sys, time
print("loaded")
def main():
    if sys.argv[1] == "spin":
        end = time.process_time() + 0.3
        while time.process_time() < end:
            pass
    if sys.argv[1] == "fail":
        sys.exit("it failed")
    if sys.argv[1] == "wait":
        if os.fork() > 0:
            print(os.getpid(), flush=True)
        time.sleep(60)
    print("argument", sys.argv[1])
    print("words to stderr", file=sys.stderr)
    sys.exit(int(sys.argv[2]))
'''


def call(warm, path, *words):
    return subprocess.run([sys.executable, warm, path, *words], capture_output=True, text=True,
                          timeout=300)


def running(group):
    """Processes of the group, except those that only wait for a request of their parent."""
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                state, _, of = file.read().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        count += int(of) == group and state not in "ZX"
    return count


def check(server, warm, path):
    assert [server.stdout.readline() for _ in range(3)] == ["loaded\n", "loaded\n", "ready\n"]

    done = call(warm, path, "train", "hello", "3")  # only the server has loaded the modules
    assert done.returncode == 3, done
    assert done.stdout.startswith("argument hello\nprocessor_s "), done
    assert done.stderr == "words to stderr\n", done

    done = call(warm, path, "bench_gloo", "fail")
    assert done.returncode == 1 and done.stderr == "it failed\n", done

    done = call(warm, path, "bench_gloo", "spin", "0")
    used = float(done.stdout.split()[-1])
    assert done.returncode == 0 and 0.3 <= used < 1, done

    caller = subprocess.Popen([sys.executable, warm, path, "train", "wait", "0"],
                              stdout=subprocess.PIPE, text=True)
    group = int(caller.stdout.readline())
    assert running(group) == 2  # the program and its child
    caller.send_signal(signal.SIGKILL)
    caller.wait()
    until = time.monotonic() + 30
    while running(group) and time.monotonic() < until:
        time.sleep(0.01)
    assert running(group) == 0

    server.stdin.close()
    assert server.wait(timeout=30) == 0 and not os.path.exists(path)


def main():
    with tempfile.TemporaryDirectory() as folder:
        warm, path = shutil.copy(os.path.join(HERE, "warm.py"), folder), os.path.join(folder, "s")
        for name in ("train.py", "bench_gloo.py"):
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(PROGRAM)
        server = subprocess.Popen([sys.executable, warm, "--serve", path], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        try:
            check(server, warm, path)
        finally:
            server.kill()


if __name__ == "__main__":
    main()
