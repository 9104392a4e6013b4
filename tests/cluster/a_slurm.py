"""A real Slurm of several nodes on this machine, with accounting and memory limits."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from result_digests import digest_of

from unglow.telemetry.reading.history import History

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
BIN = Path(sys.executable).parent
PROFILE = PROJECT / "profiles" / "slurm"
#: The pairs of the runs.
SAMPLES = ("Rock1", "Rock2", "Rock3")
#: Words for a run of every kind of job but figures.
SHORT = ("--until", "detect", "--config", "scale={methods: [linear]}")
#: As far as the registration, for what happens to the first jobs: on Slurm each costs a Snakemake.
FIRST = ("--until", "register", *SHORT[2:])
NEEDED = ("slurmctld", "slurmd", "slurmdbd", "munged", "mariadbd", "sbatch")
PACKAGES = "slurm-wlm slurmdbd munge mariadb-server"


def missing() -> str | None:
    """Say why there can be no Slurm here; None if there can."""
    places = os.pathsep.join((os.environ["PATH"], "/usr/sbin", "/sbin"))
    absent = [name for name in NEEDED if shutil.which(name, path=places) is None]
    if absent:
        return f"no Slurm here ({absent[0]} is missing): apt-get install {PACKAGES}"
    if find_spec("snakemake_executor_plugin_slurm") is None:
        return "no executor for Slurm here: pip install 'unglow[cluster]'"
    if os.getuid() != 0:
        return "only root can start a Slurm with several nodes on one machine"
    if not os.access("/sys/fs/cgroup/memory/tasks", os.W_OK):
        return "no memory control groups of version 1 here, which Slurm's limits need"
    return None


class Slurm:
    """A cluster whose state is in a directory; several can run side by side."""

    #: What it listens to besides its first port: accounting, and up to nine nodes.
    PORTS = (1, *range(11, 20))

    def __init__(self, state: Path, port: int, *, nodes: int = 3, memory_mb: int = 2500) -> None:
        self.state = state
        self._start = {"BASE_PORT": str(port), "MEM": str(memory_mb), "NODES": str(nodes)}
        self._variables: dict[str, str] = {}

    def up(self) -> None:
        """Start what does not run: all of it, or a node that was killed."""
        # files, not pipes: daemons that were started would hold pipes open
        with (self.state.parent / "up.out").open("w+") as out:
            done = subprocess.run(
                ["bash", HERE / "slurm-up.sh", self.state],
                env=os.environ | self._start,
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=1200,
                check=False,
            )
            out.seek(0)
            text = out.read()
        assert done.returncode == 0, text
        exports = [row for row in text.splitlines() if row.startswith("export ")]
        pairs = (row.removeprefix("export ").split("=", 1) for row in exports)
        self._variables = {key: value for key, value in pairs if key != "PATH"}

    def down(self) -> None:
        """Stop everything, and forget it."""
        subprocess.run(
            ["bash", HERE / "slurm-down.sh", self.state, "--purge"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=1200,
            check=False,
        )

    def kill_node(self, node: str, *words: str) -> None:
        """Crash a node; with ``--daemon-only`` its jobs go on, and only Slurm loses it."""
        subprocess.run(
            ["bash", HERE / "slurm-killnode.sh", self.state, node, *words],
            check=True,
            capture_output=True,
            timeout=300,
        )

    def kill_daemon(self, name: str) -> None:
        """Kill a daemon (slurmctld, slurmdbd, munged ...); `up` starts it again."""
        pid = int((self.state / "run" / f"{name}.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)

    def processes(self, node: str, job: str) -> list[int]:
        """Return all processes of a job on a node, but for those of Slurm itself."""
        place = Path(f"/sys/fs/cgroup/freezer/slurm_{node}")
        lists = place.rglob(f"job_{job}/**/cgroup.procs")
        pids = [int(pid) for path in lists for pid in path.read_text().split()]
        return [pid for pid in pids if not words_of(pid).startswith("slurmstepd")]

    @property
    def environment(self) -> dict[str, str]:
        """Variables for commands that use the cluster."""
        path = f"{self.state / 'bin'}:{BIN}:/usr/sbin:{os.environ['PATH']}"
        return os.environ | self._variables | {"PATH": path, "COLUMNS": "200"}

    def ask(self, *words: str) -> list[list[str]]:
        """Ask Slurm; words of each line of the answer."""
        done = subprocess.run(
            words, env=self.environment, capture_output=True, text=True, timeout=300, check=True
        )
        return [line.split() for line in done.stdout.splitlines()]

    @property
    def nodes(self) -> list[str]:
        """Names of the nodes."""
        return sorted({row[0] for row in self.ask("sinfo", "-h", "-N", "-o", "%N")})

    def running(self) -> dict[str, tuple[str, str]]:
        """Node and comment (rules and wildcards) of each running job, by its id."""
        rows = self.ask("squeue", "-h", "-t", "running", "-o", "%i %N %k")
        return {job: (node, comment) for job, node, comment in rows}

    def wait_for(self, what, seconds: float = 600):
        """Wait until something is true of the cluster, and return that."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = what()
            if found:
                return found
            time.sleep(0.1)
        raise AssertionError(f"not within {seconds:.0f} s: {self.ask('squeue')}")

    def command(self, directory: Path, *words: object, timeout: int = 1500) -> tuple[int, str]:
        """Run a command to its end; exit status and output."""
        with self.started(directory, *words) as process:
            process.wait(timeout)
        return process.returncode, (directory / "output.txt").read_text()

    def snakemake(self, *words: object) -> tuple[object, ...]:
        """Return the command of a run on the cluster."""
        start = ("snakemake", "-s", PROJECT / "Snakefile", "--workflow-profile", PROFILE)
        return (*start, "--cores", "2", "--default-resources", "slurm_account=test", *words)

    @contextmanager
    def started(self, directory: Path, *words: object):
        """Start a command; what it prints goes to output.txt in its directory."""
        with (directory / "output.txt").open("w") as output:
            process = subprocess.Popen(
                [str(word) for word in words],
                cwd=directory,
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()


def words_of(pid: int) -> str:
    """Return the command of a process; empty if it has gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def causes_in(results: Path) -> dict[str, str]:
    """How each attempt ended that did not end well, and each job that was lost, by its title."""
    runs = History.read(results).runs
    lost = {
        job.title: loss.outcome
        for run in runs
        for job in run.run.jobs
        for loss in job.losses.values()
    }
    attempts = (a for run in runs for a in run.attempts if a.outcome != "ok")
    return lost | {a.title: a.outcome for a in attempts}


def assert_registered_as_in(reference: Path, results: Path, samples: tuple[str, ...]) -> None:
    """Assert that what `FIRST` makes is all there, and as in a run that went further."""
    made = bytes_of(results)
    assert {f"{sample}/SYTO9/transform.json" for sample in samples} <= made.keys()
    places = {_place(path) for path in made}
    assert not [place for place in places if "aligned_pre.ome.zarr" in place]
    assert made == {p: content for p, content in bytes_of(reference).items() if _place(p) in places}


def _place(path: str) -> tuple[str, ...]:
    """Return what a result file is or lies in: a store is compared whole."""
    parts = Path(path).parts
    return parts[:5] if "details" in parts else parts[:3]


def bytes_of(results: Path) -> dict[str, str]:
    """Digest of every result file of every pair, by its path below the results directory."""
    return {
        str(path.relative_to(results)): digest_of(path)
        for path in sorted(results.rglob("*"))
        if path.is_file()
        and len(path.relative_to(results).parts) > 2
        and path.relative_to(results).parts[0] not in ("telemetry", "benchmarks", "details")
        and path.name != ".snakemake_timestamp"
    }
