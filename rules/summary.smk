"""Summary: one row per pair and variant; a comparison where parameters are swept; the verdict."""

# now: in a module the names of paths mean something else later
LOGS = workflow.pathvars.apply("<logs>")
RESULTS = workflow.pathvars.apply("<results>")


rule summary:
    input:
        of_batch(job_params.summary_inputs, results=RESULTS),
    output:
        report(
            out.run("summary.tsv"),
            caption="../report/summary.rst",
            category="Summary",
            labels={"figure": "all pairs"},
        ),
        out.run("multiqc/unglow_general_mqc.json"),
        out.run("multiqc/unglow_pairs_mqc.json"),
        out.run("multiqc/unglow_spoilt_mqc.json"),
        out.run("multiqc/unglow_jobs_mqc.json"),
    log:
        out.record("logs", "summary", "run"),
        telemetry=out.record("telemetry", "summary", "run"),
    benchmark:
        out.record("benchmarks", "summary", "run")
    localrule: True  # a second or less, on small files
    conda:
        "../envs/unglow.yaml"
    threads: 1
    resources:
        mem_mb=mem_mb("summary", beside=True),
        disk_mb=disk_mb("summary"),
        runtime=runtime_beside("summary"),
        attempt=this_attempt,
    params:
        version=3,
        entries=of_batch(job_params.summary_entries, logs=LOGS),
        problems=of_batch(job_params.summary_problems),
    script:
        "../scripts/summary.py"


rule comparison:
    input:
        unpack(of_batch(job_params.comparison_inputs)),
    output:
        table=report(
            out.pair("comparison.tsv"),
            caption="../report/comparison.rst",
            category="Comparison",
            subcategory="{sample} {dye}",
            labels={"figure": "variants, table"},
        ),
        figure=report(
            out.pair("comparison.png"),
            caption="../report/comparison.rst",
            category="Comparison",
            subcategory="{sample} {dye}",
            labels={"figure": "variants side by side"},
        ),
        digests=out.digests("comparison", "pair"),
    log:
        out.record("logs", "comparison", "pair"),
        telemetry=out.record("telemetry", "comparison", "pair"),
    benchmark:
        out.record("benchmarks", "comparison", "pair")
    group:
        figures_group
    conda:
        "../envs/unglow.yaml"
    threads: 1
    resources:
        mem_mb=mem_mb("comparison"),
        disk_mb=disk_mb("comparison"),
        runtime=runtime("comparison"),
        attempt=this_attempt,
    params:
        version=6,
        entries=of_batch(job_params.summary_entries, logs=LOGS),
    script:
        "../scripts/comparison.py"


rule verdict:
    input:
        out.run("summary.tsv"),
    output:
        out.run("verdict.txt"),
        digests=out.digests("verdict", "run"),
    log:
        out.record("logs", "verdict", "run"),
        telemetry=out.record("telemetry", "verdict", "run"),
    benchmark:
        out.record("benchmarks", "verdict", "run")
    retries: 0  # nothing would change
    localrule: True  # a second or less, on small files
    conda:
        "../envs/unglow.yaml"
    threads: 1
    resources:
        mem_mb=mem_mb("verdict", beside=True),
        disk_mb=disk_mb("verdict"),
        runtime=runtime_beside("verdict"),
        attempt=this_attempt,
    params:
        allow_failed=batch.settings["allow_failed"],
    script:
        "../scripts/verdict.py"
