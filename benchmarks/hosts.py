"""One run over several processes (`jax.distributed`), which meet on a loopback address: seconds of a round.

The clients of FedSPD-DP (N = 2 K, 200 records of 81 columns, Q 5, b 10) are played by one process with one device, by
one process with two, and by two processes with one each, as two hosts would. All are started anew; the seconds of a
round are the difference between a long and a short run, so that starting and compiling do not count. The last column
is what a device receives of the others' replies in a round. On one machine nothing is gained, since devices share its
cores: the table says what a round costs more where replies go through sockets.

Examples:
    python benchmarks/hosts.py
    python benchmarks/hosts.py --participants 100 --repeats 1
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

SHORT, LONG = 5, 25  # rounds
WAYS = {"one process, one device": (1, 1), "one process, two devices": (1, 2), "two processes": (2, 1)}


def play(participants: int, repeats: int, processes: int, process: int, address: str) -> None:
    """Be one of the processes; the first one prints the best seconds of a round."""
    from benchmarks.growth import BASE, prepared
    from fedspd.engine.jax_engine.session import join

    if processes > 1:
        join(address, processes, process)
    from fedspd.engine.jax_engine.batch import simulate_batch

    sizes = BASE | {"K": participants, "N": 2 * participants}
    runs = {rounds: prepared(sizes | {"T": rounds}) for rounds in (SHORT, LONG)}
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(1 + repeats):
        for rounds, simulation in runs.items():
            begin = time.perf_counter()
            list(simulate_batch([simulation]))
            best[rounds] = min(best[rounds], time.perf_counter() - begin)
    if process == 0:
        print(json.dumps({"seconds": (best[LONG] - best[SHORT]) / (LONG - SHORT)}))


def seconds(participants: int, repeats: int, processes: int, devices: int) -> float:
    """Of a round, by as many processes with as many devices each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, __file__, "--participants", str(participants), "--repeats", str(repeats)]
    started = [
        subprocess.Popen(
            [*command, "--as", f"{processes},{process},{address}"],
            env=os.environ | flags, stdout=subprocess.PIPE, text=True,
        )
        for process in range(processes)
    ]  # fmt: skip
    out = [each.communicate()[0] for each in started]
    if any(each.returncode for each in started):
        sys.exit("a process ended with an error")
    return float(json.loads(out[0].splitlines()[-1])["seconds"])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--participants", type=int, default=1000, help="K")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--as", dest="part", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        processes, process, address = options.part.split(",")
        play(options.participants, options.repeats, int(processes), int(process), address)
        return
    print("| K | devices | ms a round | over one device | KiB received by a device |")
    print("|---|---|---|---|---|")
    alone = None
    for name, (processes, devices) in WAYS.items():
        found = seconds(options.participants, options.repeats, processes, devices)
        alone = alone or found
        total = processes * devices
        received = options.participants * 162 * 4 * (total - 1) / total / 1024
        print(
            f"| {options.participants:,} | {name} | {1e3 * found:.2f} | {found / alone:.2f} | {received:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
