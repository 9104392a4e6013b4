"""Summary: one row per pair and variant; the verdict."""

# now: in a module the names of paths and rules mean something else later
VERDICT = workflow.modifier.modify_rulename("verdict")
LOGS = workflow.pathvars.apply("<logs>")
RESULTS = workflow.pathvars.apply("<results>")


rule summary:
    input:
        of_batch(job_params.summary_inputs, results=RESULTS),
    output:  # without digests: it is written again when a run ends
        summary=report(
            "<results>/summary.tsv",
            caption="../report/summary.rst",
            category="Summary",
            labels={"figure": "all pairs"},
        ),
        readme="<results>/README.txt",
        multiqc="<results>/unglow_mqc.json",
    log:
        logs="<logs>/summary.log",
        telemetry="<telemetry>/summary.jsonl",
    benchmark:
        "<benchmarks>/summary.tsv"
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
        "<results>/summary.tsv",
    output:
        verdict="<results>/verdict.txt",
        digests="<results>/details/digests/verdict.sha256",
    log:
        logs="<logs>/verdict.log",
        telemetry="<telemetry>/verdict.jsonl",
    benchmark:
        "<benchmarks>/verdict.tsv"
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
