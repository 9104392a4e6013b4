"""Align: pre warped once onto the post frame, with statistics from the same pass."""


rule align:
    input:
        post=out.ingested(store("post")),
        pre=out.ingested(store("pre")),
        transform=out.registered("transform.json"),
        displacement=out.registered("details/displacement.npz"),
    output:
        **outputs("align"),
    log:
        **logs("align"),
    benchmark:
        record("benchmarks", "align")
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: threads_of["align"]
    resources:
        **resources("align"),
    params:
        memory=memory("align"),
        version=4,
    script:
        "../scripts/align.py"
