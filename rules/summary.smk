"""Summary: one row per pair and variant; a comparison where parameters are swept; the verdict."""

# now: in a module the names of paths mean something else later
LOGS = workflow.pathvars.apply("<logs>")
RESULTS = workflow.pathvars.apply("<results>")

of_variants = dict(
    caption="../report/comparison.rst",
    category="Comparison",
    subcategory="{sample} {dye}",
)


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
        entries=of_batch(job_params.summary_entries, logs=LOGS),
        problems=of_batch(job_params.summary_problems),
    script:
        "../scripts/summary.py"


rule comparison:
    input:
        unpack(of_batch(job_params.comparison_inputs)),
    output:
        **outputs(
            "comparison",
            table=dict(**of_variants, labels={"figure": "variants, table"}),
            figure=dict(**of_variants, labels={"figure": "variants side by side"}),
        ),
    log:
        **logs("comparison"),
    benchmark:
        record("benchmarks", "comparison")
    group:
        figures_group
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["comparison"]
    resources:
        **resources("comparison"),
    params:
        memory=memory("comparison"),
        version=7,
        entries=of_batch(job_params.summary_entries, logs=LOGS),
    script:
        "../scripts/comparison.py"


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
