"""Starts train.py or bench_gloo.py in a process that has PyTorch loaded, in 0.1 s instead of 4 s, as
run.py starts many.

  warm.py --serve SOCKET                # until its standard input ends
  warm.py SOCKET train ARGUMENT...      # arguments of train.py; both programs end together
  warm.py SOCKET bench_gloo ARGUMENT...

After the program's output it prints "processor_s VALUE", the processor time that the program used.

The server imports PyTorch, computes nothing and has one thread. It forks a process for each call, in
the same state as a new process that has imported PyTorch.
"""

import array
import importlib
import json
import os
import resource
import selectors
import signal
import socket
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = ("train", "bench_gloo")


def end_with(connection):
    """Ends this process and its children when the caller has exited."""
    connection.recv(1)
    os.killpg(0, signal.SIGKILL)


def run(connection, argv, files):
    """Runs in the forked process."""
    program = importlib.import_module(argv[0])
    os.setpgid(0, 0)
    for number, file in zip((1, 2), files):
        os.dup2(file, number)
    threading.Thread(target=end_with, args=(connection,), daemon=True).start()
    sys.argv = [argv[0] + ".py", *argv[1:]]
    try:
        code = program.main()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        code = end.code if isinstance(end.code, int) else 1
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(f"processor_s {sum(u.ru_utime + u.ru_stime for u in used):.3f}", flush=True)
    connection.sendall(bytes([code or 0]))


def serve(path):
    sys.path.append(os.path.join(HERE, "..", "..", "profiler", "torch"))
    for name in PROGRAMS:
        importlib.import_module(name)  # loads PyTorch
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies, as nothing waits for the children
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(64)
    print("ready", flush=True)
    waiting = selectors.DefaultSelector()
    waiting.register(listener, selectors.EVENT_READ)
    waiting.register(sys.stdin, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            if key.fileobj is sys.stdin:
                os.unlink(path)
                return
            connection, _ = listener.accept()
            text, files, _, _ = socket.recv_fds(connection, 1 << 20, 2)
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                try:
                    run(connection, json.loads(text), files)
                finally:
                    os._exit(1)
            for file in files:
                os.close(file)
            connection.close()


def call(path, argv):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    socket.send_fds(connection, [json.dumps(argv).encode()], array.array("i", [1, 2]))
    code = connection.recv(1)
    return code[0] if code else 1


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    else:
        sys.exit(call(sys.argv[1], sys.argv[2:]))
