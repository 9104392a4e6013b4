"""What each job is given, as Snakemake parses the rules."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
#: Parses the rules as Snakemake does, and writes what each job is given.
READ = f"""
import json, sys
from pathlib import Path
from snakemake.api import SnakemakeApi
from snakemake.settings.types import ConfigSettings, OutputSettings, Quietness, ResourceSettings
config = json.loads(sys.argv.pop())
sys.argv += ["-n"]
output = OutputSettings(dryrun=True, quiet={{Quietness.ALL}})
with SnakemakeApi(output) as api:
    made = api.workflow(
        resource_settings=ResourceSettings(cores=2),
        config_settings=ConfigSettings(config=config),
        snakefile=Path({str(PROJECT / "Snakefile")!r}),
    )
    made.dag().execute_workflow(executor="dryrun")
    from unglow.core.records import to_plain
    jobs = [
        [job.rule.name, dict(job.wildcards_dict or {{}}),
         {{name: to_plain(value) for name, value in job.params.items()}},
         [str(file) for file in job.input], job.group]
        for job in made._workflow.dag.jobs
    ]
Path("jobs.json").write_text(json.dumps(jobs))
"""


def jobs_of(work, config):
    """Return rule, wildcards, params, inputs and group of all jobs."""
    done = subprocess.run(
        [sys.executable, "-c", READ, json.dumps(config)],
        cwd=work, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((work / "jobs.json").read_text())
