"""Align: pre warped once onto the post frame, with statistics from the same pass."""


rule align:
    input:
        post=out.ingested(store("post")),
        pre=out.ingested(store("pre")),
        transform=out.registered("transform.json"),
        displacement=out.registered("displacement.npz"),
    output:
        aligned=out.registered(store("aligned_pre")),
        statistics=out.registered("statistics.npz"),
        bins=out.registered("bins.npz"),
        digests=out.digests("align", "registered"),
    log:
        out.record("logs", "align", "registered"),
        telemetry=out.record("telemetry", "align", "registered"),
    benchmark:
        out.record("benchmarks", "align", "registered")
    group:
        pair_group
    conda:
        "../envs/unglow.yaml"
    threads: 2
    resources:
        mem_mb=mem_mb("align"),
        disk_mb=disk_mb("align"),
        runtime=runtime("align"),
        attempt=this_attempt,
    params:
        memory=memory("align"),
        version=2,
    script:
        "../scripts/align.py"
