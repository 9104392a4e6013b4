"""Summary: one row per pair and variant; the verdict."""

# now: in a module the names of paths mean something else later
LOGS = workflow.pathvars.apply("<logs>")
RESULTS = workflow.pathvars.apply("<results>")


rule summary:
    input:
        of_batch(job_params.summary_inputs, results=RESULTS),
    output:
        **outputs(
            "summary",
            summary=dict(
                caption="../report/summary.rst",
                category="Summary",
                labels={"figure": "all pairs"},
            ),
        ),
    log:
        **logs("summary"),
    benchmark:
        record("benchmarks", "summary")
    localrule: True  # a second or less, on small files
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["summary"]
    resources:
        **resources("summary", in_main=True),
    params:
        memory=memory("summary"),
        version=3,
        entries=of_batch(outdated.summary_entries, logs=LOGS),
        problems=of_batch(job_params.summary_problems),
    script:
        "../scripts/summary.py"


rule verdict:
    input:
        out.run("summary.tsv"),
    output:
        **outputs("verdict"),
    log:
        **logs("verdict"),
    benchmark:
        record("benchmarks", "verdict")
    retries: 0  # nothing would change
    localrule: True  # a second or less, on small files
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["verdict"]
    resources:
        **resources("verdict", in_main=True),
    params:
        memory=memory("verdict"),
        allow_failed=batch.settings.allow_failed,
    script:
        "../scripts/verdict.py"
